"""README's installation, then doc/admin.md, "Try it": in a clone, blocks print what they show."""

import os
import shlex
import shutil
import subprocess

import attrs
import pytest

from broker import REPOSITORY, bare
from documents import blocks, lines

README = (REPOSITORY / "README.md").read_text()
ADMIN = (REPOSITORY / "doc" / "admin.md").read_text()

#: The commands that install, those up to the instance, and those inside it.
(INSTALL,) = (block for block in blocks(README) if block.startswith("$ python3 -m venv"))
OUTSIDE, *INSIDE = (block for block in blocks(ADMIN) if block.startswith(("$ R=", "$ flux")))

#: Seconds for all of it, with what pip installs.
PATIENCE = 300


def commands(block):
    """The commands of *block*, each on one line."""
    one_line = block.replace("\\\n", "").splitlines()
    return [line[2:] for line in one_line if line.startswith("$ ")]


@attrs.frozen
class Walk:
    """What the blocks did.

    ``outside`` is what was printed before the instance, ``down`` how many of its nodes are down,
    ``ways`` what each block inside it printed, ``new`` the names of files that the clone got.
    """

    outside: str
    down: str
    ways: list[str]
    new: set[str]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """The Walk of all blocks, in one shell."""
    here = tmp_path_factory.mktemp("three")
    clone = here / "clone"
    skipped = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "mutants")
    shutil.copytree(REPOSITORY, clone, ignore=skipped)
    before = set(os.listdir(clone))
    steps = ["echo BEGIN", "flux resource list -s down -no {nnodes}", "echo END"]
    for block in INSIDE:
        for command in commands(block):
            steps += [f"echo {shlex.quote(f'$ {command}')}", command]
        steps.append("echo END")
    (here / "inside.sh").write_text("\n".join(steps))
    *prepare, start = [*commands(INSTALL), *commands(OUTSIDE)]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # pip's
    done = subprocess.run(
        ["sh", "-ec", "\n".join([*prepare, f"{start} sh -e ../inside.sh"])],
        cwd=clone,
        env={**bare(), "HOME": str(here), "XDG_CONFIG_HOME": config},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    outside, _, inside = done.stdout.partition("BEGIN\n")
    down, *ways, _ = inside.split("END\n")
    return Walk(outside, down, ways, set(os.listdir(clone)) - before)


def test_all_nodes_of_the_instance_are_up(walk):
    assert walk.down == "0\n"


def test_check_finds_no_problem(walk):
    assert "flux-core" in walk.outside
    assert "PROBLEM" not in walk.outside


def test_the_clone_gets_no_file_but_those_that_git_ignores(walk):
    assert walk.new == {".venv"}


@pytest.mark.parametrize(
    "way", range(3), ids=["pool-class of sched-simple", "sched-treepool", "sub-instance"]
)
def test_a_way_to_load_it_prints_what_the_readme_shows(walk, way):
    assert lines(walk.ways[way]) == lines(INSIDE[way].replace("\\\n", ""))


def test_the_readme_shows_three_ways():
    assert len(INSIDE) == 3
    assert [block.count("resource_summary") for block in INSIDE] == [1, 1, 1]
