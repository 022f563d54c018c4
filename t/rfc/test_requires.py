"""RFC 35 queries: what flux submit --requires takes, as RFC 31 objects."""

import pytest

from treepool.errors import InvalidOption
from treepool.rfc import constraint
from treepool.rfc.requires import MAX_DEPTH, constraint_of

A, B, C = ({"properties": [name]} for name in "abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("a,^b", {"properties": ["a", "^b"]}),
        ("host:n[1-3]", {"hostlist": ["n[1-3]"]}),
        ("rank:0-3", {"ranks": ["0-3"]}),
        ("a b", {"and": [A, B]}),
        ("a&b && c", {"and": [A, B, C]}),
        ("a|b and c", {"or": [A, {"and": [B, C]}]}),
        ("(a || b)c", {"and": [{"or": [A, B]}, C]}),
        ("-a b", {"and": [{"not": [A]}, B]}),
        ("not a b", {"and": [{"not": [A]}, B]}),
        ("not (a or b)", {"not": [{"or": [A, B]}]}),
        ("not -host:n1", {"not": [{"not": [{"hostlist": ["n1"]}]}]}),
        ("driver-550", {"properties": ["driver-550"]}),
        (
            "nothing orange andes",
            {"and": [{"properties": [n]} for n in ("nothing", "orange", "andes")]},
        ),
        ("'a' host:\"n1,n2\"", {"and": [A, {"hostlist": ["n1,n2"]}]}),
    ],
)
def test_a_query_is_the_constraint_that_flux_makes_of_it(text, expected):
    assert constraint_of(text) == expected
    constraint.parse(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 1: a property or OPERATOR:VALUE is expected"),
        ("a |", "column 4: a property"),
        ("& a", "column 1: a property or OPERATOR:VALUE is expected before '&'"),
        ("(a", "column 3: ')' is expected"),
        ("a)", "column 2: no '(' before this ')'"),
        ("-(a)", "column 2: after '-' a property"),
        ("hots:n1", "column 1: unknown operator 'hots' (did you mean 'host"),
        ("host:", "column 1: host: needs a value"),
        ("a 'b", "column 3: a quote without an end"),
        ("not " * (MAX_DEPTH + 1) + "a", f"nesting depth is above {MAX_DEPTH}"),
        ("a " * 40000, "more than 65536 characters"),
    ],
)
def test_what_is_no_query_is_refused_with_the_column(text, said):
    with pytest.raises(InvalidOption) as refused:
        constraint_of(text)
    assert said in str(refused.value)
