"""RFC 31: what each operator matches, and what is not a constraint."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.errors import InvalidJobspec
from treepool.rfc import constraint, hostlist, idset
from treepool.rfc.hostindex import HostIndex


@attrs.frozen
class Cluster:
    """Ranks 0 to n-1, the host of each, and the properties that some have."""

    hosts: list[str]
    properties: dict[str, set[int]]

    def matching(self, value: object) -> set[int]:
        """The ranks that *value* matches according to treepool."""
        ranks = (1 << len(self.hosts)) - 1
        mask = constraint.evaluate(
            constraint.parse(value),
            ranks,
            {name: idset.from_ids(ranks) for name, ranks in self.properties.items()},
            HostIndex(self.hosts, ranks).matching,
        )
        return set(idset.iterate(mask))

    def matches(self, rank: int, value: dict[str, Any]) -> bool:
        """Whether *rank* matches: RFC 31 word for word, as the reference."""
        return all(self.holds(rank, operator, values) for operator, values in value.items())

    def holds(self, rank: int, operator: str, values: list[Any]) -> bool:
        if operator == "properties":
            return all(
                (rank in self.properties.get(v.lstrip("^"), ())) != v.startswith("^")
                for v in values
            )
        if operator == "hostlist":
            return any(self.hosts[rank] in hostlist.decode(v) for v in values)
        if operator == "ranks":
            return any(idset.decode(v) >> rank & 1 for v in values)
        found = [self.matches(rank, v) for v in values]
        if operator == "or":
            return any(found) or not found
        return all(found) if operator == "and" else not all(found)


#: Rank: 0 host0, 1 host1, ... ; 0 and 1 have ssd, 1 and 2 huge, 3 slowgpu, 4 a and b, 5 a.
CLUSTER = Cluster(
    [f"host{i}" for i in range(6)],
    {"ssd": {0, 1}, "huge": {1, 2}, "slowgpu": {3}, "a": {4, 5}, "b": {4}, "+batch": {2}},
)
EVERY = {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ('{ "properties": [ "ssd" ] }', {0, 1}),
        ('{ "properties": [ "^slowgpu" ] }', EVERY - {3}),
        ('{ "not": [ { "properties": [ "slowgpu" ] } ] }', EVERY - {3}),
        ('{ "or": [ { "properties": [ "ssd" ] }, { "properties": [ "huge" ] } ] }', {0, 1, 2}),
        ('{ "hostlist": [ "host[0-1]" ] }', {0, 1}),
        ('{ "not": [ { "hostlist": [ "host[0-1]" ] } ] }', EVERY - {0, 1}),
        ('{ "and": [ {"hostlist": ["host[0-1]"]}, {"properties": ["ssd"]} ] }', {0, 1}),
        ('{ "ranks": [ "0" ] }', {0}),
        ('{ "not": [{ "properties": [ "a", "b" ]}] }', EVERY - {4}),
        ('{ "or": [{ "properties": [ "a" ]}, { "properties": [ "b" ]}] }', {4, 5}),
        ('{ "or": [] }', EVERY),
        ('{ "and": [] }', EVERY),
        ('{ "not": [] }', set()),
        ("{}", EVERY),
    ],
)
def test_the_examples_of_rfc_31(text: str, ranks: set[int]) -> None:
    assert CLUSTER.matching(json.loads(text)) == ranks


@pytest.mark.parametrize(
    ("value", "pointer", "reason"),
    [
        ([], "", "an object, not an array"),
        ("ssd", "", "an object, not 'ssd'"),
        ({"foo": []}, "", "unknown constraint operator 'foo'"),
        ({1: []}, "", "unknown constraint operator 1"),
        ({"and": [{"ranks": ["0"], "xor": []}]}, "/and/0", "unknown constraint operator 'xor'"),
        ({"properties": "ssd"}, "/properties", "must be an array, not '"),
        ({"and": {}}, "/and", "must be an array, not an object"),
        ({"properties": ["ssd", 42]}, "/properties/1", "must be a string, not 42"),
        ({"hostlist": [None]}, "/hostlist/0", "must be a string"),
        ({"properties": [""]}, "/properties/0", "not empty"),
        ({"properties": ["foo", "bar&"]}, "/properties/1", "& is not allowed in property 'bar&'"),
        ({"properties": ["^^a"]}, "/properties/0", "^ is not allowed"),
        ({"ranks": ["5,1-3"]}, "/ranks/0", "must ascend"),
        (
            {"and": [{}, {"not": [{"ranks": ["1", "x"]}]}]},
            "/and/1/not/0/ranks/1",
            "'x' is not an id or range",
        ),
    ],
)
def test_an_invalid_constraint_is_an_error_with_its_pointer(
    value: object, pointer: str, reason: str
) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        constraint.parse(value)
    place, _, message = str(caught.value).partition(": ")
    assert place == "/attributes/system/constraints" + pointer
    assert reason in message
    assert str(caught.value).isprintable()


def test_pointers_start_where_the_caller_says() -> None:
    with pytest.raises(InvalidJobspec, match=r"^/queues/batch/or/0: "):
        constraint.parse({"or": [1]}, "/queues/batch")


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"not": [value]}
    return value


def test_nesting_is_bounded() -> None:
    constraint.parse(nested(constraint.MAX_DEPTH))
    with pytest.raises(InvalidJobspec, match="nesting depth is above 32"):
        constraint.parse(nested(constraint.MAX_DEPTH + 1))
    with pytest.raises(InvalidJobspec, match="nesting depth is above 32"):
        constraint.parse(nested(100_000))


def test_the_number_of_values_is_bounded_over_all_operators() -> None:
    half = {"properties": ["a"] * (constraint.MAX_VALUES // 2 - 1)}
    constraint.parse({"and": [half, half]})
    with pytest.raises(InvalidJobspec, match="more than 4096 values"):
        constraint.parse({"and": [half, half, {}]})


def test_a_range_may_have_any_number_of_hosts() -> None:
    assert CLUSTER.matching({"hostlist": ["host[1-99999999999999999999]"]}) == EVERY - {0}
    assert CLUSTER.matching({"hostlist": ["host[0-1048576],other[0-1048576]"] * 9}) == EVERY


@pytest.mark.parametrize(
    ("limit", "most", "accepted", "refused", "pointer"),
    [
        ("ITEMS", 4, {"hostlist": ["a,h[1-9]", "h[1,3]"]}, {"hostlist": ["a,b", "h[1,3-5,7]"]}, 1),
        ("ITEMS", 4, {"ranks": ["1,3", "5-9,20"]}, {"ranks": ["1,3", "5-9,20,30"]}, 1),
        (
            "BRACKETS",
            2,
            {"hostlist": ["h[1],a,h[2]"]},
            {"hostlist": ["a", "b", "h[1],h[2],h[3]"]},
            2,
        ),
    ],
)
def test_what_is_written_in_hostlists_and_rank_sets_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    most: int,
    accepted: dict[str, Any],
    refused: dict[str, Any],
    pointer: int,
) -> None:
    monkeypatch.setattr(constraint, f"MAX_{limit}", most)
    constraint.parse(accepted)
    with pytest.raises(InvalidJobspec, match=rf"/{pointer}: .* more than {most} "):
        constraint.parse(refused)


def test_what_is_written_is_counted_over_all_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint, "MAX_ITEMS", 3)
    constraint.parse({"or": [{"hostlist": ["a,b"]}, {"ranks": ["1"]}]})
    with pytest.raises(InvalidJobspec, match=r"/or/1/ranks/0: .* more than 3 hosts, ids and"):
        constraint.parse({"or": [{"hostlist": ["a,b"]}, {"ranks": ["1,3"]}]})


def test_the_length_of_all_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint, "MAX_TEXT", 10)
    constraint.parse({"properties": ["a" * 5, "b" * 5]})
    with pytest.raises(InvalidJobspec, match=r"/properties/1: .* more than 10 characters"):
        constraint.parse({"properties": ["a" * 5, "b" * 6]})


def test_later_changes_of_its_source_do_not_change_a_constraint() -> None:
    value = {"properties": ["a"]}
    parsed = constraint.parse(value)
    value["properties"].append("b")
    assert parsed == constraint.parse({"properties": ["a"]})


NAMES = ["p", "q", "r", "s"]
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"properties": st.lists(st.sampled_from(NAMES + ["^" + n for n in NAMES]), max_size=3)}
    ),
    st.fixed_dictionaries(
        {"hostlist": st.lists(st.sampled_from(["n0", "n[1-2]", "n[0,3],m", "x"]), max_size=2)}
    ),
    st.fixed_dictionaries(
        {"ranks": st.lists(st.sampled_from(["0", "1-3", "2,5", "", "4-40"]), max_size=2)}
    ),
    st.just({}),
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    logical = st.dictionaries(
        st.sampled_from(["and", "or", "not"]), st.lists(inner, max_size=3), max_size=2
    )
    return st.builds(lambda one, leaf: {**leaf, **one}, logical, st.just({}) | LEAVES)


CONSTRAINTS: st.SearchStrategy[dict[str, Any]] = st.recursive(LEAVES, combined, max_leaves=12)
CLUSTERS = st.integers(0, 8).flatmap(
    lambda n: st.builds(
        Cluster,
        st.lists(st.sampled_from(["n0", "n1", "n2", "n3", "m"]), min_size=n, max_size=n),
        st.dictionaries(st.sampled_from(NAMES[:3]), st.sets(st.integers(0, n + 2))),
    )
)


@settings(max_examples=examples(400))
@given(CLUSTERS, CONSTRAINTS)
def test_a_mask_has_exactly_the_ranks_that_match_one_by_one(cluster: Cluster, value: Any) -> None:
    expected = {rank for rank in range(len(cluster.hosts)) if cluster.matches(rank, value)}
    assert cluster.matching(value) == expected


@given(CONSTRAINTS, st.integers(0, 255))
def test_only_ranks_to_choose_from_match(value: Any, ranks: int) -> None:
    parsed = constraint.parse(value)
    every = constraint.evaluate(parsed, 255, {"p": 0b1010}, lambda hosts: 0b110)
    assert constraint.evaluate(parsed, ranks, {"p": 0b1010}, lambda hosts: 0b110) == every & ranks
