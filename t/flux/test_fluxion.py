"""treepool beside Fluxion, which is the scheduler of an instance that chooses none."""

import re
import socket

import pytest
from guide import NODE

from broker import Failed, Instance
from features import needs_fluxion
from hwlocfile import in_place
from made import nodes

pytestmark = needs_fluxion

FLUXION = "sched-fluxion-qmanager"

#: Two sockets of four cores and a GPU.
TOPO = {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}

#: Runs the rest of the line in an instance inside a job of four cores and a GPU.
INSIDE = ("flux", "alloc", "-n1", "-c4", "-g1", "-o", "cpu-affinity=off")


def start(topo, *conf):
    """An instance that finds Fluxion, configured by *conf*; without *topo* R has no key."""
    R = nodes("0", "0-7", "0-1", topo, nodelist=[socket.gethostname()])
    return Instance(R=R, conf=conf, env={"FLUX_MODPROBE_PATH": None})


def services(instance, *inside):
    """{service: module} of *instance*'s scheduler, or of that of the one *inside* a job of it."""
    found = {}
    for line in instance.flux(*(*inside, "flux", "module", "list")[1:], timeout=120).splitlines():
        module, *_, provided = line.split()
        names = {"sched", "feasibility"}.intersection(provided.split(","))
        found.update(dict.fromkeys(names, module))
    return found


SIMPLE = {"sched": "sched-simple", "feasibility": "sched-simple"}
TREEPOOL = {"sched": "sched-treepool", "feasibility": "sched-treepool"}
CHOSEN = "modules.alternatives.sched=sched-treepool"


# -- instances whose R has a key


@pytest.fixture(scope="module")
def keyed():
    """An instance of sched-treepool whose R has a key."""
    with start(TOPO, CHOSEN) as instance:
        yield instance


def test_an_instance_inside_a_job_starts_with_the_scheduler_it_has_without_fluxion(keyed):
    assert services(keyed, *INSIDE * 2) == SIMPLE


def test_there_a_job_that_can_never_run_is_refused_at_once(keyed):
    plugins = '--conf=ingest.validator.plugins=["jobspec","feasibility"]'
    with pytest.raises(Failed, match="no node has 9 cores"):
        keyed.flux(*INSIDE[1:], plugins, "flux", "submit", "-n1", "-c9", "true")


def test_two_brokers_in_one_node_have_no_key_and_so_have_fluxion(keyed):
    words = ("flux", "run", "-n2", "-c2", "-o", "cpu-affinity=off", "flux", "start")
    assert services(keyed, *words)["sched"] == FLUXION


@pytest.fixture(scope="module")
def bare():
    """An instance whose R has no key."""
    with start(None) as instance:
        yield instance


def test_where_r_has_no_key_fluxion_is_the_scheduler_as_before(bare):
    assert services(bare) == {"sched": FLUXION, "feasibility": "sched-fluxion-feasibility"}
    assert services(bare, *INSIDE)["sched"] == FLUXION


# -- from one to the other, with jobs running


OUT = ("sched-fluxion-qmanager", "sched-fluxion-feasibility", "sched-fluxion-resource")


def to_treepool(instance, *options):
    """Make treepool the scheduler instead of Fluxion."""
    instance.flux("modprobe", "remove", *OUT)
    instance.flux("module", "load", "sched-treepool", *options)


def to_fluxion(instance):
    """Make Fluxion the scheduler instead of treepool."""
    instance.flux("module", "remove", "sched-treepool")
    instance.flux("modprobe", "load", *OUT[:2])


def submit(instance):
    """A job that runs."""
    return instance.submit("-n1", "-c2", "--wait-event=alloc")


def states(instance, *jobs):
    return [instance.state(job) for job in jobs]


def test_jobs_of_fluxion_run_on_and_back_again_those_without_a_key(tmp_path):
    (tmp_path / "node.xml").write_text(NODE.xml())
    # Fluxion numbers a node by the digits at the end of its name.
    R = nodes("0", "0-15", "0-1", nodelist=["node0"])
    env = {"FLUX_MODPROBE_PATH": None, **in_place(tmp_path / "node.xml")}
    with Instance(R=R, env=env, options=("--test-hosts=node0",)) as instance:
        before = submit(instance)
        to_treepool(instance)
        keyed = submit(instance)
        instance.flux("module", "reload", "sched-treepool", "job-key=none")
        bare = submit(instance)
        assert states(instance, before, keyed, bare) == ["R", "R", "R"]
        assert ["scheduling" in instance.R(job) for job in (keyed, bare)] == [True, False]
        to_fluxion(instance)
        instance.wait(keyed, "exception")
        assert states(instance, before, bare) == ["R", "R"]
        assert instance.resources("allocated") == (1, 4, 0)
        to_treepool(instance)
        assert states(instance, before, bare) == ["R", "R"]
        assert "held back" not in instance.log()


# -- what is told


def test_commands_say_that_another_scheduler_runs_and_how_to_have_treepool(bare, tmp_path):
    other = f"this instance runs {FLUXION}, not sched-treepool (for an instance that does: "
    job = bare.submit("-n1", "-c8", "--wait-event=alloc")
    waits = bare.submit("-n1")
    for words in (["status"], ["show", "--instance"]):
        assert f"\n{other}" in bare.flux("treepool", *words)
    assert f"\n     {other}" in bare.run("treepool", "explain", waits).stdout
    assert other not in bare.flux("treepool", "explain", job)
    taken = bare.run("treepool", "snapshot", tmp_path / "taken")
    assert taken.returncode == 0
    assert taken.stderr.startswith(f"treepool snapshot: note: {other}")
    for words in (
        ["explain", "--instance", "slot/core"],
        ["window", "list"],
        ["status", "--users"],
    ):
        done = bare.run("treepool", *words)
        assert done.returncode != 0
        assert done.stderr.startswith(f"treepool {words[0]}: {other}")
        assert done.stderr.count("\n") == 1
    (how,) = re.findall(r": (flux alloc [^)]*)\)", done.stderr)
    bare.flux("cancel", "--all")
    words = (*how.split()[1:], "-o", "cpu-affinity=off", "flux", "treepool", "status")
    assert "not sched-treepool" not in bare.flux(*words)
