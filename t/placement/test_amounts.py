"""The fewest children that cover what is wanted."""

from __future__ import annotations

import pytest

from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.amounts import amount_ids
from treepool.placement.on_node.cover import nearest
from treepool.rfc import idset


def fewest(amounts, want):
    """The first of the fewest of so many domains, which are all as far apart."""
    children = [Domain("socket", 1 << i, 0, True) for i in range(len(amounts))]
    return nearest(Domain("node", 0, 0, True, children=tuple(children)), children, amounts, want)


@pytest.mark.parametrize(
    ("amounts", "want", "expected"),
    [
        ([], (0, 0), []),
        ([(1, 1)], (0, 0), []),
        ([(0, 4), (0, 8)], (0, 8), [1]),  # one domain, though it is not the fullest
        ([(0, 4), (0, 4), (0, 4)], (0, 8), [0, 1]),
        ([(0, 8), (1, 2), (1, 8)], (1, 8), [2]),
        ([(0, 8), (1, 2), (1, 8)], (1, 10), [0, 1]),  # before 0 and 2
        ([(1, 1), (1, 5), (2, 2), (0, 9)], (2, 9), [2, 3]),
        ([(1, 1), (1, 5), (2, 2), (0, 9)], (3, 7), [1, 2]),
    ],
)
def test_fewest(amounts, want, expected):
    assert fewest(amounts, want) == expected


def test_a_node_of_many_domains_takes_no_time():
    """256 domains of a core each: trying every combination would take for ever."""
    amounts = [(i % 2, 1 + i % 3) for i in range(256)]
    chosen = fewest(amounts, (20, 200))
    assert sum(amounts[i][0] for i in chosen) >= 20
    assert sum(amounts[i][1] for i in chosen) >= 200
    assert len(chosen) == 67  # 66 domains of three cores are 198


def test_each_socket_gives_cores_in_proportion_to_its_gpus():
    """Two sockets of two NUMA domains; the GPUs left are in NUMA 1 and NUMA 2."""
    numas = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
    topo = {"socket": [{"numa": numas[:2]}, {"numa": numas[2:]}]}
    cores, gpus = idset.decode("0-15"), idset.decode("0-3")
    root = compile_topo(topo, cores, gpus).root
    cores, gpus = cores & ~idset.decode("8-10"), gpus & ~idset.decode("0,3")

    def taken(ncores):
        found = amount_ids(root, (2, ncores), cores, gpus)
        return idset.encode(found[0]), idset.encode(found[1])

    # Two of each socket: core 11 is all that NUMA 2 has beside its GPU, and NUMA 3 gives the other.
    assert taken(4) == ("4-5,11-12", "1-2")
    # Of five and of seven, the odd one comes from socket 1: it has fewer free cores.
    assert taken(5) == ("4-5,11-13", "1-2")
    assert taken(7) == ("4-6,11-14", "1-2")
    # Five of each: that is all of socket 1, and one more than NUMA 1 has.
    assert taken(10) == ("0,4-7,11-15", "1-2")
    # Socket 1 has no more, so socket 0 gives six.
    assert taken(11) == ("0-1,4-7,11-15", "1-2")
