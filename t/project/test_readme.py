"""Nothing stands in the README that does not run as it says."""

import re
import shlex

import pytest

from commandline import REPOSITORY
from documents import commands, treepool
from treepool.cli.main import SUBCOMMANDS

README = (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("command", commands(README))
def test_a_command_prints_what_stands_below_it(command):
    assert command.prints() == command.expected


def test_the_demo_allocates_the_jobs_of_the_rfc():
    makefile = (REPOSITORY / "Makefile").read_text()
    recipe = re.search(r"^demo:.*?\n((?:\t.*\n)+)", makefile, re.M)[1]
    rows = treepool(shlex.split(recipe.replace("\\\n", " "))[1:])[2:]
    assert [row.split()[0] for row in rows] == [str(number) for number in range(1, 12)]


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]*)\)|^\[[^\]]*\]: (\S+)|(?:src|href)=\"([^\"]*)", README, re.M)
    assert links
    inside = [link for link in map("".join, links) if not link.startswith("https://")]
    assert [link for link in inside if not (REPOSITORY / link).is_file()] == []


def test_the_table_of_commands_has_every_subcommand():
    guide = (REPOSITORY / "doc" / "user.md").read_text().partition("## All commands")[2]
    shown = re.findall(r"^\| `(?:flux )?treepool ([\w-]+)", guide, re.M)
    assert set(shown) == {name for name, _, _ in SUBCOMMANDS}
