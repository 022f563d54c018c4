"""Fluxion's key in an R as one of RFC 49: which vertices become what, what is left out."""

import pytest

from fluxiongraph import cores, key, node, two_racks, vertex
from made import nodes
from treepool.discovery import fluxion
from treepool.errors import InvalidHardware
from treepool.rfc.rset import ResourceSet


def R_with(scheduling, ranks="0-3", cores="0-7", gpus="0-1", **execution):
    return ResourceSet.read({**nodes(ranks, cores, gpus, **execution), "scheduling": scheduling})


def encoded(scheduling, *ids, levels=None, **execution):
    return fluxion.encode(R_with(scheduling, *ids, **execution), levels)


def of_one(*inside, ids=("0-7", "0-1"), levels=None, **metadata):
    """What one node with these vertices becomes: its topo, and the lines about it."""
    one = vertex("node", *inside, **{"name": "n0", "rank": 0, **metadata})
    found = encoded(key(vertex("cluster", one)), "0", *ids, levels=levels)
    (entry,) = found.R.scheduling["children"]
    return entry["topo"], [*found.warnings, *found.kinds[0].node.warnings]


SOCKETS = {"socket": [{"cores": "0-3", "gpus": "0", "memory": 32},
                      {"cores": "4-7", "gpus": "1", "memory": 32}]}  # fmt: skip


def test_nodes_become_topos_and_racks_the_fabric():
    found = encoded(two_racks())
    assert found.R.scheduling == {
        "writer": "TreePool",
        "children": [{"ranks": "0-3", "topo": SOCKETS}],
        "fabric": {"rack": [{"name": "rack0", "ranks": "0-1"}, {"name": "rack1", "ranks": "2-3"}]},
    }
    assert not ResourceSet.problems(found.R.to_dict())


def test_levels_above_nodes_keep_their_types_and_order():
    row = vertex("row", vertex("chassis", node("n0", 0), id=4), vertex("chassis", id=5), id=1)
    found = encoded(key(vertex("cluster", row)), "0")
    inside = [{"name": "chassis4", "ranks": "0"}]
    assert found.R.scheduling["fabric"] == {"row": [{"name": "row1", "chassis": inside}]}
    assert found.warnings == ("left out of Fluxion's graph: 1 of type chassis",)


def test_a_node_is_found_by_its_name_and_else_by_its_rank():
    renumbered = key(vertex("cluster", node("n1", 41), node("n0", 40)))
    assert encoded(renumbered, "0-1").kinds[0].ranks == 0b11
    elsewhere = key(vertex("cluster", node("node7", 1)))
    found = encoded(elsewhere, "0-1")
    assert found.kinds[0].ranks == 0b10
    assert found.warnings == ("Fluxion's graph has no cores of ranks 0: they stay flat",)
    alike = key(vertex("cluster", node("vm", 0), node("vm", 1)))
    assert encoded(alike, "0-1", nodelist=["vm,vm"]).kinds[0].ranks == 0b11


def test_nodes_that_R_lacks_and_properties_that_it_lacks_have_a_line():
    there = vertex("node", *cores(0, 8), name="n0", rank=0, properties={"fast": "", "blue": ""})
    graph = key(vertex("cluster", there, node("n8", 8)))
    found = encoded(graph, "0", "0-7", "", properties={"blue": "0"})
    assert found.warnings == (
        "left out of Fluxion's graph: properties that nodes lack in R: fast",
        "left out of Fluxion's graph: nodes that R lacks: n8",
    )


def test_numa_domains_have_cores_or_stand_beside_them_as_in_hwloc_2():
    halves = [vertex("numanode", *cores(4 * i, 4), vertex("gpu", id=i), id=i) for i in range(2)]
    beside = [
        vertex("group", vertex("numanode", id=i), *cores(4 * i, 4), vertex("gpu", id=i), id=i)
        for i in range(2)
    ]
    expected = {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    assert of_one(*halves) == of_one(*beside) == (expected, [])


def test_caches_are_localities_where_they_add_something():
    caches = [
        vertex("cache", *cores(4 * i, 4), vertex("gpu", id=i), basename="L3cache", id=i)
        for i in range(2)
    ]
    topo, lines = of_one(*caches)
    assert topo == {"l3": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    assert lines == []


def test_a_level_that_is_none_is_looked_through():
    tiles = [vertex("tile", *cores(4 * i, 4), vertex("gpu", id=i), id=i) for i in range(2)]
    topo, lines = of_one(vertex("socket", tiles[0], id=0), vertex("socket", tiles[1], id=1))
    assert topo == {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    assert lines == ["left out of Fluxion's graph: 2 of type tile"]


def test_what_is_inside_cores_and_gpus_is_left_out_too():
    core = vertex("core", vertex("pu", id=0), vertex("pu", id=1), id=0)
    assert of_one(core, ids=("0", "")) == (
        {"cores": "0"},
        ["left out of Fluxion's graph: 2 of type pu"],
    )


def test_gpus_of_two_vendors_with_one_id_belong_to_the_node():
    sockets = [vertex("socket", *cores(4 * i, 4), vertex("gpu", id=0), id=i) for i in range(2)]
    topo, lines = of_one(*sockets, ids=("0-7", "0"))
    assert topo == {"gpus": "0", "socket": [{"cores": "0-3"}, {"cores": "4-7"}]}
    assert lines == ["GPUs of one id in several places belong to the node itself: n0"]


@pytest.mark.parametrize(
    ("unit", "size", "topo"),
    [
        ("GiB", 64, {"cores": "0-7", "memory": 64}),
        ("MB", 64_000, {"cores": "0-7", "memory": 60}),
        ("", 64, {"cores": "0-7"}),
    ],
)
def test_memory_counts_if_it_has_a_unit(unit, size, topo):
    memory = vertex("memory", id=0, unit=unit, size=size)
    left = [] if unit else ["left out of Fluxion's graph: 1 of type memory"]
    assert of_one(*cores(0, 8), memory, ids=("0-7", "")) == (topo, left)


def test_levels_may_be_chosen_as_for_hwloc():
    socket = vertex("socket", *cores(0, 8), id=0)
    assert of_one(socket, ids=("0-7", ""))[0] == {"cores": "0-7"}
    named, _ = of_one(socket, ids=("0-7", ""), levels=["socket"])
    assert named == {"socket": [{"cores": "0-7"}]}


def test_pools_of_cores_and_cores_outside_nodes_are_left_out():
    pool = vertex("core", id=8, size=36)
    graph = key(vertex("cluster", node("n0", 0, pool), vertex("storage_node", *cores(0, 2))))
    assert encoded(graph, "0").warnings == (
        "left out of Fluxion's graph: 1 of type core",
        "left out of Fluxion's graph: 2 of type core outside nodes",
        "left out of Fluxion's graph: 1 of type storage_node",
    )


def test_ids_on_which_R_and_the_graph_disagree_have_a_line():
    found = encoded(two_racks(), "0-3", "0-8")
    assert "ranks 0-3: cores 8 are in R but not in the hardware" in found.warnings


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (key(vertex("cluster")), "Fluxion's graph has none of the nodes of R"),
        (
            key(vertex("node", *cores(0, 2), *cores(1, 1), name="n0", rank=0)),
            "node 'n0' has core 1 twice",
        ),
        (key(node("n0", 0), node("x", 0)), "Fluxion's graph has rank 0 twice, 'x' too"),
        (
            key(vertex("core", node("n0", 0), id=0)),
            "host 'n0': 'core' cannot be the name of a locality",
        ),
    ],
)
def test_a_graph_that_cannot_be_meant_is_refused(graph, said):
    with pytest.raises(InvalidHardware) as e:
        encoded(graph)
    assert str(e.value) == said
