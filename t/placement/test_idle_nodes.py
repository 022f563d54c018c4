"""Idle nodes: of equal nodes, the one in the domain with the fewest idle nodes is found."""

from random import Random

import pytest

from placement.test_work import cluster
from treepool.placement.nodes.fabric_tree import ROOT
from treepool.placement.pool import Pool
from treepool.rfc import idset


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
        return [rank for rank in fabric.ranks_in(domain) if index.up >> rank & 1]

    able = {
        rank for rank in ranks_in(domain) if index.state_of[rank] in states and within >> rank & 1
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
        index.put(1 << rank, new)
        index.set_up(index.up & ~(1 << rank) | (chance.random() < 0.9) << rank)
        if chance.random() < 0.03:
            indexes = [*indexes[-2:], index.copy()]
        if chance.random() < 0.5:
            states = set(chance.sample(list(index.buckets), min(2, len(index.buckets))))
            within = idset.EVERY
            if chance.random() < 0.3:
                within = idset.from_ids(chance.sample(range(40), 9))
            domain = chance.choice([ROOT, ROOT, chance.randrange(len(fabric))])
            among = idset.union(index.buckets[state] for state in states) & within
            found = index.census(fabric).first(among, domain)
            assert found == obvious(index, fabric, states, within, domain), step
