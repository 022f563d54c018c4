"""doc/preemption.md: its configuration and its commands, in a real instance."""

import pytest

from broker import REPOSITORY
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "preemption.md").read_text()


@pytest.fixture(scope="module")
def instance(small):
    with small.configured():
        small.flux("config", "load", stdin="".join(blocks(GUIDE, "toml")))
        small.flux("queue", "start", "--all", "--quiet")
        yield small


@pytest.mark.parametrize(
    "command", [line for block in blocks(GUIDE, "sh") for line in block.splitlines()]
)
def test_a_command_is_taken(instance, command):
    command = command.replace("./train", "true")
    if "--queue" not in command:
        command = command.replace("flux submit", "flux submit --queue=batch")
    done = instance.sh(command)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    assert instance.wait(job, "alloc")
