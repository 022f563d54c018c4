"""The fewest children that cover what is wanted: every combination tried."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.placement.spread import fewest, spread
from treepool.placement.tree import compile_topo
from treepool.rfc import idset


def fewest_by_trying(amounts, want):
    """The first of the smallest combinations that cover *want*, None if none does."""
    for number in range(len(amounts) + 1):
        for chosen in combinations(range(len(amounts)), number):
            if all(sum(amounts[i][kind] for i in chosen) >= want[kind] for kind in (0, 1)):
                return list(chosen)
    return None


AMOUNTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=7)


@settings(max_examples=examples(1000))
@given(AMOUNTS, st.integers(0, 12), st.integers(0, 20))
def test_it_is_the_first_of_the_smallest_combinations(amounts, gpus, cores):
    expected = fewest_by_trying(amounts, (gpus, cores))
    if expected is None:
        with pytest.raises(ValueError, match="do not cover"):
            fewest(amounts, (gpus, cores))
    else:
        assert fewest(amounts, (gpus, cores)) == expected


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
    assert fewest_by_trying(amounts, want) == expected


def test_a_node_of_many_domains_takes_no_time():
    """256 domains of a core each: trying every combination would take for ever."""
    amounts = [(i % 2, 1 + i % 3) for i in range(256)]
    chosen = fewest(amounts, (20, 200))
    assert sum(amounts[i][0] for i in chosen) >= 20
    assert sum(amounts[i][1] for i in chosen) >= 200
    assert len(chosen) == 67  # 66 domains of three cores are 198


def test_cores_come_from_the_smallest_domains_with_the_gpus_before_any_other():
    """Two sockets of two NUMA domains; the GPUs left are in NUMA 1 and NUMA 2."""
    numas = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
    topo = {"socket": [{"numa": numas[:2]}, {"numa": numas[2:]}]}
    cores, gpus = idset.decode("0-15"), idset.decode("0-3")
    root = compile_topo(topo, cores, gpus).root
    cores, gpus = cores & ~idset.decode("8-10"), gpus & ~idset.decode("0,3")

    def taken(ncores):
        found = spread(root, (2, ncores), cores, gpus)
        return idset.encode(found[0]), idset.encode(found[1])

    # NUMA 2 is the fuller; its socket's other NUMA domain gives nothing while NUMA 1 has cores.
    assert taken(4) == ("4-6,11", "1-2")
    assert taken(5) == ("4-7,11", "1-2")
    # Then the sockets around: one more NUMA domain is enough, the lowest of the two.
    assert taken(7) == ("0-1,4-7,11", "1-2")
    assert taken(10) == ("0-7,11-12", "1-2")
