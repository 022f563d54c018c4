"""Nothing stands in the README that does not run as it says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language=""):
    """The fenced blocks of the README in *language*."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    return [text for kind, text in found if kind == language]


def treepool(arguments):
    command = [sys.executable, "-m", "treepool", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"COLUMNS": "100"})
    return run.stdout


def same(text):
    """Lines without the blanks at their ends."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def test_the_library_example_prints_what_its_comments_say(capsys, monkeypatch):
    (code,) = blocks("python")
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*?#\s(.*)$", code, re.M)


@pytest.mark.parametrize("block", [b for b in blocks() if b.startswith("$ treepool")])
def test_a_command_prints_what_stands_below_it(block):
    command, expected = block.split("\n", 1)
    assert same(treepool(shlex.split(command)[2:])) == same(expected)


def test_the_demo_prints_the_table_shown():
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^demo:.*?\n((?:\t.*\n)+)", makefile, re.M)[1]
    arguments = shlex.split(recipe.replace("\\\n", " "))[1:]
    assert same(treepool(arguments)) in [same(block) for block in blocks()]


def test_the_readme_shows_commands():
    assert [b for b in blocks() if b.startswith("$ treepool")]
