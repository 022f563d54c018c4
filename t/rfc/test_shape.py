"""RFC 46: which texts are shapes, the RFC 14 resources they stand for, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rfc.vertices import NODE, slot, vertex
from treepool.errors import InvalidShape
from treepool.rfc.shape import format_shape, parse_shape
from treepool.rfc.shapetoken import MAX_TEXT
from work import Lines

#: Every example of RFC 46, under the number of its RFC 14 use case.
EXAMPLES = json.loads((Path(__file__).parent / "data" / "rfc46-examples.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["use_case"]))
def test_rfc_46_examples(example: dict[str, Any]) -> None:
    assert parse_shape(example["shape"]) == example["resources"]
    # the order of the keys as well
    assert json.dumps(parse_shape(example["shape"])) == json.dumps(example["resources"])
    assert format_shape(example["resources"]) == example["shape"]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("4", 4),
        ("[4]", 4),
        ("1", 1),
        ("2-5", {"min": 2, "max": 5, "operator": "+", "operand": 1}),
        ("[2-16:2:*]", {"min": 2, "max": 16, "operator": "*", "operand": 2}),
        ("2-256:2:^", {"min": 2, "max": 256, "operator": "^", "operand": 2}),
        ("2-6:2", {"min": 2, "max": 6, "operator": "+", "operand": 2}),
        ("3+", {"min": 3}),
        ("3+:2:*", {"min": 3, "operator": "*", "operand": 2}),
        ("1,4,9", "1,4,9"),
        ("[2-4,8]", "2-4,8"),
    ],
)
@pytest.mark.parametrize("rest", ["", "{x}", "/core", "{x}/core", " "])
def test_counts_are_integers_ranges_or_idsets(text: str, spec: object, rest: str) -> None:
    assert parse_shape(f"node={text}{rest}")[0]["count"] == spec
    assert parse_shape(f"[node={text}{rest};gpu]")[0]["count"] == spec


@pytest.mark.parametrize(
    ("braces", "keys"),
    [
        ("{}", {}),
        ("{+x}", {"exclusive": True}),
        ("{-x}", {"exclusive": False}),
        ("{exclusive}", {"exclusive": True}),
        ("{'x'}", {"x": True}),
        ("{+key,-other}", {"key": True, "other": False}),
        ("{unit:GB,x,id:a-b}", {"unit": "GB", "exclusive": True, "id": "a-b"}),
        ("{label:a}", {"label": "a"}),
        # strings that look like something else, and values that are no strings
        (
            "{a:1+,b:2-8:2:*,c:/mnt/x=y,d:01,e:-}",
            {"a": "1+", "b": "2-8:2:*", "c": "/mnt/x=y", "d": "01", "e": "-"},
        ),
        ("{a:1,b:-2,c:1.5,d:1e3,e:-0}", {"a": 1, "b": -2, "c": 1.5, "d": 1000.0, "e": 0}),
        ("{a:true,b:false,c:null}", {"a": True, "b": False, "c": None}),
        ("{a:True,b:'true',c:\"1\"}", {"a": "True", "b": "true", "c": "1"}),
        ('{a:[1, "b", [null]]}', {"a": [1, "b", [None]]}),
        ("{a:{b:{c:d},+e}}", {"a": {"b": {"c": "d"}, "e": True}}),
        ('{"a":{"b":[1,{"c":"d"}]}}', {"a": {"b": [1, {"c": "d"}]}}),
        ("{a:{type:b,count:2,with:[]}}", {"a": {"type": "b", "count": 2, "with": []}}),
    ],
)
def test_braces_hold_keys_of_the_vertex(braces: str, keys: dict[str, Any]) -> None:
    assert parse_shape(f"node=2{braces}/core") == [vertex("node", 2, vertex("core"), **keys)]


@pytest.mark.parametrize(
    ("quoted", "string"),
    [
        ('""', ""),
        ("'a b'", "a b"),
        ("'it\"s'", 'it"s'),
        (r'"a\"b\\\n\u00e9"', 'a"b\\\né'),
        (r"'a\n'", r"a\n"),
        ("'[]{};,/:='", "[]{};,/:="),
        ("'+a'", "+a"),
        ("a-b_c.d+e@f\\g", "a-b_c.d+e@f\\g"),
    ],
)
def test_types_labels_keys_and_values_may_be_quoted(quoted: str, string: str) -> None:
    text = f"[{quoted}=2{{{quoted}:{quoted}}};slot{{{quoted}}}/node]"
    assert parse_shape(text) == [
        {"type": string, "count": 2, string: string},
        slot(1, NODE, label=string),
    ]


def test_a_label_is_a_string_whatever_it_looks_like() -> None:
    for label in ("x", "4", "true", "null", "4GB-node"):
        assert parse_shape(f"slot{{{label}}}/node") == [slot(1, NODE, label=label)]


def test_a_slots_label_comes_before_its_other_keys() -> None:
    expected = {"type": "slot", "count": 1, "label": "a", "exclusive": False, "with": [NODE]}
    assert repr(parse_shape("slot{a,-x}/node")) == repr([expected])


def test_blanks_between_tokens_are_ignored() -> None:
    text = " [ slot = [ 4 ] { a , - x , b : [ 1 , { c } ] } / [ core ; gpu ] ; node ] \n\t"
    assert parse_shape(text) == parse_shape("[slot=4{a,-x,b:[1,{c}]}/[core;gpu];node]")


def test_a_list_without_brackets_ends_at_the_next_semicolon() -> None:
    assert parse_shape("[node/socket/core;gpu]") == [
        vertex("node", 1, vertex("socket", 1, vertex("core"))),
        vertex("gpu"),
    ]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "a resource type"),
        ("slot", 5, "'/' and what the slot holds"),
        ("[slot{a};core]", 9, "'/' and what the slot holds"),
        ("slot/", 6, "a resource type"),
        ("slot{}/node", 6, "the slot's label"),
        ("slot{unit:GB}/node", 6, "begin with its label"),
        ("slot{a", 7, "',' or '}'"),
        ("slot{a,label:b}/node", 8, "duplicate key 'label'"),
        ("slot{a,}/node", 8, "a key"),
        ("[slot{a}/node;node/slot/core]", 20, "needs a label"),
        ("[slot{a}/node;slot{a}/core]", 20, "'a' is already taken"),
        ("[slot{a}/core;node{label:a}]", 20, "'a' is already taken"),
        ("slot/node{label:default}", 1, "'default' is already taken"),
        ("core;gpu", 5, "needs brackets"),
        ("[core;gpu", 10, "';' or ']'"),
        ("[core,gpu]", 6, "';' between"),
        ("[core;]", 7, "a resource type"),
        ("[[core]]", 2, "a resource type"),
        ("[core]]", 7, "the end"),
        ("-node", 1, "a resource type"),
        ("node:2", 5, "the end"),
        ("node=/core", 6, "a count"),
        ("node= 0", 7, "positive"),
        ("node=02", 6, "'02'"),
        ("node=5-2", 6, "below min"),
        ("node=1-4:1:*", 6, "operand"),
        ("node=1-99999999999999999999", 6, "above"),
        ("node=4, 9", 6, "'4,'"),
        ("node=4 9", 8, "the end"),
        ("node=[4", 8, "']'"),
        ("node==4", 6, "'=4'"),
        ("node{", 6, "a key"),
        ("node{a b}", 8, "',' or '}'"),
        ("node{a:b c}", 10, "',' or '}'"),
        ("node{--a}", 7, "a key"),
        ("node{+a:true}", 8, "',' or '}'"),
        ("node{a:}", 8, "a value"),
        ("node{a:1,a:2}", 10, "duplicate key 'a'"),
        ("node{x,-exclusive}", 9, "duplicate key 'exclusive'"),
        ("node{type:a}", 6, "'type'"),
        ("node{a,count:2}", 8, "'count'"),
        ("node{a:[1,]}", 11, "a value"),
        ("node{a:[1}", 10, "',' or ']'"),
        ("node{a:1e999}", 8, "too large"),
        ("node{a:'b}", 8, "not closed"),
        ('node{a:"b\\"}', 8, "not closed"),
        ('node{a:"\\q"}', 9, "escape"),
        ('node{a:"b\tc"}', 10, "control character"),
        ("node\u00a0", 5, "the end"),
    ],
)
def test_errors_name_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape(text)
    assert str(caught.value).startswith(f"column {column}: ")
    assert message in str(caught.value)
    assert "\n" not in caught.value.line and not caught.value.line.endswith(" at")
    assert caught.value.caret().splitlines()[1] == " " * (column - 1) + "^"


def most_lines(text: str) -> int:
    """How many lines of treepool may run to read and write a shape of this length."""
    return 2000 + 100 * min(len(text), MAX_TEXT)


@pytest.mark.parametrize(
    ("text", "column", "right"),
    [
        ("slot/[core;memory=4GB]", 20, "write memory=4{unit:GB}"),
        ("slot/[core;memory=2-8GB]", 22, "write memory=2-8{unit:GB}"),
        ("slot/[core;memory=[2+GB]]", 22, "write memory=2+{unit:GB}"),
        ("slot/[core;memory=4G]", 20, "as in memory=4{unit:GB}; units: B, kB, KB, MB, GB"),
        ("slot/[core;memory=4\x94G]", 21, r"as in memory=4\x94{unit:GB}"),
    ],
)
def test_an_error_about_a_unit_shows_the_right_form(text: str, column: int, right: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape(text)
    assert caught.value.line.startswith(f"column {column}: a unit goes in braces")
    assert right in caught.value.line


def test_that_form_is_a_shape() -> None:
    (vertex,) = parse_shape("memory=2-8{unit:GB}")
    assert (vertex["type"], vertex["unit"]) == ("memory", "GB")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("slot/[core=8,gpu=1]", 13),
        ("slot/[core=[8],gpu=1]", 15),
        ("slot/[core,gpu]", 11),
        ("slot/[memory=4{unit:GB},core]", 24),
        ("slot/core=8,gpu=1", 12),
    ],
)
def test_an_error_about_a_comma_names_the_semicolon(text: str, column: int) -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape(text)
    assert caught.value.line == (
        f"column {column}: expected ';' between the resources of a list, as in [core=8;gpu=1], "
        "found ','"
    )


def test_counts_may_have_commas() -> None:
    assert parse_shape("[a=1,3;b=2]") == parse_shape("[a=[1,3];b=2]")


def test_an_error_as_text_shows_the_shape_with_a_caret_under_the_place() -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape("slot/[core=8 gpu=1]")
    assert str(caught.value).splitlines() == [
        "column 14: expected ';' or ']', found 'g'",
        "slot/[core=8 gpu=1]",
        "             ^",
    ]
    assert caught.value.line == "column 14: expected ';' or ']', found 'g'"


def test_an_error_without_a_text_is_one_line() -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape(4)  # type: ignore[arg-type]
    assert str(caught.value) == "column 1: a shape is a string, not int"


@pytest.mark.parametrize(
    "text",
    [
        "a/" * 32 + "a",
        "a{b:" + "[" * 33 + "]" * 33 + "}",
        "a{b:" + "{c:" * 33 + "1" + "}" * 34,
        "a" * 65_537,
        "a{b:" + "9" * 60_000 + "}",
    ],
    ids=lambda text: f"{text[:12]!a}-{len(text)}",
)
def test_a_shape_above_a_limit_is_refused_in_a_short_line(text: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_shape(text)
    assert len(caught.value.line) < 200
    assert len(caught.value.caret().splitlines()[0]) <= 72


@pytest.mark.depth
@pytest.mark.parametrize(
    "text",
    [
        "a/" * 31 + "a",
        "a{b:" + "[" * 32 + "]" * 32 + "}",
        "[" + ";".join(f"slot={i}{{s{i}}}/a" for i in range(1, 3500)) + "]",
        "a{" + ",".join(f"k{i}:{i}" for i in range(5000)) + "}",
        "a{b:[" + "1," * 30_000 + "1]}",
        "a=" + ",".join(str(2 * i) for i in range(1, 11_000)),
        "a{b:" + "9" * 1000 + "}",
        "a{b:'" + "c" * 65_000 + "'}",
    ],
    ids=lambda text: f"{text[:12]}-{len(text)}",
)
def test_shapes_up_to_the_limits_are_read_and_written(text: str) -> None:
    with Lines() as work:
        resources = parse_shape(text)
        assert parse_shape(format_shape(resources)) == resources
    assert work.count < most_lines(text)
