"""Slots that take domains of one locality each, on nodes of many such domains."""

from __future__ import annotations

import random

import pytest

from made import alloc, nodes
from placement.wanted import Need, Part
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node import fit
from treepool.placement.pool import Pool
from treepool.placement.request import need
from treepool.rfc import idset
from treepool.rfc.count import Count


def one(number: int) -> Count:
    return Count(number, number)


def ask(slot: Need, most: int, locality: str) -> need.Ask:
    """The engine's ask for up to *most* such slots."""
    (part,) = slot.parts
    inner = need.Need(part.need.cores, part.need.gpus)
    asked = need.Part(part.name, part.count, part.whole, inner, part.a_core)
    each = need.Need(slot.cores, slot.gpus, parts=(asked,), with_core=slot.a_core)
    group = need.Part(need.SLOT, Count(1, most), False, each)
    return need.Ask(group, True, False, locality)


def fragmented(rng: random.Random, chance: float) -> NodeState:
    """A node of 24 L3 domains of eight cores, of which each core is free by *chance*."""
    topo = {"l3": [{"cores": f"{8 * i}-{8 * i + 7}"} for i in range(24)]}
    node = compile_topo(topo, (1 << 192) - 1, 0)
    return NodeState(node, idset.from_ids(i for i in range(192) if rng.random() < chance), 0)


@pytest.mark.parametrize("locality", ["preferred", "required"])
@pytest.mark.parametrize("chance", [0.35, 0.45, 0.5, 0.6, 0.75])
def test_on_a_fragmented_node_of_24_domains_no_search_gives_up(
    chance: float, locality: str
) -> None:
    """slot=3/l3=6/core=4: each slot takes six domains, and a domain has room for two at most."""
    rng = random.Random(f"fragmented {chance}")
    slot = Need(parts=(Part("l3", one(6), False, Need(4)),))
    for _ in range(5):
        state = fragmented(rng, chance)
        room = [bin(state.cores >> 8 * i & 255).count("1") // 4 for i in range(24)]
        fitting = [n for n in (1, 2, 3) if sum(min(n, copies) for copies in room) >= 6 * n]
        found = fit.fit(state, ask(slot, 3, locality))
        assert len(found.steps if found else ()) == max(fitting, default=0)
        assert found is None or not found.gave_up
        for number in found.steps if found else ():
            cores, _ = found.ids(number - 1)
            assert bin(cores).count("1") == 24 * number
            assert cores & ~state.cores == 0


#: 192 cores in 24 L3 caches, of which each of 8 NUMA domains has three.
NUMAS = [
    {"l3": [{"cores": f"{8 * i}-{8 * i + 7}"} for i in range(3 * n, 3 * n + 3)]} for n in range(8)
]


@pytest.mark.parametrize("locality", ["preferred", "required", "none"])
@pytest.mark.parametrize("shape", ["slot=96/socket/numa=2/core", "slot=88/socket/numa=2/l3/core"])
def test_domains_inside_domains_are_counted_where_each_has_nothing_beside_them(
    shape: str, locality: str
) -> None:
    topo = {"socket": [{"numa": NUMAS[:4]}, {"numa": NUMAS[4:]}]}
    pool = Pool(nodes("0", "0-191", topo=topo), locality=locality)
    ((_, cores, _),) = alloc(pool, 1, shape).parts
    slots = int(shape.split("/")[0][len("slot=") :])
    assert idset.size(cores) == 2 * slots
