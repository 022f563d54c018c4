"""Idle nodes: of equal nodes, the one in the domain with the fewest idle nodes is found."""

from random import Random

import pytest

from placement.test_work import cluster, request
from treepool import Pool
from treepool.placement.nodes.fabric import ROOT
from treepool.placement.nodes.idlenodes import IdleNodes
from treepool.placement.nodes.rankset import RankSet
from work import Lines


def pool_of(nodes, switch, alone=0):
    """A pool of so many nodes, a few of them in each switch, two or three of these in each cell,
    and the last few *alone* below the root."""
    R = cluster(nodes)
    ranks = list(range(nodes - alone))
    Random(nodes).shuffle(ranks)
    switches = [
        {"ranks": ",".join(map(str, sorted(ranks[i : i + switch])))}
        for i in range(0, len(ranks), switch)
    ]
    cells, sizes = [], Random(switch)
    while switches:
        cells.append(
            {"switch": [switches.pop() for _ in range(min(len(switches), sizes.choice((2, 3))))]}
        )
    R["scheduling"]["fabric"] = {"cell": cells}
    return Pool(R)


def obvious(index, fabric, states, within, domain):
    """The rule, written down: the child with the fewest idle nodes, ties to the lowest rank."""

    def ranks_in(domain):
        return [rank for rank in fabric.ranks_in(domain) if index.up[rank]]

    able = {
        rank
        for rank in ranks_in(domain)
        if index.state_of[rank] in states and (within is None or rank in within)
    }
    if not able:
        return -1
    while fabric.children[domain]:
        domain = min(
            (d for d in fabric.children[domain] if able.intersection(ranks_in(d))),
            key=lambda d: (
                sum(index.state_of[rank].idle for rank in ranks_in(d)),
                fabric.lowest[d],
            ),
        )
    return min(able.intersection(ranks_in(domain)))


@pytest.mark.parametrize("seed", range(12))
def test_it_is_found_after_any_changes_also_in_copies(seed):
    chance = Random(seed)
    pool = pool_of(40, 4, alone=chance.choice([0, 3]))
    fabric, table = pool.inventory.fabric, pool.inventory.states
    indexes = [pool.situation.index]
    for step in range(300):
        index = chance.choice(indexes)
        rank = chance.randrange(40)
        state = index.state_of[rank]
        cores, gpus = chance.choice([(0, 0), (1, 0), (3, 0), (1, 1)])
        full = state.type.root
        new = table.get(state.type, full.cores & ~cores, full.gpus & ~gpus)
        index.put(rank, new, chance.random() < 0.9)
        if chance.random() < 0.03:
            indexes = [*indexes[-2:], index.copy()]
        if chance.random() < 0.5:
            states = set(chance.sample(list(index.buckets), min(2, len(index.buckets))))
            within = None
            if chance.random() < 0.3:
                within = RankSet()
                within.update(sorted(chance.sample(range(40), 9)))
            domain = chance.choice([ROOT, ROOT, chance.randrange(len(fabric))])
            found = index.idle_nodes(fabric).first(states, index, within, domain)
            assert found == obvious(index, fabric, states, within, domain), step


def test_a_leaf_is_looked_at_in_vain_once_for_each_rank_that_left_it(monkeypatch):
    """That a leaf has no rank in a state any more is noted, so it is not looked at again."""
    pool = pool_of(120, 8)
    fabric, index = pool.inventory.fabric, pool.situation.index
    looks = []
    plain = IdleNodes._without
    monkeypatch.setattr(IdleNodes, "_without", lambda *args: looks.append(args) or plain(*args))
    (idle,) = index.buckets
    used = pool.inventory.states.get(idle.type, idle.cores & ~1, idle.gpus)
    index.idle_nodes(fabric)
    for rank in range(100):
        index.put(rank, used, True)
        index.idle_nodes(fabric)
        index.put(rank, idle, True)
    index.put(119, used, True)
    assert index.idle_nodes(fabric).first({used}, index, None, ROOT) == 119
    first = len(looks)
    assert 0 < first <= 2 * 16
    assert index.idle_nodes(fabric).first({used}, index, None, ROOT) == 119
    assert len(looks) == first


def test_leaves_without_ranks_that_may_be_taken_are_not_looked_at():
    """Else the work for a job with a constraint follows the size of the machine."""
    work = []
    for nodes in (120, 1200):
        pool = pool_of(nodes, 8)
        fabric, index = pool.inventory.fabric, pool.situation.index
        counted, within = index.idle_nodes(fabric), RankSet()
        within.add(nodes - 1)
        states = set(index.buckets)
        found = counted.first(states, index, within, ROOT)
        with Lines() as lines:
            assert counted.first(states, index, within, ROOT) == found
        assert found == obvious(index, fabric, states, within, ROOT)
        work.append(lines.count)
    assert work[1] < 2 * work[0]


def test_where_states_were_is_forgotten_with_them():
    pool = pool_of(120, 8)
    fabric, index = pool.inventory.fabric, pool.situation.index
    (idle,) = index.buckets
    for number in range(1, 2000):
        used = pool.inventory.states.get(idle.type, idle.cores & ~number, idle.gpus)
        index.put(number % 120, used, True)
        index.idle_nodes(fabric)
    counted = index.idle_nodes(fabric)
    assert len(counted._where) <= 64 + 2 * len(index.buckets)
    assert sum(map(len, counted._here)) <= 64 + 2 * len(index.buckets)
    for state in index.buckets:
        found = counted.first({state}, index, None, ROOT)
        assert found == obvious(index, fabric, {state}, None, ROOT)


def test_nodes_that_go_up_and_down_without_a_job_leave_no_long_log():
    pool = pool_of(40, 4)
    for _ in range(3000):
        pool.mark_down("7")
        pool.mark_up("7")
    assert len(pool.situation.index.log) <= 1024 + 2 * 40


def test_other_options_leave_what_is_counted():
    """It depends on the nodes alone."""
    pool = pool_of(400, 8)
    asked = request(pool, "slot/core=8")
    for jobid in range(20):
        pool.set_options(policy=("packing", "best-fit")[jobid % 2])
        with Lines() as lines:
            pool.alloc(jobid, asked)
        counts = pool.situation.index._counts
        assert [fabric for _, fabric in counts] == [pool.inventory.fabric] * len(counts)
    assert lines.count < 2000


def test_a_move_between_two_states_in_use_is_little_work():
    """Only moves from idle or to idle change the order of domains."""
    pool = pool_of(120, 8)
    fabric, index = pool.inventory.fabric, pool.situation.index
    (idle,) = index.buckets
    one, other = (
        pool.inventory.states.get(idle.type, idle.cores & ~mask, idle.gpus) for mask in (1, 2)
    )
    work = []
    for states in ((one, other), (one, idle)):
        for state in states:
            index.put(5, state, True)
            index.idle_nodes(fabric)
        with Lines() as lines:
            for state in states * 20:
                index.put(5, state, True)
                index.idle_nodes(fabric)
        work.append(lines.count)
    assert work[0] < 2 / 3 * work[1]
