"""Colour is for terminals whose users want it: https://no-color.org, and terminals without any."""

import pytest

from commandline import REPOSITORY, on_a_terminal

#: Commands that colour or embolden something, and commands that do not.
COLOURED = (
    ("alloc", "slot=1/core", "slot=1/rack"),
    ("show", "--jobs", "slot=2/[core=8;gpu=1]"),
    pytest.param(("explain", "slot=1/core"), marks=pytest.mark.depth),
    pytest.param(("advise",), marks=pytest.mark.depth),
    pytest.param(("replay", "--synthetic", "3"), marks=pytest.mark.depth),
)
PLAIN = (
    ("validate", "doc/fabric.json"),
    ("encode", "--xml", "doc/node.xml", "--dry-run"),
    ("aloc",),
    ("alloc", "--help"),
)


def shown(words, **environment):
    """What the command writes to a terminal."""
    found, _ = on_a_terminal("-m", "treepool", *words, **environment)
    return found


@pytest.mark.parametrize("words", COLOURED, ids=str)
def test_a_terminal_gets_colour_unless_it_has_none_or_the_user_wants_none(words):
    coloured = shown(words, NO_COLOR="")
    assert "\x1b[" in coloured
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = shown(words, **environment)
        assert "\x1b" not in plain
        assert len(plain.splitlines()) == len(coloured.splitlines())


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_what_has_no_colour_needs_no_variable(words, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert "\x1b" not in shown(words)
