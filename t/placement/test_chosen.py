"""Nodes of a window that are chosen: the fewest jobs are in the way, by brute force."""

import random
from itertools import combinations

import pytest

from depth import examples
from generators import outcome
from placement.promises import NOW, Site, pool_of
from treepool import parse_shape
from treepool.placement.plan.windows import Window, choose
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources
from work import Lines

START = NOW + 1000.0


class Cluster(Site):
    """Eight nodes below two switches of four; jobs are put on nodes that the test names."""

    def __init__(self):
        fabric = {"switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]}
        super().__init__(pool_of(8, fabric=fabric))
        self.on, self.preemptible = {}, set()

    def holds(self, jobid, ranks, end, core=0, preemptible=False):
        if preemptible:
            self.queue.runs(jobid, NOW, 0.0)
            self.preemptible.add(jobid)
        self.pool.occupy(jobid, tuple((1 << r, 1 << core, 0) for r in ranks), end)
        self.on[jobid] = set(ranks), end

    def choose(self, nodes, within="", **more):
        for _ in self.queue.run():
            pass
        spec = from_resources(
            parse_shape(f"slot={nodes}/node{{x}}"), options={"within": within} if within else None
        )
        request, span = self.pool.parse_resource_request(spec), (START, START + 100.0)
        found = outcome(choose(self.queue, request, within, span, **more))
        return set(idset.iterate(found))

    def in_the_way(self, nodes):
        """How many jobs that are not preemptible, and how many in all."""
        on = self.on.items()
        there = {job for job, (ranks, end) in on if end > START and ranks & set(nodes)}
        return len(there - self.preemptible), len(there)

    def fewest(self, nodes, within, able):
        areas = [set(range(4)), set(range(4, 8))] if within else [set(range(8))]
        sets = (some for area in areas for some in combinations(sorted(area & able), nodes))
        return min(map(self.in_the_way, sets), default=None)


@pytest.mark.parametrize("within", ["", "switch"])
@pytest.mark.parametrize("seed", range(examples(200)))
def test_as_few_jobs_as_can_be_are_in_the_way(seed, within):
    chance, cluster = random.Random(seed), Cluster()
    free = list(range(8))
    chance.shuffle(free)
    for jobid in range(1, chance.randint(1, 6)):
        size = min(len(free), chance.randint(1, 4))
        if size:
            ranks, free = free[:size], free[size:]
            end, gives_way = NOW + chance.choice([500.0, 2000.0, 9e6]), chance.random() < 0.5
            cluster.holds(jobid, ranks, end, preemptible=gives_way)
    down, closed = chance.randrange(8), chance.randrange(8)
    cluster.pool.mark_down(str(down))
    other = Window("other", 1 << closed, START - 10, START + 10)
    cluster.queue.set_windows([other])
    nodes = chance.randint(1, 5)
    found = cluster.choose(nodes, within)
    fewest = cluster.fewest(nodes, within, set(range(8)) - {down, closed})
    if fewest is None:
        assert not found
    else:
        assert len(found) == nodes and not found & {down, closed}
        assert not within or len({rank // 4 for rank in found}) == 1
        assert cluster.in_the_way(found) == fewest


def test_several_jobs_on_a_node_count_each():
    cluster = Cluster()
    for core in range(3):
        cluster.holds(core + 1, [0], 9e6, core)
    for rank in range(1, 8):
        cluster.holds(rank + 10, [rank], 9e6)
    assert 0 not in cluster.choose(7)


def test_nodes_that_it_has_stay_though_jobs_run_there():
    cluster = Cluster()
    for rank in range(2):
        cluster.holds(rank + 1, [rank], 9e6)
    cluster.pool.mark_down("2")
    assert cluster.choose(3, keep=0b011) >= {0, 1}
    assert cluster.choose(3, "switch", keep=0b011) == {0, 1, 3}


@pytest.mark.parametrize("within", ["", "switch"])
def test_to_choose_among_many_nodes_and_jobs_makes_no_long_step(within):
    nodes, jobs = 512, 4096
    switches = [{"ranks": f"{r}-{r + 15}"} for r in range(0, nodes, 16)]
    site = Site(pool_of(nodes, fabric={"switch": switches}))
    for jobid in range(jobs):
        site.pool.occupy(jobid + 1, ((1 << jobid % nodes, 1 << jobid // nodes, 0),), 9e6)
    for _ in site.queue.run():
        pass
    options = {"within": within} if within else None
    spec = from_resources(parse_shape("slot=4/node{x}"), options=options)
    request = site.pool.parse_resource_request(spec)
    site.pool.check_feasibility(request)
    with Lines(20_000) as lines:  # some 2 ms
        for _ in zip(range(500), choose(site.queue, request, within, (START, START + 100.0))):
            lines.count = 0
