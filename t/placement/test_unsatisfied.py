"""The words of a refusal: what an unknown type was probably meant to be, which constraint fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made import asked, nodes
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InvalidJobspec
from treepool.placement.pool import Pool
from treepool.placement.why.unsatisfied import unsatisfied
from treepool.rfc.constraint import Constraint, evaluate, parse
from treepool.rfc.hostindex import HostIndex
from treepool.rfc.jobspec import from_resources


@pytest.fixture(scope="module")
def pool() -> Pool:
    """Four nodes with two sockets each."""
    sockets = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    having = {"red": "0-1", "blue": "2-3", "all": "0-3"}
    return Pool(nodes("0-3", gpus="0-1", topo={"socket": sockets}, properties=having))


@pytest.mark.parametrize(
    ("shape", "meant"),
    [
        ("slot/cores=2", "core"),
        ("slot/[core;mem=4]", "memory"),
        ("nodes=2/slot/core", "node"),
        ("slot/gpus=1", "gpu"),
        ("slot/sockets{x}", "socket"),
        ("slot/Socket{x}", "socket"),
    ],
)
def test_an_unknown_type_suggests_the_nearest_name_that_the_pool_knows(
    pool: Pool, shape: str, meant: str
) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        pool.parse_resource_request(from_resources(parse_shape(shape)))
    assert (
        f"(did you mean {meant!r}?); this pool knows node, slot, core, gpu, memory, storage, socket"
        in str(caught.value)
    )


def test_a_type_like_no_other_suggests_nothing(pool: Pool) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        pool.parse_resource_request(from_resources(parse_shape("slot/rack/core")))
    assert "unknown resource type 'rack'; this pool knows" in str(caught.value)


def why(pool: Pool, constraint: dict[str, Any]) -> str:
    """What the pool says of a job with *constraint*, behind the sentence common to all."""
    with pytest.raises(InfeasibleRequest) as caught:
        pool.check_feasibility(asked(pool, "slot/core", constraint))
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 500
    start = "no node satisfies the constraints"
    assert said.startswith(start)
    return said[len(start) :]


def has(*names: str) -> dict[str, Any]:
    return {"properties": list(names)}


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        # one value
        (has("amd-mi300"), "no node has property amd-mi300"),
        (has("^all"), "every node has property all"),
        ({"hostlist": ["x7"]}, "no node is called x7"),
        ({"ranks": ["7"]}, "no node has rank 7"),
        # which operand of an and
        ({"and": [has("red"), {"hostlist": ["x7"]}]}, "no node is called x7"),
        ({"hostlist": ["n0"], "properties": ["gone"]}, "no node has property gone"),
        # each alone, not together
        (
            has("red", "blue"),
            "some node satisfies each of property red and property blue, but none satisfies both",
        ),
        (
            {"and": [has("all", "red"), {"ranks": ["0-3"]}, {"hostlist": ["n[2-3]"]}]},
            "some node satisfies each of property red and host n[2-3], but none satisfies both",
        ),
        (
            {"and": [has("^red"), {"or": [{"ranks": ["0"]}, {"ranks": ["1"]}]}]},
            "some node satisfies each of no property red and (rank 0 or rank 1), "
            "but none satisfies both",
        ),
        # or, not
        (
            {"or": [has("gone"), {"hostlist": ["x7"]}]},
            "no node has property gone, and no node is called x7",
        ),
        (
            {"or": [has(name) for name in "abcde"]},
            "no node has property a, and no node has property b, and no node has property c, "
            "nor is any of 2 other alternatives satisfied",
        ),
        ({"not": [has("all")]}, "every node has property all"),
        (
            {"not": [{"or": [has("red"), has("blue")]}]},
            "every node satisfies (property red or property blue)",
        ),
        ({"not": []}, "a not without values is satisfied by no node"),
        ({"hostlist": []}, "an empty hostlist has no node"),
    ],
)
def test_constraints_that_no_node_satisfies_say_which_part_of_them(
    pool: Pool, constraint: dict[str, Any], reason: str
) -> None:
    assert why(pool, constraint) == f": {reason}"


def test_the_reason_is_a_short_printable_line_whatever_the_values(pool: Pool) -> None:
    why(pool, has("x" * 10_000))
    why(pool, has("\x1b[2J\n"))
    why(pool, {"hostlist": ["x[0-99999]"] * 10})
    why(pool, {"ranks": [str(n) for n in range(100, 3000)]})
    why(pool, {"not": [{"or": [has(f"^{n}") for n in range(1500)]}]})
    nested = has("gone")
    for _ in range(30):
        nested = {"or": [nested, nested]} if len(str(nested)) < 9000 else {"or": [nested]}
    why(pool, nested)


def test_many_values_are_looked_at_only_so_often() -> None:
    asked = []

    def matching(constraint: Constraint) -> int:
        asked.append(constraint)
        return 0b1

    parts = tuple(Constraint("properties", (f"p{n}",)) for n in range(4000))
    assert unsatisfied(Constraint("and", parts=parts), matching) == ""
    assert len(asked) < 100


CONSTRAINTS = st.recursive(
    st.one_of(
        st.lists(st.sampled_from(["red", "^red", "blue", "^all", "gone"]), max_size=3).map(
            lambda names: {"properties": names}
        ),
        st.lists(st.sampled_from(["n0", "n[1-2]", "x7"]), max_size=2).map(
            lambda hosts: {"hostlist": hosts}
        ),
        st.lists(st.sampled_from(["0", "1-3", "7"]), max_size=2).map(lambda ids: {"ranks": ids}),
    ),
    lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), st.lists(inner, max_size=3)).map(
        lambda pair: {pair[0]: pair[1]}
    ),
    max_leaves=8,
)


@given(CONSTRAINTS)
def test_any_constraint_that_no_node_satisfies_has_a_reason(constraint: dict[str, Any]) -> None:
    properties = {"red": 0b0011, "blue": 0b1100, "all": 0b1111}
    index = HostIndex(["n0", "n1", "n2", ""], 0b111)

    def matching(one: Constraint) -> int:
        return evaluate(one, 0b1111, properties, index.matching)

    if not matching(parse(constraint)):
        said = unsatisfied(parse(constraint), matching)
        assert said.startswith(": ")
        assert said.isprintable()


def test_a_pool_without_nodes_says_nothing_more() -> None:
    assert unsatisfied(parse({"properties": ["red"]}), lambda _: 0) == ""
