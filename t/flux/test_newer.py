"""A command asks a scheduler that is newer: it ignores what it does not know."""

import sysconfig
from pathlib import Path

import pytest

from broker import REPOSITORY, Instance, key_of

HERE = Path(__file__).parent

#: Commands that ask the scheduler; {waits} and {runs} are jobs.
COMMANDS = (
    "status --gpus --jobs --domains --users --json",
    "status --jobs --domains --users",
    "status --prometheus --users",
    "show --instance --json",
    "explain {waits} --json",
    "explain {runs}",
    "explain --instance slot=1/gpu --json",
    "explain --instance slot=1/gpu=99",
    "window list --json",
    "snapshot -",
    "advise --mix-from instance",
)


@pytest.fixture(scope="module")
def instance():
    with Instance(4, 120, 8, key_of("rfc49-cluster-a")) as instance:
        instance.load("sched-treepool", "policy=easy", "gpu-cores=1", "node-policy=best-fit")
        instance.runs = instance.shape("slot=4/node{x}", "-t1h")
        hosts = instance.R(instance.runs)["execution"]["nodelist"][0]
        instance.later = instance.shape("slot=4/node{x}", "-t1h")
        when = ("--start", "now", "--duration", "1h", "--user", "root")
        instance.flux("treepool", "window", "add", "--hosts", hosts, *when)
        assert instance.waits(instance.later)
        yield instance


@pytest.mark.parametrize("words", COMMANDS)
def test_what_a_newer_scheduler_adds_changes_no_answer(instance, words):
    words = words.format(waits=instance.later, runs=instance.runs).split()
    path = f"{REPOSITORY}:{sysconfig.get_path('purelib')}"
    mine = instance.run("treepool", *words)
    newer = instance.with_env(PYTHONPATH=path).run("python", HERE / "newer.py", *words)
    assert mine.returncode in (0, 1), mine.stderr
    assert (newer.returncode, newer.stderr) == (mine.returncode, mine.stderr)
    assert len(newer.stdout) > 50
