"""A cluster with more nodes: they are like the node that was named in all that jobs ask for."""

import pytest

from made import alloc, asked, nodes
from treepool.errors import InfeasibleRequest, InvalidOption
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view.added import added

FABRIC = {
    "cell": [
        {"name": "c0", "switch": [{"ranks": "0-2"}, {"ranks": "3-4"}]},
        {"name": "c1", "switch": [{"ranks": "5-6"}]},
    ]
}
TOPO = {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}


def cluster():
    """Eight GPU nodes, the last one in no switch, and two nodes of other hardware."""
    R = nodes("0-7", gpus="0-1", topo=TOPO, fabric=FABRIC)
    R["execution"]["R_lite"].append({"rank": "8-9", "children": {"core": "0-3"}})
    R["execution"]["nodelist"] = ["gpu[0-7],added1,cpu9"]
    R["execution"]["properties"] = {"a100": "0-7", "debug": "3", "all": "0-9"}
    return ResourceSet.read(R)


@pytest.mark.parametrize("like", ["0", "gpu3", "a100", "debug"])
def test_they_have_the_hardware_of_the_node_and_ranks_and_names_of_their_own(like):
    larger = added(cluster(), 3, like)
    assert idset.encode(larger.mask) == "0-12"
    assert larger.hosts[10:] == ("added2", "added3", "added4")
    pool = Pool(larger)
    new, old = pool.inventory.types[10:], pool.inventory.types[3]
    assert set(new) == {old}
    on_new = {"ranks": ["10-12"]}
    assert alloc(pool, 1, "slot=6/socket{x}", on_new).ranks == (10, 11, 12)


def test_they_have_the_properties_of_the_node():
    larger = added(added(cluster(), 1, "gpu3"), 2, "cpu9")
    assert {name: idset.encode(mask) for name, mask in larger.properties.items()} == {
        "a100": "0-7,10", "debug": "3,10", "all": "0-12",
    }  # fmt: skip


def test_in_a_fabric_they_are_in_new_domains_as_large_as_those_of_the_node():
    larger = added(cluster(), 5, "gpu3")  # in a switch of two
    pool = Pool(larger)
    fabric = larger.key().fabric.to_dict()
    assert fabric["cell"][:2] == FABRIC["cell"]
    assert fabric["cell"][2] == {
        "switch": [{"ranks": "10-11"}, {"ranks": "12-13"}, {"ranks": "14"}]
    }
    whole = "switch/node=2/slot=1/core=8"
    pool.alloc(1, asked(pool, whole, {"ranks": ["10-14"]}))
    with pytest.raises(InfeasibleRequest):
        pool.check_feasibility(asked(pool, "switch/node=3/slot=1/core=8", {"ranks": ["10-14"]}))


def test_like_a_node_that_stands_alone_they_stand_alone():
    larger = added(cluster(), 2, "gpu7")
    assert larger.key().fabric.to_dict() == FABRIC


def test_without_a_key_they_are_flat():
    flat = ResourceSet.read(nodes("0-1"))
    assert alloc(Pool(added(flat, 2, "0")), 1, "slot=4/core=8").ranks == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ("10", "rank 10 is not in the cluster"),
        ("all", "(ranks 0-9) are of 2 kinds: give a rank or a host"),
        ("a10", "did you mean 'a100'"),
        ("", "'' is no rank, host or property of the cluster; properties: 'a100', 'debug', 'all'"),
    ],
)
def test_what_names_no_node_or_several_kinds_is_refused(like, words):
    with pytest.raises(InvalidOption) as e:
        added(cluster(), 1, like)
    assert words in str(e.value)
