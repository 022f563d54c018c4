"""The table of ``treepool alloc``: everything is in it, whatever the width."""

import re

import pytest

from commandline import run_process, well_behaved

SHAPES = ("slot=1/node=1/[core=24;gpu=1]", "slot=9/core=17", "slot=1/rack", "slot=1/core=97")


def squeezed(text):
    """*text* without blanks and line breaks."""
    return re.sub(r"\s", "", text)


def test_each_entry_of_R_lite_has_its_line_and_the_slots_are_given_once(treepool):
    lines = treepool("alloc", "slot=17/core=15").out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["1", "slot=17/core=15", "xeon[0-1]", "0-119", "-", "17"],
        ["xeon2", "0-14", "-"],
    ]


def test_ranks_stand_beside_a_host_that_has_several(treepool, write):
    children = {"core": "0-3"}
    execution = {"R_lite": [{"rank": "0-2", "children": children}], "nodelist": ["n0,n0,n1"]}
    path = write({"version": 1, "execution": execution})
    for command, said in (("alloc", "n0/rank0  0-3"), ("explain", "n0 (rank 0): idle")):
        assert said in treepool(command, "-R", path, "slot/core=4").out
    assert "n1  " in treepool("alloc", "-R", path, *["slot/core=4"] * 3).out


def test_a_refusal_is_in_the_row_in_words(treepool):
    result = treepool("alloc", "slot=1/core=121", "slot=1/core")
    row = result.out.splitlines()[2]
    assert re.match(r"1  slot=1/core=121  infeasible: .*121 cores.*120", row)
    assert result.err == ""
    assert result.status == 1


def test_a_syntax_error_is_shown_with_a_caret(treepool):
    out = treepool("alloc", "slot=1/core=[9").out
    *_, shape, caret = out.splitlines()
    assert shape == "1: slot=1/core=[9"
    assert caret == " " * len(shape) + "^"


@pytest.mark.parametrize("width", [20, 60, 150])
def test_no_width_loses_anything(treepool, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    result = treepool("alloc", "--cluster", "b", *SHAPES)
    assert max(map(len, result.out.splitlines())) <= width
    text = squeezed(result.out)
    if width >= 100:
        for shape in SHAPES:
            assert shape in text
    for word in ("cray0", "0-23", "24-40,", "64,", "72-88", "slots", "97cores"):
        assert word in text
    assert well_behaved(result)


def test_shapes_are_no_markup(treepool):
    out = treepool("alloc", "slot=1/[core;gpu]", "[bold]x[/bold]", ":smile:").out
    assert "slot=1/[core;gpu]" in out
    assert "[bold]x[/bold]" in out
    assert ":smile:" in out


def test_no_colour_in_a_pipe():
    result = run_process("alloc", "slot=1/rack", FORCE_COLOR="1", TERM="xterm-256color")
    assert "invalid" in result.out
    assert "\x1b" not in result.out


def test_an_encoding_without_the_letters_escapes_them():
    result = run_process("alloc", "slot=1/\u00e9", PYTHONIOENCODING="ascii")
    assert "slot=1/\\xe9" in result.out
    assert result.status == 1
