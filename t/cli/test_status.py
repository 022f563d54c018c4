"""Tables of ``treepool status`` in the columns that somebody names."""

import pytest

from fuzz import instance
from treepool.cli.screen import Stop
from treepool.cli.statustable import formatted
from treepool.view.jobs import UserLine

ROWS = [UserLine("alice", 2, 0, 3, 96, 4), UserLine("bob", 0, 1, 0, 0, 0)]


def test_a_format_is_that_of_flux_jobs():
    shown = formatted(UserLine, ROWS, "{user:<6} {cores:>5}", no_header=False)
    assert shown == ["USER   CORES", "alice     96", "bob        0"]
    assert formatted(UserLine, ROWS, "{gpus}", no_header=True) == ["4", "0"]


def test_the_table_that_is_named_is_formatted(treepool, monkeypatch):
    instance.pretend(monkeypatch, "name")
    assert treepool("status", "--jobs", "-no", "{job}").out.splitlines()
    assert treepool("status", "--users", "-no", "{running}").status == 0


@pytest.mark.parametrize(
    "text", ["{nonsense}", "{user.__class__}", "{user!r}", "{user", "{cores:d}", "{}"]
)
def test_what_is_no_column_is_one_line(text):
    with pytest.raises(Stop, match="argument -o: "):
        formatted(UserLine, ROWS, text, no_header=False)


@pytest.mark.parametrize("words", [["-n"], ["-o", "{job}"], ["-o", "{job}", "--jobs", "--users"]])
def test_a_format_needs_one_table(treepool, words):
    assert treepool("status", *words).is_one_line_error("argument -", status=2)
