"""Instances inside jobs: the pool comes with R, and ids mean the right cores at every level."""

import json
from pathlib import Path

import pytest

from broker import key_of
from treepool.rfc import idset

SCRIPT = Path(__file__).with_name("levels.sh")

KEY = key_of("rfc49-cluster-a")

#: The cores and the GPU of each numa domain of cluster A, as sets.
DOMAINS = [
    (set(idset.iterate(idset.decode(d["cores"]))), set(idset.iterate(idset.decode(d["gpus"]))))
    for socket in KEY["children"][0]["topo"]["socket"]
    for d in socket["numa"]
]


def ids(R, kind):
    """All ids of *kind* in R's one entry, ascending."""
    (entry,) = R["execution"]["R_lite"]
    return list(idset.iterate(idset.decode(entry["children"][kind])))


def physical(level, job):
    """The topo's ids of *job*'s cores, from what its instance's R says of its own."""
    (entry,) = level["R"]["scheduling"]["children"]
    told = entry.get("allocated", {"cores": "0-119"})
    of_instance = list(idset.iterate(idset.decode(told["cores"])))
    of_r = ids(level["R"], "core")
    assert of_r == list(range(len(of_instance))), "flux counts the cores of an instance from zero"
    return {of_instance[core] for core in ids(job, "core")}


@pytest.fixture(scope="module", params=["sched-simple", "sched-treepool"])
def levels(cluster, request):
    """What levels.sh tells of an instance and the two below it, each in a job of the one above."""
    cluster.load(request.param)
    # The script is the only thing that runs here for real.
    run = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    said = cluster.flux("python", "-c", run, "sh", SCRIPT, 2, timeout=120)
    cluster.cancel_all()
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def test_the_key_comes_down_to_every_level(levels):
    for level in levels:
        assert level["R"]["scheduling"]["writer"] == "TreePool"
        assert level["job"]["scheduling"]["writer"] == "TreePool"


def test_each_slot_of_each_level_has_cores_beside_its_gpu(levels):
    for level, slots in zip(levels, (3, 2, 1)):
        cores, gpus = physical(level, level["job"]), set(ids(level["job"], "gpu"))
        assert len(gpus) == slots
        assert {gpu for core in cores for c, g in DOMAINS if core in c for gpu in g} == gpus


def test_what_is_inside_is_within_what_is_outside(levels):
    for outer, inner in zip(levels, levels[1:]):
        assert physical(inner, inner["job"]) <= physical(outer, outer["job"])
        assert set(ids(inner["job"], "gpu")) <= set(ids(outer["job"], "gpu"))
        assert len(ids(inner["R"], "core")) == len(ids(outer["job"], "core"))
