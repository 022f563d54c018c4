"""treepool 0.1.0 is replaced in an instance with jobs, and comes back: nothing is lost."""

import io
import subprocess
import sysconfig
import tarfile

import pytest

from broker import REPOSITORY, Instance, key_of

#: The last commit of 0.1.0, before fabrics, queues and windows.
OLD = "44efefb"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The module of 0.1.0, as a site has it that installed it then."""
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", OLD, "treepool"], capture_output=True
    )
    if archive.returncode:
        pytest.skip(f"this checkout has no commit {OLD}: the upgrade was NOT tested")
    where = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(where)
    return where


def test_jobs_outlive_an_upgrade_and_the_way_back(old):
    # Version 0.1.0 put itself on PYTHONPATH, also of the brokers.
    path = f"{old}:{sysconfig.get_path('purelib')}"
    module = old / "treepool/flux/modules/sched-treepool.py"
    with Instance(2, 120, 8, key_of("rfc49-cluster-a"), env={"PYTHONPATH": path}) as instance:
        instance.load(module, "policy=easy")
        instance.scheduler = "sched-treepool"
        assert "version" not in instance.stats()
        local = instance.shape("slot=2/[core=8;gpu=1]", "-t1h")
        whole = instance.shape("slot=1/node{x}", "-t1h")
        waits = instance.shape("slot=1/node{x}", "-t1h")
        before = [instance.R(job) for job in (local, whole)]
        for name in ("sched-treepool", module):
            instance.load(name, "policy=easy")
            instance.scheduler = "sched-treepool"
            assert ("version" in instance.stats()) == (name != module)
            numbers = instance.run("treepool", "status", "--prometheus")
            assert (numbers.returncode == 0) == (name != module)
            if name == module:
                assert "this instance runs sched-treepool 0.1, which does not" in numbers.stderr
            assert [instance.state(job) for job in (local, whole, waits)] == ["R", "R", "S"]
            assert [instance.R(job) for job in (local, whole)] == before
            beside = instance.shape("slot=1/[core=8;gpu=1]", "-t1m", seconds=1)
            assert instance.placed(beside) == [("0", "30-37", "2")]
            instance.wait(beside, "clean")
        instance.load("sched-treepool", "policy=easy")
        instance.flux("cancel", whole)
        instance.wait(waits, "alloc")
        assert instance.placed(waits) == [("1", "0-119", "0-7")]
