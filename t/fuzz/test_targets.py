"""Every parser under hypothesis: random bytes, mutated good documents, values of wrong types."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import examples
from fuzz.targets import TARGETS, Misbehaved, attempt

tries = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=list(HealthCheck),
)

#: Pieces that mean something to one parser or another.
WORDS = st.sampled_from(
    [b"slot", b"node", b"core=1", b"gpu", b"numa", b"{x}", b"=", b"/", b"[", b"]", b"{", b"}"]
    + [b";", b",", b"-", b"+", b":*", b":^", b":2", b"0", b"1", b"4194304", b"4611686018427387904"]
    + [b'"', b"'", b"\\", b"\n", b"\t", b" ", b"\0", b"\x1b[31m", b"\xed\xa0\x80", b"\xff"]
    + ["\u202e".encode(), "\u0661".encode(), b"NaN", b"null", b"true", b"1e999", b"99999999999"]
    + [b"<", b">", b"&", b"GPU0", b"NV4", b"PIX", b"X", b"MIG 1g.10gb Device 0:", b"num=1"]
)

#: Values of which some are of no type that a place wants.
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**62, 2**62 + 1, -1, 10**400, -(10**400), 2**1023, 1.5, 1e308]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["0-4194304", "0-4194305", "1-1", "h[0-9999999]", "\ud800", "x" * 2000, ""]),
    st.recursive(
        st.integers(0, 9) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)


def words_of(name):
    """The words, signs and blanks of a target's good documents."""
    found = re.findall(rb"\w+|\W", b"\n".join(TARGETS[name].seeds), re.ASCII)
    return st.sampled_from(sorted(set(found))) if found else WORDS


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
@tries
def test_words_in_any_order(name, data):
    words = WORDS | words_of(name) | st.binary(max_size=4)
    one_line = st.lists(words, max_size=24).map(b"".join)
    table = st.lists(st.lists(words, max_size=8).map(b" ".join), max_size=8).map(b"\n".join)
    attempt(name, data.draw(one_line | table))


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
@tries
def test_a_good_document_with_bytes_changed(name, data):
    seed = data.draw(st.sampled_from(TARGETS[name].seeds))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(seed)))
        end = start + data.draw(st.integers(0, 6))
        seed = seed[:start] + data.draw(WORDS | st.binary(max_size=4)) + seed[end:]
    attempt(name, seed)


def _is_json(name):
    return TARGETS[name].seeds[0][:1] in (b"{", b"[")


@pytest.mark.parametrize("name", [name for name in TARGETS if _is_json(name)])
@given(st.data())
@tries
def test_a_good_document_with_values_replaced(name, data):
    document = json.loads(data.draw(st.sampled_from(TARGETS[name].seeds)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(document))))
        document = changed(document, path, data)
    attempt(name, json.dumps(document).encode())


def places(value, path=()):
    """The paths of all values in a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(value, path, data):
    """A JSON value with another value, or none, or an additional one, at *path*."""
    if not path:
        new = data.draw(VALUES)
        if isinstance(value, dict) and data.draw(st.booleans()):
            return {**value, data.draw(st.text(max_size=4) | st.sampled_from([*value, "x"])): new}
        if isinstance(value, list) and data.draw(st.booleans()):
            return [*value, *value, new]
        return new
    copy = value.copy()
    if len(path) == 1 and data.draw(st.integers(0, 5)) == 0:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], data)
    return copy


def test_a_target_that_misbehaves_is_noticed(monkeypatch):
    def escaping(data):
        raise ValueError("\x1b[31m")

    def crashing(data):
        raise KeyError("x")

    monkeypatch.setitem(
        TARGETS, "escaping", type(TARGETS["idset"])("escaping", escaping, (ValueError,))
    )
    monkeypatch.setitem(TARGETS, "crashing", type(TARGETS["idset"])("crashing", crashing, ()))
    with pytest.raises(Misbehaved):
        attempt("escaping", b"")
    with pytest.raises(KeyError):
        attempt("crashing", b"")
