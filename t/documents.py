"""Documents that show commands: their fenced blocks, and what the commands print today."""

import io
import os
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import attrs

from commandline import REPOSITORY, bare_environment
from treepool.cli.main import main

#: How wide the tables in documents are.
WIDTH = 100


@attrs.frozen
class Command:
    """A block that begins with ``$ treepool``: the arguments, and what stands below."""

    arguments: list[str]
    expected: list[str]

    def prints(self):
        """The lines that the command prints today."""
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
    """The lines that ``treepool`` prints on a terminal: what is on stderr is to be shown, too."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    environment = {**bare_environment(), "COLUMNS": str(WIDTH)}
    here = os.getcwd()
    with mock.patch.dict(os.environ, environment, clear=True), redirect_stdout(out):
        os.chdir(REPOSITORY)
        try:
            with redirect_stderr(out):
                main(arguments)
        finally:
            os.chdir(here)
    return lines(out.buffer.getvalue().decode())


def lines(text):
    """The lines of *text* without the blanks at their ends."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]
