"""GPUs in no domain of a level, as flux-core's encoder writes those near no socket or NUMA node.

Such a GPU counts as a domain of its own: one beside the cores of a slot comes first.
"""

from __future__ import annotations

from itertools import combinations
from typing import Optional

import pytest

from made import alloc, nodes
from placement.linktables import every_pair
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Links, Wire

#: Two sockets of four and three cores; of the GPUs 0 to 3 only 2 and 3 are in one.
TOPO = {"socket": [{"cores": "0-3", "gpus": "2-3"}, {"cores": "4-6"}]}
PAIRS = {**dict.fromkeys(every_pair(4), Wire("pcie", 8)), (0, 1): Wire("nvlink", 50)}
PAIRS[2, 3] = PAIRS[0, 1]


def ids(children: dict[str, str], kind: str) -> frozenset[int]:
    return frozenset(idset.iterate(idset.decode(children[kind])))


def taken(cores: int, gpus: int, links: Optional[Links] = None):
    """The cores and GPUs that a slot gets on an idle node."""
    R = nodes("0", "0-6", "0-3", TOPO, links)
    (entry,) = alloc(Pool(R), 1, f"slot/[core={cores};gpu={gpus}]").to_dict()["execution"]["R_lite"]
    return ids(entry["children"], "core"), ids(entry["children"], "gpu")


@pytest.mark.parametrize("links", [None, Links.from_matrix(PAIRS)], ids=["no-links", "pairs"])
@pytest.mark.parametrize("cores, gpus, expected", [(6, 1, {2}), (6, 2, {2, 3}), (2, 1, {2})])
def test_a_gpu_beside_the_cores_of_a_slot_comes_before_one_beside_none(
    cores, gpus, expected, links
):
    assert taken(cores, gpus, links)[1] == expected


SOCKETS = [ids({"core": s["cores"], "gpu": s.get("gpus", "")}, "core") for s in TOPO["socket"]]


def touched(cores, gpus):
    """How many sockets these are in, and GPUs in none."""
    near = frozenset((2, 3))
    in_first = bool(cores & SOCKETS[0] or gpus & near)
    return in_first + bool(cores & SOCKETS[1]) + len(gpus - near)


@pytest.mark.parametrize("gpus", range(1, 5))
@pytest.mark.parametrize("cores", range(1, 8))
def test_no_other_choice_touches_fewer_sockets_and_gpus_in_none(cores, gpus):
    least = min(
        touched(frozenset(some), frozenset(others))
        for some in combinations(range(7), cores)
        for others in combinations(range(4), gpus)
    )
    assert touched(*taken(cores, gpus)) == least
