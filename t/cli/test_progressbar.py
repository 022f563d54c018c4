"""The bar that long commands show: late, on a terminal, and gone before the first output."""

import json
import os
import pty
import re
import subprocess
import sys

from commandline import bare_environment

SCRIPT = """
import time
from treepool.cli import progressbar
progressbar.DELAY = {delay}
with progressbar.watched("treepool encode"):
    for _ in progressbar.counted(range(4), "nodes read"):
        time.sleep(0.2)
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
    """What a loop of 0.8 s writes to a terminal, if a bar may come after *delay* seconds."""
    return on_a_terminal(SCRIPT.format(delay=delay), status=0, **environment)


def on_a_terminal(script, status, stdout=True, **environment):
    """What *script* writes to a terminal, which is its stderr and, if wanted, its *stdout*."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=follower if stdout else subprocess.DEVNULL,
        stderr=follower,
        env={**bare_environment(), "TERM": "xterm", **environment},
    ) as process:
        os.close(follower)
        found = b""
        try:
            while data := os.read(leader, 65536):
                found += data
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    assert process.returncode == status
    return found.decode()


def test_a_short_command_shows_nothing():
    assert shown(delay=60) == ""


def test_a_long_command_counts_and_clears_the_line():
    found = shown(delay=0)
    assert "3 nodes read" in found
    assert found.endswith("\x1b[1A\x1b[2K")


def test_a_command_that_says_nothing_of_its_progress_has_a_bar_until_its_first_output():
    found = on_a_terminal(COMMAND.format(argv=["advise", "--json"]), status=0)
    bar, _, output = found.partition("\x1b[1A\x1b[2K")
    assert "treepool advise" in bar
    assert json.loads(output)["version"] == 1


def test_an_error_comes_after_the_bar():
    found = on_a_terminal(COMMAND.format(argv=["advise", "-R", "no.json"]), status=2)
    assert found.partition("\x1b[1A\x1b[2K")[2].startswith("treepool advise: no.json: ")


def test_output_to_a_file_leaves_the_bar_to_the_terminal():
    found = on_a_terminal(COMMAND.format(argv=["advise", "--json"]), status=0, stdout=False)
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
