"""The fewest children that cover what is wanted."""

from __future__ import annotations

import pytest

from treepool.placement.nodes.tree import Domain
from treepool.placement.on_node.cover import nearest


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
