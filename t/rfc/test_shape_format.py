"""RFC 46: the shortest shape of RFC 14 resources, and that it stands for the same resources."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rfc.vertices import NODE, slot, vertex
from treepool.errors import InvalidJobspec
from treepool.rfc import count
from treepool.rfc.shape import format_shape, parse_shape


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("[ slot=1{default} / [node=1{}] ]", "slot/node"),
        ("slot{default,x}/node", "slot{default,x}/node"),
        ("[slot{default}/node;slot{a}/node]", "[slot{default}/node;slot{a}/node]"),
        ("node{exclusive:true,a,b:false}", "node{x,+a,-b}"),
        (
            "node{'x','a b':'c d',d:'e',f:'1',g:\"true\",h:''}",
            'node{+"x","a b":"c d",d:e,f:"1",g:"true",h:""}',
        ),
        ("node=[2-5:1:+]{a:[{b:true}, 'c,d']}", 'node=2-5{a:[{+b},"c,d"]}'),
        ("node=1,2,3,5", "node=1-3,5"),
        ("slot{'x'}/node", "slot{x}/node"),
        ("node{a:'\u200b\u00e9',b:'\u00e9'}", 'node{a:"\\u200b\\u00e9",b:\u00e9}'),
    ],
)
def test_format_writes_the_shortest_shape(text: str, shortest: str) -> None:
    assert format_shape(parse_shape(text)) == shortest


@pytest.mark.parametrize(
    ("resources", "pointer"),
    [
        (None, ""),
        ("node", ""),
        ([None], "/0"),
        ([{"count": 1}], "/0"),
        ([{"type": "node"}], "/0"),
        ([NODE, {"type": "node", "count": 0}], "/1/count"),
        ([{"type": "node", "count": {"min": 1, "foo": 2}}], "/0/count"),
        ([{"type": "slot", "count": 1, "with": [NODE]}], "/0"),
        ([{"type": "slot", "count": 1, "label": "a"}], "/0"),
        ([{"type": "node", "count": 1, "with": []}], "/0/with"),
        ([vertex("node", 1, NODE, {"type": "gpu", "count": True})], "/0/with/1/count"),
        ([slot(1, NODE, label="a"), slot(1, NODE, label="a")], "/1/label"),
        ([vertex("node", a={"b/c": [1, {1, 2}]})], "/0/a/b~1c/1"),
        ([vertex("node", a=b"b")], "/0/a"),
        ([vertex("node", a=float("nan"))], "/0/a"),
        ([vertex("node", a=10**1000)], "/0/a"),
        ([{"type": "node", "count": 1, 5: 6}], "/0"),
        ([vertex("node", a={5: 6})], "/0/a"),
        ([vertex("node", a="b" * 65_536)], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_format_names_what_is_malformed(resources: Any, pointer: str) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        format_shape(resources)
    assert caught.value.pointer == pointer
    assert len(str(caught.value)) < 200


def test_format_refuses_deep_nesting() -> None:
    deep: Any = [NODE]
    value: Any = 1
    for _ in range(5000):
        deep = [vertex("node", 1, deep[0])]
        value = [{"a": value}]
    for resources in (deep, [vertex("node", a=value)]):
        with pytest.raises(InvalidJobspec, match="deeper than 32 levels"):
            format_shape(resources)


STRINGS = st.one_of(
    st.sampled_from(
        ["node", "core", "x", "exclusive", "default", "true", "1", "1+", "-a", "GB", ""]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        STRINGS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=3)
    ),
    max_leaves=6,
)
COUNTS = st.one_of(
    st.integers(1, 5),
    st.sampled_from(["2-8:2:*", "2+", "2-256:2:^", "4+:3", "1-3", "1,4,9", "2-4,8"]),
).map(lambda text: count.parse(text).spec())
KEYS = st.dictionaries(
    STRINGS.filter(lambda key: key not in ("type", "count", "with", "label")), JSON, max_size=2
)


def vertices(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kinds = st.one_of(st.just("slot"), STRINGS)
    some = st.lists(below, min_size=1, max_size=3)
    return st.builds(
        lambda kind, n, keys, under: {"type": kind, "count": n, **keys, "with": under},
        *(kinds, COUNTS, KEYS, some),
    )


LEAVES = st.builds(
    lambda kind, n, keys: {"type": kind, "count": n, **keys},
    *(STRINGS.filter(lambda kind: kind != "slot"), COUNTS, KEYS),
)


def labelled(resources: list[Any]) -> list[Any]:
    """The resources with a label of its own on each slot, "default" on the first."""
    rest, slots = list(resources), 0
    while rest:
        item = rest.pop()
        if item["type"] == "slot":
            item["label"] = f"l{slots}" if slots else "default"
            slots += 1
        rest += item.get("with", [])
    return resources


RESOURCES = st.lists(st.recursive(LEAVES, vertices, max_leaves=5), min_size=1, max_size=3)


@given(RESOURCES.map(labelled))
def test_parse_gives_back_the_resources_that_were_formatted(resources: list[Any]) -> None:
    text = format_shape(resources)
    assert parse_shape(text) == resources
    assert format_shape(parse_shape(text)) == text
