"""README's installation and first job, then doc/admin.md, "Try it", in a clone: as printed."""

import os
import re
import shlex
import shutil
import socket
import subprocess

import attrs
import pytest

from broker import REPOSITORY, bare
from documents import blocks, lines

README = (REPOSITORY / "README.md").read_text()
ADMIN = (REPOSITORY / "doc" / "admin.md").read_text()

#: The commands that install, those up to the instance, and those inside it.
(FIRST,) = blocks(README, "sh")
OUTSIDE, *INSIDE = (block for block in blocks(ADMIN) if block.startswith(("$ R=", "$ flux")))

#: README's installation; the demo after it is run by test_demo.py.
(_INSTALL,) = (block for block in blocks(README) if block.startswith("$ python3 -m venv"))
INSTALL, _DEMO, _ = _INSTALL.partition("$ treepool demo\n")
assert _DEMO

#: In FIRST, README's first job: what starts the instance, and what is typed into its shell.
STARTED = re.compile(r"^(flux start [^#\n]*).*?\n(.*?^exit\b)[^\n]*$", re.M | re.S)

#: Seconds for all of it, with what pip installs.
PATIENCE = 300


def commands(block):
    """The commands of *block*, each on one line."""
    one_line = block.replace("\\\n", "").splitlines()
    return [line[2:] for line in one_line if line.startswith("$ ")]


@attrs.frozen
class Walk:
    """What the blocks did.

    ``first`` is what README's first job printed, ``home`` the files that it left in the home.
    ``outside`` is what was printed before the instance, ``down`` how many of its nodes are down,
    ``ways`` what each block inside it printed, ``new`` the names of files that the clone got.
    """

    first: str
    home: list[str]
    outside: str
    down: str
    ways: list[str]
    new: set[str]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """The Walk of all blocks."""
    here = tmp_path_factory.mktemp("three")
    clone, home = here / "clone", here / "home"
    home.mkdir()
    skipped = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "mutants")
    shutil.copytree(REPOSITORY, clone, ignore=skipped)
    before = set(os.listdir(clone))
    steps = ["echo BEGIN", "flux resource list -s down -no {nnodes}", "echo END"]
    for block in INSIDE:
        for command in commands(block):
            steps += [f"echo {shlex.quote(f'$ {command}')}", command]
        steps.append("echo END")
    (here / "inside.sh").write_text("\n".join(steps))
    _, activate, _ = commands(INSTALL)
    *prepare, start = [activate, *commands(OUTSIDE)]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # pip's
    env = {
        **bare(),
        "HOME": str(home),
        "XDG_CONFIG_HOME": config,
    }

    def run(*words, **more):
        done = subprocess.run(
            words, cwd=clone, env=env, capture_output=True, text=True, timeout=PATIENCE, **more
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    # There is no terminal, so the shell of the instance gets its lines as an argument.
    typed = STARTED.sub(lambda found: f"{found[1]} bash -c {shlex.quote(found[2])}", FIRST)
    first = run("bash", input="\n".join([*commands(INSTALL), typed]))
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    script = "\n".join([*prepare, f"{start} sh -e ../inside.sh"])
    done = run("sh", "-ec", script, stdin=subprocess.DEVNULL)
    outside, _, inside = done.stdout.partition("BEGIN\n")
    down, *ways, _ = inside.split("END\n")
    return Walk(first.stdout, left, outside, down, ways, set(os.listdir(clone)) - before)


def test_the_first_job_has_its_answers_and_nothing_of_treepool_is_left(walk):
    job = re.search(r"^ƒ\w+$", walk.first, re.M)[0]
    assert f"\njob {job}: runs since " in walk.first
    assert re.search(r"^1 node: .* 1 of [\d,]+ cores? used", walk.first, re.M)
    assert re.search(rf"^{job} .* RUN .* {socket.gethostname()}/core", walk.first, re.M)
    assert walk.first.rstrip().rpartition("\n")[2].startswith("removed treepool")
    assert "now.html" in walk.home
    assert [name for name in walk.home if name.startswith(".local")] == []


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
