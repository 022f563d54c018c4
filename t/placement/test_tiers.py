"""Memory tiers: which memory of a node counts for which request."""

from __future__ import annotations

import pytest

from treepool.placement.nodes.compile import compile_topo

GIB = 1 << 30

#: A socket with HBM, and one with CXL memory around its two NUMA domains.
TOPO = {
    "socket": [
        {"cores": "0-3", "memory": 64, "hbm": [{"cores": "0-3", "memory": 16}]},
        {
            "memory": 50,
            "cxl": [
                {
                    "cores": "4-7",
                    "memory": 256,
                    "nvm": [
                        {
                            "cores": "4-7",
                            "memory": 999,
                            "numa": [
                                {"cores": "4-5", "memory": 32},
                                {"cores": "6-7", "memory": 32},
                            ],
                        }
                    ],
                }
            ],
        },
    ]
}


@pytest.mark.parametrize(
    ("name", "memory", "cxl", "capacity"),
    [
        ("node", 64 + 16 + 64, 256, None),
        ("socket", 64 + 16, 0, None),
        ("hbm", 16, 0, 16),
        ("cxl", 64, 256, 256),
        ("nvm", 64, 256, 999),
        ("numa", 32, 256, None),
    ],
)
def test_the_first_domain_of_a_name_has(name, memory, cxl, capacity):
    node_type = compile_topo(TOPO, 0xFF, 0)
    domain = next(d for d in node_type.root.walk() if d.name == name)
    assert (domain.memory, domain.cxl) == (memory * GIB, cxl * GIB)
    assert domain.capacity == (None if capacity is None else capacity * GIB)


def test_without_tiers_a_domain_has_what_it_lists_or_what_is_in_it_if_that_is_more():
    topo = {"memory": 10, "numa": [{"cores": "0", "memory": 8}, {"cores": "1", "memory": 8}]}
    assert compile_topo(topo, 3, 0).root.memory == 16 * GIB
    topo["memory"] = 20
    assert compile_topo(topo, 3, 0).root.memory == 20 * GIB
