"""The bar that long commands show: late, on a terminal, and gone before the first output."""

import re
import subprocess
import sys

from commandline import bare_environment, on_a_terminal

SCRIPT = """
import time
from treepool.cli import progressbar
progressbar.DELAY = {delay}
for _ in progressbar.counted(range(4), "nodes read"):
    time.sleep(0.3 if {delay} == 0 else 0)
progressbar.clear()
"""


def shown(delay, **environment):
    """What a loop writes to a terminal that waits for a bar only if that comes at once."""
    found, status = on_a_terminal("-c", SCRIPT.format(delay=delay), **environment)
    assert status == 0
    return found


def test_a_short_command_shows_nothing():
    assert shown(delay=60) == ""


def test_a_long_command_counts_and_clears_the_line():
    found = shown(delay=0)
    assert "3 nodes read" in found
    assert "left" not in found  # nobody knows how many there will be
    assert found.endswith("\x1b[1A\x1b[2K")


def test_no_color_is_respected():
    colour = re.compile(r"\x1b\[(?:3[0-9]|9[0-7])[0-9;]*m")
    assert colour.search(shown(delay=0))
    assert not colour.search(shown(delay=0, NO_COLOR="1"))


def test_nothing_is_written_where_stderr_is_no_terminal():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(delay=0)],
        stderr=subprocess.PIPE,
        env=bare_environment(),
        check=True,
    )
    assert done.stderr == b""
