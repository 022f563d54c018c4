"""treepool beside Fluxion, which is the scheduler of an instance that chooses none."""

import json
import re
import socket

import pytest

from broker import Failed, Instance
from features import needs_fluxion
from hwlocfile import Device, Made

pytestmark = needs_fluxion

FLUXION = "sched-fluxion-qmanager"

#: A key: two sockets of four cores and a GPU.
KEY = {
    "writer": "TreePool",
    "children": [
        {
            "ranks": "0",
            "topo": {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]},
        }
    ],
}
R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "0-7", "gpu": "0-1"}}],
        "nodelist": [socket.gethostname()],
        "starttime": 0,
        "expiration": 0,
    },
}

#: Runs the rest of the line in an instance inside a job of four cores and a GPU.
INSIDE = ("flux", "alloc", "-n1", "-c4", "-g1", "-o", "cpu-affinity=off")


def lines(path, key=KEY):
    """The configuration of an instance whose R, with *key*, is in file *path*."""
    path.write_text(json.dumps({**R, "scheduling": key} if key else R))
    return [f"resource.path={path}", "resource.noverify=true"]


def start(*conf, env=None, options=()):
    """An instance that finds Fluxion, with the configuration *conf* and *options*."""
    env = {"FLUX_MODPROBE_PATH": None, **(env or {})}
    return Instance(0, conf=conf, env=env, options=options)


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
def keyed(tmp_path_factory):
    """An instance of sched-treepool whose R has a key."""
    with start(*lines(tmp_path_factory.mktemp("keyed") / "R"), CHOSEN) as instance:
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


def test_where_r_has_no_key_fluxion_is_the_scheduler_as_before(tmp_path):
    with start(*lines(tmp_path / "R", None)) as instance:
        assert services(instance) == {"sched": FLUXION, "feasibility": "sched-fluxion-feasibility"}
        assert services(instance, *INSIDE)["sched"] == FLUXION


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


NODE = Made(
    devices=[
        Device("0000:41:00.0", 0, backends=[("nvml0", "NVML")]),
        Device("0000:c1:00.0", 3, backends=[("nvml1", "NVML")]),
    ]
)


@pytest.fixture
def site(tmp_path):
    """Starts a node of four NUMA domains and two GPUs under Fluxion."""
    xml = tmp_path / "node.xml"
    xml.write_text(NODE.xml())
    env = {"FLUX_HWLOC_XMLFILE": str(xml), "FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM": "1"}
    lite = [{"rank": "0", "children": {"core": "0-15", "gpu": "0-1"}}]
    # Fluxion numbers a node by the digits at the end of its name.
    execution = {**R["execution"], "R_lite": lite, "nodelist": ["node0"]}
    of_node = {**R, "execution": execution}

    def start_site():
        path = tmp_path / "site.json"
        path.write_text(json.dumps(of_node))
        conf = (f"resource.path={path}", "resource.noverify=true")
        return start(*conf, env=env, options=("--test-hosts=node0",))

    return start_site


def test_jobs_of_fluxion_run_on_and_back_again_those_without_a_key(site):
    with site() as instance:
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


def test_commands_say_that_another_scheduler_runs_and_how_to_have_treepool(tmp_path):
    other = f"this instance runs {FLUXION}, not sched-treepool (for an instance that does: "
    with start(*lines(tmp_path / "R", None)) as instance:
        job = instance.submit("-n1", "-c8", "--wait-event=alloc")
        waits = instance.submit("-n1")
        for words in (["status"], ["show", "--instance"]):
            assert f"\n{other}" in instance.flux("treepool", *words)
        assert f"\n     {other}" in instance.run("treepool", "explain", waits).stdout
        assert other not in instance.flux("treepool", "explain", job)
        taken = instance.run("treepool", "snapshot", tmp_path / "taken")
        assert taken.returncode == 0
        assert taken.stderr.startswith(f"treepool snapshot: note: {other}")
        for words in (
            ["explain", "--instance", "slot/core"],
            ["window", "list"],
            ["status", "--users"],
        ):
            done = instance.run("treepool", *words)
            assert done.returncode != 0
            assert done.stderr.startswith(f"treepool {words[0]}: {other}")
            assert done.stderr.count("\n") == 1
        (how,) = re.findall(r": (flux alloc [^)]*)\)", done.stderr)
        instance.flux("cancel", "--all")
        words = (*how.split()[1:], "-o", "cpu-affinity=off", "flux", "treepool", "status")
        assert "not sched-treepool" not in instance.flux(*words)
