"""doc/user.md: every command of its sh blocks and of its first table, run in a real instance."""

import re

import pytest

from broker import REPOSITORY, Instance
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "user.md").read_text()

#: The commands, without their comments, each once.
TYPED = [
    line.partition("  #")[0].strip() for block in blocks(GUIDE, "sh") for line in block.splitlines()
]
TABLE = re.findall(r"^\| .* \| `(flux [^`]*)` \|$", GUIDE, re.M)
COMMANDS = list(dict.fromkeys([*TABLE, *filter(None, TYPED)]))

#: What stands in the guide for something of the reader's own.
YOURS = {"./train": "true"}

#: Commands that run inside a job: on this machine's real cores, of which there may be one.
INSIDE = "flux run -n4 -c8 -g1"


@pytest.fixture(scope="module")
def busy(cluster):
    """Fake nodes on which a job runs and one waits."""
    cluster.load("sched-treepool")
    running = cluster.submit("-n4", "-c8", "-g1")
    cluster.wait(running, "alloc")
    waiting = cluster.submit("-N16", "-n16", "--exclusive")
    cluster.jobs = {"ƒ2k4xQ7": waiting, "ƒ3fR9sM": running}
    yield cluster
    cluster.cancel_all()


@pytest.fixture(scope="module")
def node():
    """This machine, as it is."""
    with Instance(0) as instance:
        yield instance


def test_there_are_commands():
    assert len(TABLE) > 8
    assert len(COMMANDS) > 14


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_it_says(busy, node, command, tmp_path):
    instance = busy
    for theirs, ours in YOURS.items():
        command = command.replace(theirs, ours)
    for theirs, ours in busy.jobs.items():
        command = command.replace(theirs, ours)
    if command.startswith(INSIDE):
        instance, command = node, command.replace(INSIDE, "flux run -n1")
    done = instance.sh(command, tmp_path)
    assert "Traceback" not in done.stderr
    # 1 is an answer: the job waits, the shape does not fit, or is not aligned.
    allowed = (0, 1) if "explain" in command or "verify" in command else (0,)
    assert done.returncode in allowed, done.stderr
    assert done.stdout or "bind -- " in command or (tmp_path / "now.html").is_file()
