"""Fluxion's key (RFC 40): what is read, what may be left out, and every error with its place."""

import pytest

from fluxiongraph import key, vertex
from treepool.errors import InvalidKey
from treepool.rfc import jgf
from treepool.rfc.findings import Findings


def read(value):
    """The roots of the graph of a key."""
    findings = Findings()
    roots = jgf.read(findings, value, "/scheduling")
    findings.check(InvalidKey)
    return roots


def small():
    return key(vertex("cluster", vertex("node", vertex("core", id=3), name="n0", rank=7)))


def outline(one):
    return (one.type, one.name, [outline(inner) for inner in one.inside])


def test_vertices_are_where_edges_put_them():
    (root,) = read(small())
    assert outline(root) == ("cluster", "cluster0", [("node", "n0", [("core", "core3", [])])])
    assert [one.rank for one in jgf.walk(root)] == [-1, 7, -1]


def test_what_rfc_40_asks_for_and_fluxion_leaves_out_may_be_there():
    value = small()
    value["graph"]["nodes"][2]["metadata"].update(
        uuid="7c2b", basename="cpu", name="cpu3", uniq_id=2, size=1, unit="", exclusive=True,
        properties={"fast": ""},
    )  # fmt: skip
    for edge in value["graph"]["edges"]:
        edge["metadata"] = {"subsystem": "containment", "relationship": "contains"}
    (core,) = read(value)[0].inside[0].inside
    assert (core.name, core.basename, core.properties) == ("cpu3", "cpu", ("fast",))


def test_edges_of_old_versions_have_the_subsystem_in_their_name_and_lead_back_too():
    value = small()
    edges = value["graph"]["edges"]
    back = [{"source": edge["target"], "target": edge["source"]} for edge in edges]
    for edges_, direction in ((edges, "contains"), (back, "in")):
        for edge in edges_:
            edge["metadata"] = {"name": {"containment": direction}}
    edges += back
    assert [outline(one) for one in read(value)] == [outline(one) for one in read(small())]


def test_edges_of_other_subsystems_are_ignored():
    value = small()
    value["graph"]["edges"].append(
        {"source": "2", "target": "0", "metadata": {"subsystem": "power"}}
    )
    assert len(read(value)) == 1


def changed(change):
    value = small()
    change(value["graph"])
    return value


def metadata(graph, number=2):
    return graph["nodes"][number]["metadata"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "/scheduling: key 'graph' is missing"),
        ({"graph": {"edges": []}}, "/scheduling/graph: key 'nodes' is missing"),
        (
            changed(lambda g: g["nodes"].append(g["nodes"][0])),
            "/scheduling/graph/nodes/3/id: '0' is an earlier vertex too",
        ),
        (
            changed(lambda g: metadata(g).pop("id")),
            "/scheduling/graph/nodes/2/metadata: key 'id' is missing, which a core needs",
        ),
        (
            changed(lambda g: metadata(g).update(id=1 << 16)),
            "/scheduling/graph/nodes/2/metadata/id: must be 0 to 65535 for a core, not 65536",
        ),
        (
            changed(lambda g: metadata(g, 1).update(rank="7")),
            "/scheduling/graph/nodes/1/metadata/rank: must be an integer, not '7'",
        ),
        (
            changed(lambda g: g["edges"].append({"source": "0", "target": "9"})),
            "/scheduling/graph/edges/2/target: there is no vertex '9'",
        ),
        (
            changed(lambda g: g["edges"].append({"source": "0", "target": "2"})),
            "/scheduling/graph/edges/2/target: vertex '2' is in both '1' and '0'",
        ),
        (
            changed(lambda g: g["edges"][1].update(source="2")),
            "/scheduling/graph/edges: some vertices are inside themselves",
        ),
    ],
)
def test_a_graph_that_is_none_is_refused_with_its_place(value, said):
    with pytest.raises(InvalidKey) as e:
        read(value)
    assert str(e.value) == said


def test_a_graph_that_is_too_deep_is_refused():
    one = vertex("core", id=0)
    for i in range(jgf.MAX_DEPTH - 1):
        one = vertex("box", one, id=i)
    assert read(key(one))
    with pytest.raises(InvalidKey, match="nested deeper than 64 levels"):
        read(key(vertex("box", one)))
