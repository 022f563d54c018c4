"""Documents that show commands: their fenced blocks, and what the commands print today."""

import re
import shlex
import subprocess
import sys

import attrs

from commandline import REPOSITORY, bare_environment

#: How wide the tables in documents are.
WIDTH = 100


@attrs.frozen
class Command:
    """A block that begins with ``$ treepool``: the arguments, and what stands below."""

    arguments: list[str]
    expected: list[str]

    def prints(self):
        """The lines that the command prints today; an error is not to be shown as output."""
        return treepool(self.arguments)


def blocks(text, language=""):
    """The fenced blocks of a document in *language*."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [block for kind, block in found if kind == language]


def commands(text):
    """The Commands a document shows."""
    found = []
    for block in blocks(text):
        if block.startswith("$ treepool"):
            command, expected = block.replace("\\\n", "").split("\n", 1)
            found.append(Command(shlex.split(command)[2:], lines(expected)))
    return found


def treepool(arguments):
    """The lines that ``treepool`` prints on stdout; nothing may come on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "treepool", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        env={**bare_environment(), "COLUMNS": str(WIDTH)},
    )
    assert done.stderr == ""
    return lines(done.stdout)


def lines(text):
    """The lines of *text* without the blanks at their ends."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]
