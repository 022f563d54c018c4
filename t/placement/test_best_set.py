"""Which GPUs work best together: on real kinds of node, and as the reference says."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc, nodes
from placement import linktables as tables
from placement import strategies
from placement.duel import Duel
from placement.strategies import jobspec
from placement.test_against_reference import SETTINGS
from treepool.placement.gpus.best_set import best_set, indifferent
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Links, Nic, Wire
from treepool.rfc.shape import parse_shape


def test_gpus_of_equal_links_are_not_alike_if_one_is_nearer_to_the_network():
    nics = (Nic("far", 0b01, "SYS"), Nic("near", 0b10, "PIX"))
    found = tables.table(2, "nvlink", {450: [(0, 1)]}, nics=nics)
    assert not indifferent(found, 0b11)
    assert best_set(found, 0b11, 1) == 0b10


def gpus(text):
    return idset.decode(text)


@pytest.mark.parametrize(
    ("table", "free", "number", "expected"),
    [
        # V100 cube mesh, fresh. All GPUs have the same links; two NV2 links go from each.
        (tables.CUBE_MESH, "0-7", 1, "0"),
        # NV2 pairs break three links of the ring of NV2 each, and 4 NV1: the lowest, 0 and 3.
        (tables.CUBE_MESH, "0-7", 2, "0,3"),
        # Only the quads are all linked.
        (tables.CUBE_MESH, "0-7", 4, "0-3"),
        # 0 in use: 3 and 4, its NV2 partners, have a single NV2 left to lose; 3 is lower.
        (tables.CUBE_MESH, "1-7", 1, "3"),
        # 0 in use: 4-7 is the one quad, whatever is left.
        (tables.CUBE_MESH, "1-7", 4, "4-7"),
        # 0 and 3 in use: 1-2 leaves the path 5-6-7-4 of three NV2; any other pair leaves less.
        (tables.CUBE_MESH, "1-2,4-7", 2, "1-2"),
        # MI250X, fresh: no pair is kept by any; even ones also lose a 100, odd ones two of 50.
        (tables.MI250X, "0-7", 1, "1"),
        (tables.MI250X, "1-7", 1, "1"),  # the partner of the GPU in use
        (tables.MI250X, "0,2-7", 1, "0"),
        # Four packages; each also touches one of the two links of 100 and as many of 50.
        (tables.MI250X, "0-7", 2, "0-1"),
        # 0 in use: three packages. 6-7 loses no 100, as 0-6 is gone; 2-3 and 4-5 lose 2-4.
        (tables.MI250X, "1-7", 2, "6-7"),
        # No four are all linked. Two modules have 400 and, if they are neighbours, 100 between
        # them: in one link or in two. The two that are left have as much; the lowest ids go.
        (tables.MI250X, "0-7", 4, "0-3"),
        # With NICs on the odd ones these come first where links are equal.
        (tables.MI250X_NICS, "0-7", 1, "1"),
        (tables.MI250X_NICS, "0-7", 2, "0-1"),
        # One half of each of four modules is nearer to the NICs, and has no fast link.
        (tables.MI250X_NICS, "0-7", 4, "0-3"),
        (tables.MI250X_NICS, "4-7", 4, "4-7"),
        # NVSwitch: any will do, so the lowest.
        (tables.NVSWITCH, "0-7", 1, "0"),
        (tables.PAIRS_4, "0,2-3", 2, "2-3"),
        (tables.PAIRS_8, "0-2,4-7", 1, "2"),
        (tables.PAIRS_8, "1-7", 2, "2-3"),
        (tables.PAIRS_8, "1-7", 4, "2-5"),
        (tables.PAIRS_8, "1-7", 3, "1-3"),  # a pair and the odd one out
        # PCIe: within a socket. 0 in use: one of its socket leaves all faster pairs of the other.
        (tables.PCIE, "0-7", 2, "0-1"),
        (tables.PCIE, "1-7", 1, "1"),
        (tables.PCIE, "1-7", 4, "4-7"),
        (tables.PCIE, "3-7", 2, "4-5"),
        # MI300A: any will do.
        (tables.MI300A_SPX, "1-3", 2, "1-2"),
        (tables.MI300A_TPX, "2-11", 4, "2-5"),
    ],
)
def test_what_jobs_get_on_real_nodes(table, free, number, expected):
    assert idset.encode(best_set(table, gpus(free), number)) == expected


def test_gpus_whose_cores_are_beside_them_come_before_those_nearer_to_the_network():
    topo = {"numa": [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(3)]}
    wires = {pair: Wire("nvlink", 50) for pair in combinations(range(3), 2)}
    links = Links.from_matrix(wires, (Nic("hsn0", 0b001, "PIX"),))
    pool = Pool(nodes(cores="0-11", gpus="0-2", topo=topo, links=links))
    pool.register_alloc(1, nodes(cores="0-3"))
    given = alloc(pool, 2, "slot/[core=8;gpu=2]").to_dict()
    assert given["execution"]["R_lite"][0]["children"] == {"core": "4-11", "gpu": "1-2"}


@settings(SETTINGS, max_examples=examples(400))
@given(st.data())
def test_a_slot_of_several_domains_gets_the_gpus_that_the_reference_says(data):
    R = data.draw(strategies.linked_nodes())
    duel = Duel(strategies.History(R, "preferred", data.draw(strategies.occupations(R)), []))
    for _ in range(3):
        cores, gpus = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 5))
        slot = parse_shape(f"slot/[core={cores};gpu={gpus}]")
        duel.do(strategies.Step("alloc", jobspec(slot)))
