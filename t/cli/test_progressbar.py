"""The bar that long commands show: late, on a terminal, and gone before the first output."""

import json
import re
import subprocess
import sys

from commandline import bare_environment, on_a_terminal

SCRIPT = """
import time
from treepool.cli import progressbar
progressbar.DELAY = {delay}
with progressbar.watched("treepool encode"):
    for _ in progressbar.counted(range(4), "nodes read"):
        bar = progressbar._current
        for _ in range(2000 if bar and {delay} == 0 else 0):
            if bar.shown:
                bar.shown.refresh()
                break
            time.sleep(0.01)
"""

#: A command that takes as long as the bar needs to come, and then writes.
COMMAND = """
import sys, time
from treepool.cli import advise, main, progressbar
progressbar.DELAY = 0
run = advise.run
def slow(arguments):
    for _ in range(2000):
        if progressbar._current.shown:
            break
        time.sleep(0.01)
    return run(arguments)
advise.run = slow
sys.exit(main.main({argv}))
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
    assert found.endswith("\x1b[1A\x1b[2K")


def test_a_command_that_says_nothing_of_its_progress_has_a_bar_until_its_first_output():
    found, status = on_a_terminal("-c", COMMAND.format(argv=["advise", "--cluster", "a", "--json"]))
    assert status == 0
    bar, _, output = found.partition("\x1b[1A\x1b[2K")
    assert "treepool advise" in bar
    assert json.loads(output)["version"] == 1


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
