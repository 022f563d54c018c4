"""Every packaged vector, each as a test of its own, and that treepool's own cover all forms."""

import json

import pytest

from commandline import REPOSITORY
from treepool import parse_shape
from treepool.cli import vectors
from treepool.cli.files import data_folder
from treepool.placement.choose.policy import POLICIES
from treepool.placement.names import LOCALITIES, NODE_POLICIES
from treepool.placement.request import job_options
from treepool.rfc import count

DOCUMENTS = {
    path.stem: json.loads(path.read_text())
    for path in sorted(data_folder("testvectors").glob("*.json"))
}
OURS = {name: document for name, document in DOCUMENTS.items() if name.startswith("treepool-")}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_file_is_valid(name):
    assert vectors.problems(DOCUMENTS[name]) == []


PLAYED = [(name, result) for name in DOCUMENTS for result in vectors.play(DOCUMENTS[name])]


@pytest.mark.parametrize(
    "result", [r for _, r in PLAYED], ids=[f"{name}-{r.id}" for name, r in PLAYED]
)
def test_vector(result):
    assert result.passed, f"{result.action}: expected {result.expected}, got {result.got}"


@pytest.mark.parametrize("cluster", ["a", "b"])
def test_the_clusters_of_the_rfc_have_the_keys_that_it_prints(cluster):
    printed = REPOSITORY / "t" / "rfc" / "data" / f"rfc49-cluster-{cluster}.json"
    key = DOCUMENTS[f"rfc49-cluster-{cluster}"]["cluster"]["R"]["scheduling"]
    assert key == json.loads(printed.read_text())


@pytest.mark.parametrize("policy", ["packing", "best-fit"])
@pytest.mark.parametrize("name", ["rfc49-cluster-a", "rfc49-cluster-b"])
def test_the_rfcs_own_hold_under_the_default_and_under_its_own_order(name, policy):
    assert "options" not in DOCUMENTS[name]
    played = list(vectors.play({**DOCUMENTS[name], "options": {"policy": policy}}))
    assert played and all(result.passed for result in played)


def test_no_two_vectors_of_any_files_have_the_same_id():
    ids = [result.id for _, result in PLAYED]
    assert len(set(ids)) == len(ids)


def test_treepools_own_say_that_they_are_not_the_rfcs():
    assert OURS
    for document in OURS.values():
        assert document["source"].startswith("treepool, not RFC 49")


def served():
    """(resources, options) of treepool's own vectors that are to be served."""
    for document in OURS.values():
        for step in document["vectors"]:
            if "R_lite" in step.get("expect", {}):
                spec = step.get("jobspec")
                resources = spec["resources"] if spec else parse_shape(step["shape"])
                yield resources, {**document.get("options", {}), **step.get("options", {})}


AMOUNTS = ("core", "gpu", "memory", "storage")

#: the forms of doc/design.md, row by row, and what it says of counts.
FORMS = {
    "flat slot",
    "whole domains",
    "whole domains with a minimum",
    "hard locality",
    "several hard localities",
    "hard locality beside others",
    "locality above the slot",
    "locality above the slot, below node",
    "nested localities below the slot",
    "nested localities above the slot",
    "slot of several nodes",
    "slots on each node",
    "node{x}",
    "node{x} with a minimum",
    "node{x} above the slot",
    "gpu without core",
    "memory",
    "storage",
    *(f"{kind} on {on}" for kind in ("range", "step", "idset") for on in ("node", "slot")),
    *(f"{kind} on a locality" for kind in ("range", "step", "idset")),
    "range on core",
    "range on gpu",
}


def forms(vertices, above=()):
    """The forms of the design that *vertices*, which stand below types *above*, make use of."""
    types = [v["type"] for v in vertices]
    if "gpu" in types and "core" not in types and "x" not in above:
        yield "gpu without core"
    for vertex in vertices:
        kind, children = vertex["type"], vertex.get("with", [])
        locality = kind not in (*AMOUNTS, "node", "slot")
        yield from counts(vertex, locality)
        exclusive = vertex.get("exclusive", "slot" in above and not children)
        outer = [t for t in above if t not in ("node", "slot", "x")]
        if kind in ("memory", "storage"):
            yield kind
        elif kind == "slot":
            yield from ["slots on each node"] * (above == ("node",))
            yield from ["flat slot"] * all(v["type"] in AMOUNTS for v in children)
        elif kind == "node" and "slot" in above:
            yield from ["slot of several nodes"] * (vertex["count"] != 1)
            if exclusive:
                yield "node{x} with a minimum" if children else "node{x}"
        elif kind == "node" and exclusive:
            yield "node{x} above the slot"
        elif locality and "slot" not in above:
            yield "locality above the slot" + (", below node" if "node" in above else "")
            yield from ["nested localities above the slot"] * bool(outer)
        elif locality:
            yield from ["nested localities below the slot"] * bool(outer)
            if exclusive:
                yield "whole domains with a minimum" if children else "whole domains"
            else:
                yield "hard locality" if vertex["count"] == 1 else "several hard localities"
                yield from ["hard locality beside others"] * (len(vertices) > 1)
        yield from forms(children, (*above, kind, *(["x"] if exclusive else [])))


def counts(vertex, locality):
    """What kind of choice the count of *vertex* is, if it is one."""
    number = count.parse(vertex["count"])
    if not number.fixed:
        stepped = (number.operator, number.operand) != ("+", 1)
        kind = "idset" if number.ids else "step" if stepped else "range"
        yield f"{kind} on {'a locality' if locality else vertex['type']}"


def test_each_form_of_designs_table_is_served_in_a_vector():
    found = {form for resources, _ in served() for form in forms(resources)}
    assert FORMS - found == set()


def test_each_policy_and_each_locality_mode_occurs():
    options = [options for _, options in served()]
    assert {o["policy"] for o in options if "policy" in o} == set(POLICIES) == set(NODE_POLICIES)
    assert {o["locality"] for o in options if "locality" in o} == set(LOCALITIES)


def test_each_topology_policy_and_each_scope_of_kubernetes_occurs():
    options = [options for _, options in served()]
    policies = {o["topology_policy"] for o in options if "topology_policy" in o}
    assert policies == set(job_options.SAYS["topology_policy"])
    assert {o["topology_scope"] for o in options if "topology_scope" in o} == {"slot", "node"}


def test_each_kind_of_refusal_occurs():
    expected = [s["expect"] for d in OURS.values() for s in d["vectors"] if "expect" in s]
    kinds = {e["error"] for e in expected if "error" in e}
    assert kinds == {"invalid", "infeasible", "insufficient"}
    assert all("message" in e for e in expected if e.get("error") in ("invalid", "infeasible"))
