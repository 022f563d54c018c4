"""Links and memory that jobs demand of their GPUs, against all sets of ids tried."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from depth import some
from made import alloc, nodes
from treepool.errors import InfeasibleRequest, InsufficientResources, TooComplex
from treepool.placement import effort
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.link_table import compile_links
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node import fit
from treepool.placement.pool import Pool
from treepool.placement.request.need import SLOT, Ask, Demand, Need, Part
from treepool.rfc import idset
from treepool.rfc.count import Count
from treepool.rfc.links import Device, Links, Wire
from work import Lines

#: Links of 50 GB/s in a ring 0-1-2-3-4-5-0, and of 8 across it.
RING = {
    **{(a, b): Wire("pcie", 8) for a, b in combinations(range(6), 2)},
    **{(min(i, (i + 1) % 6), max(i, (i + 1) % 6)): Wire("nvlink", 50) for i in range(6)},
}
TOPO = {"socket": [{"cores": "0-5", "gpus": "0-2"}, {"cores": "6-11", "gpus": "3-5"}]}


def node_R(links, topo=TOPO, cores="0-11", gpus="0-5"):
    return nodes(cores=cores, gpus=gpus, topo=topo, links=links)


def given(pool, shape, jobid=1, **options):
    return alloc(pool, jobid, shape, **options).to_dict()["execution"]["R_lite"][0]["children"]


def test_what_waits_and_what_never_can_be():
    pool = Pool(node_R(Links.from_matrix(RING)))
    given(pool, "slot/[core;gpu=5]")
    with pytest.raises(InsufficientResources):
        given(pool, "slot/[core;gpu=2]", 2, gpu_link=50)
    with pytest.raises(InfeasibleRequest, match=r"no 3 GPUs are joined by links of 50 GB/s: .* 2$"):
        given(pool, "slot/[core;gpu=3]", 2, gpu_link=50)
    with pytest.raises(InfeasibleRequest, match=r"the most that fits is 3|room for 3"):
        given(pool, "slot=4/[core;gpu=2]", 2, gpu_link=50)


@pytest.mark.parametrize("type", ["nvlink", "xgmi", "xelink"])
def test_a_fast_link_is_one_of_any_vendor_and_not_pcie(type):
    wires = {pair: Wire(type, 8) if wire.gbps == 50 else wire for pair, wire in RING.items()}
    pool = Pool(node_R(Links.from_matrix(wires)))
    assert given(pool, "slot/[core;gpu=2]", gpu_link="fast")["gpu"] == "0-1"
    with pytest.raises(InfeasibleRequest, match="no 3 GPUs are joined by NVLink, xGMI or Xe Link"):
        given(pool, "slot/[core;gpu=3]", 2, gpu_link="fast")


@pytest.mark.parametrize("locality", ["preferred", "none"])
def test_a_node_that_tells_no_links_serves_no_demand_for_two_gpus(locality):
    pool = Pool(node_R(None), locality=locality)
    with pytest.raises(InfeasibleRequest, match="no node says how its GPUs are linked"):
        given(pool, "slot/[core;gpu=2]", gpu_link=0.5)
    with pytest.raises(InfeasibleRequest, match="no GPU is known to have 1 GiB"):
        given(pool, "slot/[core;gpu=1]", gpu_memory=1)
    assert given(pool, "slot/[core;gpu=1]", gpu_link="nvlink") == {"core": "0", "gpu": "0"}


def test_only_gpus_known_to_be_large_enough_count():
    links = Links(devices=(Device("large", 80, 0b110000), Device("small", 40, 0b000111)))
    pool = Pool(node_R(links))
    assert given(pool, "slot/[core;gpu=2]", gpu_memory=80)["gpu"] == "4-5"
    with pytest.raises(InsufficientResources):
        given(pool, "slot/[core;gpu=1]", 2, gpu_memory=80)
    assert given(pool, "slot/[core;gpu=3]", 3, gpu_memory=40)["gpu"] == "0-2"
    with pytest.raises(InfeasibleRequest, match=r"6 GPUs of 40 GiB or more: .* is 5$"):
        given(pool, "slot/[core;gpu=6]", 4, gpu_memory=40)


# -- against all sets of GPUs tried


def ways(scopes, free, linked):
    """Whether slots, each a list of (GPUs to choose from, number), can have joined GPUs."""
    if not scopes:
        return True
    for chosen, left in slot_ways(scopes[0], free):
        joined = all(b in linked[a] for a, b in combinations(chosen, 2))
        if joined and ways(scopes[1:], left, linked):
            return True
    return False


def slot_ways(slot, free):
    if not slot:
        yield (), free
        return
    among, number = slot[0]
    for chosen in combinations(sorted(among & free), number):
        for more, left in slot_ways(slot[1:], free - set(chosen)):
            yield (*chosen, *more), left


@pytest.mark.parametrize("seed", range(8))
def test_slots_get_joined_gpus_if_there_is_any_way(seed):
    rng = random.Random(f"joined {seed}")
    for _ in range(60):
        count = rng.choice([4, 5, 6, 7])
        density = rng.choice([0.3, 0.5, 0.8])
        wires = {
            pair: Wire("nvlink", 50 if rng.random() < density else 8)
            for pair in combinations(range(count), 2)
        }
        half = count // 2
        topo = {
            "numa": [
                {"cores": "0-7", "gpus": idset.encode_ids(range(half))},
                {"cores": "8-15", "gpus": idset.encode_ids(range(half, count))},
            ]
        }
        table = compile_links(Links.from_matrix(wires), (1 << count) - 1)
        node_type = compile_topo(topo, (1 << 16) - 1, (1 << count) - 1, links=table)
        free = {gpu for gpu in range(count) if rng.random() < 0.85}
        state = NodeState(node_type, (1 << 16) - 1, idset.from_ids(free))
        linked = {a: {b for b in range(count) if b != a} for a in range(count)}
        for (a, b), wire in wires.items():
            if wire.gbps < 50:
                linked[a].discard(b)
                linked[b].discard(a)
        demand, number, slots = Demand(50), rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 3])
        amount = Need(cores=1, gpus=number, demand=demand)
        everywhere = [(set(range(count)), number)]
        need = amount
        if rng.random() < 0.4:  # as many from each NUMA domain
            need = Need(parts=(Part("numa", Count(2, 2), False, amount),))
            everywhere = [(set(range(half)), number), (set(range(half, count)), number)]
        group = Part(SLOT, Count(slots, slots), False, need)
        locality = rng.choice(["preferred", "none"])
        found = fit.fit(state, Ask(group, False, False, locality))
        expected = ways([everywhere] * slots, free, linked)
        assert (found is not None) == expected, (topo, wires, free, group)
        if found is not None:
            got = set(idset.iterate(found.ids(0)[1]))
            assert got <= free
            assert len(got) == slots * sum(n for _, n in everywhere)
            assert ways([everywhere] * slots, got, linked)


@pytest.mark.parametrize("seed", range(4))
def test_whole_domains_of_a_slot_are_joined_across(seed):
    rng = random.Random(f"whole {seed}")
    for _ in range(60):
        halves = [{0, 1}, {2, 3}, {4, 5}]
        joined = {pair for pair in combinations(range(6), 2) if rng.random() < 0.7}
        wires = {pair: Wire("nvlink", 50) for pair in joined}
        table = compile_links(Links.from_matrix(wires), 63)
        topo = {"numa": [{"cores": str(i), "gpus": f"{2 * i}-{2 * i + 1}"} for i in range(3)]}
        node_type = compile_topo(topo, 7, 63, links=table)
        free = {gpu for gpu in range(6) if rng.random() < 0.9}
        number = rng.choice([1, 2, 3])
        part = Part("numa", Count(number, number), True, Need(demand=Demand(50)))
        group = Part(SLOT, Count(1, 1), False, Need(parts=(part,)))
        state = NodeState(node_type, 7, idset.from_ids(free))
        found = fit.fit(state, Ask(group, False, False, "preferred"))
        sets = [set().union(*chosen) for chosen in combinations(halves, number)]
        good = [
            gpus
            for gpus in sets
            if gpus <= free and joined.issuperset(combinations(sorted(gpus), 2))
        ]
        assert (found is not None) == bool(good), (wires, free, number)
        assert found is None or set(idset.iterate(found.ids(0)[1])) in good


@pytest.mark.parametrize("speeds", [(25, 50, 100), range(1, 100_000)])
@pytest.mark.parametrize("slots", some(["slot", "slot=3", "slot=40"], 2))
def test_links_in_no_order_between_128_gpus_take_bounded_work(speeds, slots):
    """Nobody builds it: a slot without a demand is placed, one with a demand may be too complex.

    However many different bandwidths there are, and however many slots choose their GPUs.
    """
    draw = random.Random(3)
    pairs = combinations(range(128), 2)
    wires = {pair: Wire("nvlink", draw.choice(speeds)) for pair in pairs}
    links = Links.from_matrix(wires, devices=[Device("made", 80, (1 << 128) - 1)])
    halves = [
        {"cores": f"{64 * i}-{64 * i + 63}", "gpus": f"{64 * i}-{64 * i + 63}"} for i in (0, 1)
    ]
    R = node_R(links, {"socket": halves}, cores="0-127", gpus="0-127")
    asked = [(gpus, {}) for gpus in (2, 3, 8, 32)]
    asked += [(3, {"gpu_memory": 64}), (40, {"gpu_link": 50}), (2, {"gpu_link": 100})]
    idle = Pool(R)
    for gpus, demand in asked:
        if gpus * int(slots.partition("=")[2] or 1) <= 128:
            pool = idle.copy()
            with Lines(most=600_000):
                assert_placed_or_too_complex(pool, f"{slots}/[core=1;gpu={gpus}]", **demand)


@pytest.mark.parametrize("demand", [{}, {"gpu_link": "nvlink"}, {"gpu_link": 400}])
@pytest.mark.parametrize("size", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("locality", ["preferred", "none"])
def test_slots_of_joined_gpus_fill_a_node_of_128(size, demand, locality):
    """Eight groups of 16 GPUs: how many slots there are is counted, not searched."""
    groups = [f"{16 * i}-{16 * i + 15}" for i in range(8)]
    wires = {
        (a, b): Wire("nvlink", 400 if a // 16 == b // 16 else 64)
        for a, b in combinations(range(128), 2)
    }
    numas = {"numa": [{"cores": group, "gpus": group} for group in groups]}
    R = node_R(Links.from_matrix(wires), numas, cores="0-127", gpus="0-127")
    pool = Pool(R, locality=locality)
    shape = f"slot={128 // size}/[core=1;gpu={size}]"
    with Lines(most=600_000):
        if size > 16 and demand == {"gpu_link": 400}:
            with pytest.raises(InfeasibleRequest, match="16"):
                alloc(pool, 1, shape, **demand)
            return
        given = alloc(pool, 1, shape, **demand)
    assert given.to_dict()["execution"]["R_lite"][0]["children"]["gpu"] == "0-127"


@pytest.mark.parametrize(
    "shape", ["slot/[core;gpu=3]", "slot=2/[core;gpu=2]", "slot/socket=2/gpu=2"]
)
def test_whatever_is_given_up_is_said_in_words(shape, monkeypatch):
    monkeypatch.setattr(effort, "PER_REQUEST", 1)
    R = node_R(Links.from_matrix(RING))
    R["execution"]["R_lite"].append({"rank": "1", "children": {"core": "0-3", "gpu": "0-3"}})
    R["execution"]["nodelist"].append("n1")
    assert alloc(Pool(R), 1, shape).ranks
    for gbps in 50, 8:
        with pytest.raises(TooComplex, match="too complex"):
            alloc(Pool(R), 1, shape, gpu_link=gbps)


def assert_placed_or_too_complex(pool, shape, **demand):
    try:
        assert alloc(pool, 1, shape, **demand).ranks
    except TooComplex as e:
        assert demand
        assert "too complex" in str(e)
