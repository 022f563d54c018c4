"""Nothing stands in the guides of doc/ that does not run as it says."""

import re

import pytest

from commandline import REPOSITORY
from documents import blocks, commands
from treepool import parse_shape
from treepool.flux.options import OF_POOL
from treepool.placement.choose import policy
from treepool.placement.request import job_options

GUIDES = {path.name: path.read_text() for path in sorted((REPOSITORY / "doc").glob("*.md"))}
SHOWN = [(name, command) for name, text in GUIDES.items() for command in commands(text)]


@pytest.mark.parametrize(
    "command", [c for _, c in SHOWN], ids=[f"{name}-{i}" for i, (name, _) in enumerate(SHOWN, 1)]
)
def test_a_command_prints_what_stands_below_it(command):
    assert command.prints() == command.expected


@pytest.mark.parametrize(
    "name, code", [(name, code) for name, text in GUIDES.items() for code in blocks(text, "python")]
)
def test_an_example_prints_what_its_comments_say(capsys, monkeypatch, name, code):
    monkeypatch.chdir(REPOSITORY)
    exec(compile(code, name, "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^ *print\(.*?#\s(.*)$", code, re.M)


def test_every_line_that_begins_with_treepool_is_run():
    # Those for Flux are run by t/flux/test_three_ways.py.
    here = [b for text in GUIDES.values() for b in blocks(text) if b[:4] not in ("$ R=", "$ fl")]
    typed = [line for block in here for line in block.splitlines() if line[:1] == "$"]
    assert len(typed) == len(SHOWN)


def test_the_shapes_of_the_tables_are_shapes():
    found = re.findall(r"`(?!flux|treepool)([^`\s]*/[^`\s]*)`", GUIDES["requests.md"])
    assert found
    for shape in found:
        parse_shape(shape.replace("/...", "/core"))


def test_the_options_of_jobs_in_the_guides_are_options():
    found = re.findall(r"(?<!sched-)\btreepool\.([a-z_]+)=([\w:.-]+)", "\n".join(GUIDES.values()))
    assert len(found) > 5
    for name, value in found:
        scope = {"level": "numa"} if name == "topology_scope" else {}
        above = ("nvl", "switch")
        value = int(value) if value.isdigit() else value  # as -S of flux submit reads it
        job_options.read({**scope, name: value}, ("l3", "numa", "socket"), "preferred", above)


def test_the_options_of_a_pool_are_those_in_the_guides():
    keys = GUIDES["admin.md"].partition("## Options")[2].partition("\n## ")[0]
    asked = next(line for line in GUIDES["questions.md"].splitlines() if "| `options` |" in line)
    for key, name in OF_POOL.items():
        assert f"`{name}`" in asked
        assert f"`{key} = " in keys


def test_the_costs_of_packing_are_those_of_the_policy():
    table = GUIDES["requests.md"].partition("| what costs |")[2].partition("\n\n")[0]
    costs = [int(cell) for cell in re.findall(r"^\|[^|]*\| (\d+)", table, re.M)]
    assert costs == [1, 2, 2, policy.STRADDLE, policy.BROKEN]
    assert f"1 for each {policy.CORES_OF_A_GPU} cores" in table
