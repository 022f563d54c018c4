"""The mix of past jobs: ``mix = "history"``, and ``treepool advise --mix-from instance``."""

import json

import pytest

from broker import GUEST, Instance, key_of

TABLE = '[sched-treepool]\nmix = "history"\n'

#: What the jobs below ask for, in the order of the GPUs that they asked for together.
MIX = "1*slot=4/[core=15;gpu],3*slot/[core=8;gpu]"


def mix_of(instance):
    """The mix that the scheduler uses."""
    asked = "flux.Flux().rpc('sched-treepool.look', {}, 0, flux.constants.FLUX_RPC_STREAMING)"
    code = f"import flux, flux.constants; print({asked}.get_str())"
    return json.loads(instance.flux("python", "-c", code))["options"]["mix"]


def run(instance, *words):
    instance.wait(instance.submit(*words, seconds=0.01), "clean")


def is_soon(instance, mix):
    return instance.soon(lambda: mix_of(instance) == mix)


@pytest.fixture
def instance(tmp_path):
    """An instance in which jobs ran: three alike in other words, one of four GPUs, one of none."""
    (tmp_path / "sched.toml").write_text(TABLE)
    key = key_of("rfc49-cluster-a")
    with Instance(2, 120, 8, key, options=[f"--config-path={tmp_path}"]) as instance:
        instance.load("sched-treepool")
        instance.table = tmp_path / "sched.toml"
        yield instance


def jobs(instance):
    for words in (["-n1", "-c8", "-g1"], ["-n1", "-g1", "-c8", "--setattr=x=1"]):
        run(instance, *words)
    run(instance, "-n1", "-c8", "-g1", "--job-name=other")
    run(instance, "-n4", "-c15", "-g1")
    run(instance, "-n2", "-c8")


def test_the_mix_is_that_of_past_jobs_and_stays_until_the_next_reload(instance):
    assert instance.soon(lambda: "mix: none, as none of 0 past jobs" in instance.log())
    assert mix_of(instance) == ""
    jobs(instance)
    assert mix_of(instance) == ""
    instance.flux("module", "reload", "sched-treepool")
    assert is_soon(instance, MIX)
    said = "mix: of 5 past jobs, 2 of 2 shapes, 100 % of the GPUs that they asked for"
    assert f'{said}: "{MIX}"' in instance.log()
    run(instance, "-n8", "-c1", "-g1")
    assert mix_of(instance) == MIX
    instance.table.write_text(f'{TABLE}log-level = "debug"\n')
    instance.flux("config", "reload")
    assert is_soon(instance, f"1*slot=8/[core;gpu],{MIX}")
    instance.table.write_text('[sched-treepool]\nmix = "1*slot/gpu"\n')
    instance.flux("config", "reload")
    assert mix_of(instance) == "1*slot/gpu"


def test_jobs_start_while_past_jobs_are_not_known_yet(instance):
    jobs(instance)
    instance.flux("module", "remove", "job-list")
    instance.flux("module", "reload", "sched-treepool")
    run(instance, "-n4", "-c15", "-g1")
    assert instance.soon(lambda: "mix: past jobs are not known yet: " in instance.log())
    assert mix_of(instance) == ""
    instance.flux("module", "load", "job-list")
    assert is_soon(instance, MIX.replace("1*", "2*"))


def test_the_option_is_printed_and_a_guest_reads_his_own_jobs_alone(instance):
    jobs(instance)
    done = instance.run("treepool", "advise", "--mix-from", "instance")
    said = "# 5 jobs: 2 of 2 shapes, 100 % of the GPUs that they asked for"
    assert (done.returncode, done.stdout) == (0, f'{said}\nmix = "{MIX}"\n')
    assert done.stderr == ""
    done = instance.with_env(**GUEST).run("treepool", "advise", "--mix-from", "instance")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "treepool advise: 5 jobs could not be read",
        "treepool advise: instance: no job asked for GPUs that the cluster has",
    ]
