"""Spare nodes: kept idle until another fails, so that jobs still get as many nodes as before."""

import random

import pytest

from depth import examples
from placement.promises import NOW, Site, pool_of, ranks_in
from treepool.errors import InfeasibleRequest
from treepool.placement.plan.jobs import Rule, finish
from treepool.placement.plan.spares import Spares
from treepool.placement.pool import Pool
from treepool.rfc import idset
from work import Lines

#: Two switches of eight nodes, and one node more.
SWITCHES = {"switch": [{"ranks": "0-7"}, {"ranks": "8"}, {"ranks": "9-16"}]}


class Case(Site):
    """A queue on nodes of 8 cores, of which some are spares."""

    def __init__(self, spares=1, pool=None):
        super().__init__(pool or pool_of(17, fabric=SWITCHES), Rule("conservative", 8))
        self.spares = Spares(self.queue)
        self.spares.keep(spares)
        self.started_on = {}
        self.follow()

    def started(self, job, allocation, how):
        self.started_on[job.jobid] = ranks_in(allocation.parts)

    def refused(self, job, reason):
        pass

    @property
    def kept(self):
        return set(idset.iterate(self.spares.kept))

    def follow(self):
        self.spares.follow(self.now)
        finish(self.queue.run())

    def submit(self, jobid, shape, **more):
        super().submit(jobid, shape, **more)
        finish(self.queue.run())
        return self.started_on.get(jobid)

    def down(self, ranks):
        self.pool.mark_down(ranks)
        self.follow()

    def up(self, ranks):
        self.pool.mark_up(ranks)
        self.follow()

    def free(self, jobid):
        self.pool.free(jobid)
        self.follow()


def test_a_spare_serves_where_a_node_fails_and_is_kept_again_when_it_returns():
    case = Case()
    assert case.kept == {8}, "no switch is broken for it"
    assert case.submit(1, "slot=16/node{x}") == set(range(17)) - {8}
    case.down("3")
    assert case.kept == set()
    assert case.submit(2, "slot=1/core=1") == {8}
    case.free(1)
    assert case.submit(3, "slot=16/node{x}") is None
    case.free(2)
    assert case.started_on[3] == set(range(17)) - {3}
    case.up("3")
    assert case.kept == {3}, "it is the only one that is idle"
    case.free(3)
    assert case.kept == {8}


def test_a_spare_that_is_idle_is_free_for_nobody_and_those_who_wait_are_told():
    case = Case()
    case.submit(1, "slot=8/node{x}")
    assert case.submit(2, "slot=9/core=8") is None
    assert case.why(2).startswith("what is free is kept as spare")


def infeasible(case, shape):
    """Why no idle pool could serve *shape*; None if it could."""
    try:
        case.pool.check_feasibility(case.request(shape))
    except InfeasibleRequest as e:
        return str(e)
    return None


def test_a_job_that_the_rest_could_never_serve_is_infeasible_and_told_why():
    case = Case()
    why = (
        "the request asks for 17 nodes: of those in the pool, 16 can serve it, beside 1 spare node"
    )
    assert infeasible(case, "slot=17/node{x}") == why
    assert infeasible(case, "slot=16/node{x}") is None
    case.down("0")
    assert infeasible(case, "slot=17/node{x}") == why, "node 0 will be back, and with it the spare"
    case.spares.keep(0)
    assert infeasible(case, "slot=17/node{x}") is None
    case.spares.keep(99)
    assert infeasible(case, "slot=1/core=1") == "there is no other node, beside 99 spare nodes"


def test_the_spare_that_is_nearest_to_the_node_that_failed_serves():
    case = Case(3, pool_of(8, fabric={"rack": [{"ranks": "0-5"}, {"ranks": "6-7"}]}))
    assert case.kept == {5, 6, 7}
    case.down("2")
    assert case.kept == {6, 7}
    case.pool.remove_ranks("7")
    case.follow()
    assert case.kept == {6}
    case.up("2")
    assert case.kept == {5, 6}


def test_nodes_of_a_rare_kind_are_no_spares():
    R_lite = [
        {"rank": "0-3", "children": {"core": "0-7"}},
        {"rank": "4-5", "children": {"core": "0-7", "gpu": "0-3"}},
    ]
    case = Case(1, Pool({"version": 1, "execution": {"R_lite": R_lite, "nodelist": ["n[0-5]"]}}))
    assert case.kept == {3}


def test_a_node_that_is_lost_for_good_is_replaced_for_good():
    case = Case(2)
    case.submit(1, "slot=15/node{x}")
    for lost in range(2):
        case.pool.remove_ranks(str(4 + lost))
        case.follow()
        assert len(case.kept) == 1 - lost
        assert infeasible(case, "slot=15/node{x}") is None and infeasible(case, "slot=16/node{x}")
    case.pool.remove_ranks("6")
    assert infeasible(case, "slot=15/node{x}")


@pytest.mark.parametrize("seed", range(examples(60)))
def test_as_many_are_kept_as_there_can_be_and_no_job_is_touched(seed):
    chance = random.Random(seed)
    spares, nodes = chance.randint(1, 3), chance.randint(4, 9)
    switches = {"switch": [{"ranks": "0-1"}, {"ranks": f"2-{nodes - 1}"}]}
    case = Case(spares, pool_of(nodes, fabric=switches if seed % 2 else None))
    down, running = set(), {}
    for jobid in range(1, 60):
        what, rank = chance.random(), chance.randrange(nodes)
        if what < 0.3:
            shape = (
                f"slot={chance.randint(1, nodes - spares)}/{chance.choice(['core=2', 'node{x}'])}"
            )
            case.submit(jobid, shape, duration=chance.choice([0.0, 10.0]))
        elif what < 0.6 and running:
            case.free(chance.choice(list(running)))
        elif what < 0.8:
            down.add(rank)
            case.down(str(rank))
        else:
            down.discard(rank)
            case.up(str(rank))
        running = {j: ranks_in(case.pool.job(j).parts) for j, _ in case.pool.job_end_times()}
        busy, up = set().union(*running.values()), set(range(nodes)) - down
        wanted = max(0, spares - len(down))
        assert not case.kept & busy and case.kept <= up
        assert len(case.kept) == min(wanted, len(up - busy))


def test_to_follow_a_pool_that_has_not_changed_or_only_in_jobs_is_little_work():
    nodes = 11_136
    switches = [{"ranks": f"{n}-{n + 15}"} for n in range(0, nodes, 16)]
    case = Case(4, pool_of(nodes, fabric={"switch": switches}))
    case.runs(1, f"slot={nodes - 10}/node{{x}}", NOW + 100)
    case.runs(2, "slot=1/core=1", NOW + 100)
    with Lines(60):
        case.spares.follow(case.now)
        case.spares.follow(case.now)
