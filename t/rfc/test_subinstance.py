"""RFC 49, "Sub-instance Initialization": an R that counts from zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treepool.errors import InvalidR
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet, subinstance
from treepool.rfc.scheduling import SchedulingKey

KEY = json.loads((Path(__file__).parent / "data" / "rfc49-cluster-a.json").read_text())
TOPO = KEY["children"][0]["topo"]


def allocated(key: dict[str, Any] | None = None, **execution: Any) -> dict[str, Any]:
    """An allocation on ranks 3, 5 and 6."""
    R: dict[str, Any] = {
        "version": 1,
        "execution": {
            "R_lite": [
                {"rank": "3,6", "children": {"core": "0-119", "gpu": "0-7"}},
                {"rank": "5", "children": {"core": "15-22", "gpu": "1"}},
            ],
            "nslots": 17,
            "starttime": 100.0,
            "expiration": 200.0,
            "nodelist": ["n[3,5-6]"],
            "properties": {"big": "3,6", "+queue": "3,5-6"},
            **execution,
        },
    }
    return R if key is None else {**R, "scheduling": key}


def key(*entries: tuple[str, Any], **other: Any) -> dict[str, Any]:
    children = [{"ranks": ranks, "topo": topo} for ranks, topo in entries]
    return {"writer": "TreePool", "children": children, **other}


def test_ranks_count_from_zero_in_ascending_order_and_the_rest_stays():
    assert subinstance(allocated(key(("3,5", TOPO), ("6", {}), site=1))) == {
        "version": 1,
        "execution": {
            "R_lite": [
                {"rank": "0,2", "children": {"core": "0-119", "gpu": "0-7"}},
                {"rank": "1", "children": {"core": "15-22", "gpu": "1"}},
            ],
            "starttime": 100.0,
            "expiration": 200.0,
            "nodelist": ["n[3,5-6]"],
            "properties": {"big": "0,2"},
        },
        "scheduling": key(("0-1", TOPO), ("2", {}), site=1),
    }


def test_a_key_with_the_ranks_of_an_outer_instance_is_mapped_by_position():
    outer = key(("40", {"cores": "0-7"}), ("41,99", TOPO))
    assert subinstance(allocated(outer))["scheduling"] == key(
        ("0", {"cores": "0-7"}), ("1-2", TOPO)
    )


def test_the_key_of_another_scheduler_is_carried_along():
    foreign = {"writer": "fluxion", "graph": {"nodes": [{"rank": 3}]}}
    assert subinstance(allocated(foreign))["scheduling"] == foreign


def test_an_invalid_r_is_an_error():
    with pytest.raises(InvalidR):
        subinstance(allocated(nodelist=[]))
    with pytest.raises(InvalidR):
        subinstance("{")


RANKS = st.sets(st.integers(0, 100), min_size=1, max_size=20)


@given(RANKS, st.sets(st.integers(0, 100)))
@settings(deadline=None)
def test_each_node_keeps_its_host_its_resources_and_its_topo(ranks, with_topo):
    order = sorted(ranks)
    known = sorted(ranks & with_topo)
    R = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": str(r), "children": {"core": f"0-{r + 1}"}} for r in order],
            "nodelist": [f"host{r}" for r in order],
        },
        "scheduling": key(*((str(r), {"memory": r}) for r in known)),
    }
    sub = ResourceSet.read(subinstance(R))
    assert sub.mask == (1 << len(order)) - 1
    cores = {r: e.cores for e in sub.entries for r in idset.iterate(e.ranks)}
    topos = SchedulingKey.read(sub.scheduling or {})
    memory = {r: e.topo["memory"] for e in topos.children for r in idset.iterate(e.ranks)}
    for position, rank in enumerate(order):
        assert sub.hosts[position] == f"host{rank}"
        assert cores[position] == (1 << (rank + 2)) - 1
        assert memory.get(position) == (rank if rank in known else None)
    assert subinstance(sub.to_dict()) == sub.to_dict()
