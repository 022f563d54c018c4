"""No file of the library is long without a reason, and none is very long."""

import ast
import re
from pathlib import Path

import pytest

import treepool

HOUSE = Path(treepool.__file__).parent

#: Lines above which a file says in its docstring why it is so long; and that no file has.
LONG, MOST = 300, 400

REASON = re.compile(r"more than 300 lines|therefore long|makes it long|in this file|is one file")


@pytest.mark.parametrize("name", sorted(str(p.relative_to(HOUSE)) for p in HOUSE.rglob("*.py")))
def test_a_file_is_short_or_says_why_not(name):
    text = (HOUSE / name).read_text()
    lines = text.count("\n")
    assert lines <= MOST
    if lines > LONG:
        said = " ".join(ast.get_docstring(ast.parse(text)).split())
        assert REASON.search(said), f"{lines} lines"
