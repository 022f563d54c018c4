"""Whatever comes in, what comes out is an answer or a one-line error: never a traceback."""

import contextlib
import io
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commandline import Result, well_behaved
from depth import examples
from treepool.cli.files import data_folder
from treepool.cli.main import main

READERS = (
    ("alloc", "slot=1/core", "-R"),
    ("alloc", "--json", "--jobspec"),
    ("validate",),
    ("subinstance",),
    ("conformance",),
)

BAD_TEXTS = {
    "empty": b"",
    "blank": b" \n\t",
    "binary": bytes(range(256)),
    "utf16": "{}".encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "no JSON": b"{]",
    "cut off": b'{"execution": {"R_lite": [',
    "nan": b'{"execution": NaN}',
    "twice the key": b'{"execution": 1, "execution": 2}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"execution":' * 5000 + b"1" + b"}" * 5000,
    "long number": b"9" * 10_000,
    "lone surrogate": b'{"\\ud800": "\\udfff"}',
}


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_file_that_is_no_json_is_refused_by_name(treepool, write, reader, name):
    path = write(BAD_TEXTS[name])
    result = treepool(*reader, path)
    assert well_behaved(result)
    assert result.status == 1
    assert len((result.out + result.err).splitlines()) == 1
    if "--jobspec" not in reader:
        assert result.is_one_line_error(str(path))


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
@pytest.mark.parametrize(
    "path", ["no/such/file", ".", "", "\0", "\x1b[31m", "\udcff", "n" * 300, "/proc/self/mem"]
)
def test_a_file_that_cannot_be_read_is_status_2(treepool, reader, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = treepool(*reader, path)
    assert result.is_one_line_error(status=2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read_is_status_2(treepool, write):
    path = write("{}")
    path.chmod(0)
    assert treepool("validate", path).is_one_line_error("Permission", status=2)


def quietly(*argv):
    """The result of the command, for use inside hypothesis."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(argv))
    return Result(status, out.getvalue(), err.getvalue())


words = st.one_of(
    st.sampled_from(
        ["--json", "--R", "-R", "--cluster", "a", "--jobspec", "--", "-", "-x", "--policy"]
        + ["--locality", "none", "--constraint", "{}", "slot=1/core", "slot=2/node{x}", ""]
    ),
    st.text(max_size=20),
    st.text("slotcoregpunode=/[]{}x;,+-:0123456789\"' ", max_size=30),
)


@given(st.sampled_from(["alloc", "validate", "subinstance", "conformance", "x"]), st.lists(words))
@settings(deadline=None, max_examples=examples(200))
def test_any_words(command, argv):
    if "-" in argv or any(word.startswith("-R-") for word in argv):
        return  # stdin is pytest's
    result = quietly(command, *argv)
    assert result.status in (0, 1, 2)
    assert well_behaved(result)
    assert len(result.err.splitlines()) <= max(1, len(argv))


@given(st.lists(st.text('slotcoregpunodenuma=/[]{}x;,+-:*^0123456789"', max_size=40), min_size=1))
@settings(deadline=None, max_examples=examples(300))
def test_any_shape_gets_an_answer(shapes):
    result = quietly("alloc", "--json", "--", *shapes)
    assert [line["shape"] for line in result.json] == shapes
    assert well_behaved(result)
    assert result.err == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value, path=()):
    """The paths of all values in JSON *value*."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def replaced(value, path, new):
    """JSON *value* with *new* at *path*."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


VECTORS = json.loads((data_folder("testvectors") / "rfc49-cluster-a.json").read_text())
VECTORS["vectors"][3:] = [
    {"id": "f", "free": "TVA1"},
    {"id": "d", "down": "0-3"},
    {"id": "u", "up": "0-1"},
    {
        "id": "j",
        "jobspec": {
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "with": [{"type": "core", "count": 1}]}],
            "attributes": {"system": {"duration": 0, "constraints": {"ranks": ["0"]}}},
        },
        "options": {"locality": "none"},
        "expect": {"error": "infeasible", "message": "x"},
        "rationale": "-",
    },
]


@given(st.data(), json_values)
@settings(
    deadline=None,
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_good_file_with_one_value_replaced_is_played_or_refused(tmp_path, data, new):
    path = data.draw(st.sampled_from(sorted(places(VECTORS), key=str)))
    document = replaced(VECTORS, path, new)
    vectors, R = tmp_path / "vectors.json", tmp_path / "R.json"
    vectors.write_text(json.dumps(document))
    R.write_text(
        json.dumps(
            replaced(VECTORS["cluster"]["R"], path[2:], new)
            if path[:2] == ("cluster", "R")
            else new
        )
    )
    for argv in (
        ["conformance", str(vectors)],
        ["validate", str(vectors)],
        ["validate", "--as", "R", str(R)],
        ["subinstance", str(R)],
        ["alloc", "-R", str(R), "slot=1/core", "slot=1/numa{x}"],
    ):
        result = quietly(*argv)
        assert result.status in (0, 1)
        assert well_behaved(result)
        assert len(result.err.splitlines()) <= 1


@pytest.mark.parametrize("columns", ["99999999", "9" * 30])
@pytest.mark.parametrize("words", [("show",), ("alloc", "slot/core"), ("explain", "slot/core")])
def test_a_terminal_of_any_width_gets_lines_of_a_thousand_columns_at_most(
    treepool, monkeypatch, columns, words
):
    monkeypatch.setenv("COLUMNS", columns)
    result = treepool(*words, "--cluster", "a")
    assert result.status == 0
    assert max(map(len, result.out.splitlines())) <= 1000
