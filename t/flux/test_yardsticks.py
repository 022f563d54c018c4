"""What measuring programs ask of a scheduler: an amender of fake resources, and sched.quiescent."""

import json

import pytest

from broker import Instance, installed
from hwlocfile import Made

#: Asks while jobs arrive, as Flux Fiction does after each of its steps, and what was answered when.
ASK = """
import json, os, flux, flux.job, sys
handle = flux.Flux()
for number in (7, 9):
    spec = flux.job.JobspecV1.from_command(["true"], num_tasks=1, cores_per_task=2, duration=3600)
    spec.setattr("system.exec.test.run_duration", "3600s")
    jobs = [flux.job.submit(handle, spec) for _ in range(number)]
    answer = handle.rpc("sched.quiescent", nodeid=0).get()
    has = flux.job.JobList(handle, ids=jobs).jobs()
    stats = handle.rpc("sched-treepool.numbers", nodeid=0).get()
    print(json.dumps([answer, stats["running_jobs"], stats["pending_jobs"]]))
"""


@pytest.mark.parametrize("name", ["module", "path"])
def test_fake_resources_of_hwloc_xml_get_a_key(name, tmp_path):
    xml = tmp_path / "node.xml"
    xml.write_text(Made(packages=2, numas=2).xml())
    home = installed() / "lib" / "treepool"
    amender = {"module": "treepool.flux.amend:amend", "path": home / "treepool/flux/amend.py"}
    fake = {"nnodes": 3, "hwloc-xml-path": xml, "amend-r": amender[name]}
    conf = [f"fake-resources.{key}={value}" for key, value in fake.items()]
    libraries = f"{home}:{home}/libraries" if name == "module" else None
    with Instance(0, conf=conf, env={"PYTHONPATH": libraries}) as instance:
        R = json.loads(instance.flux("kvs", "get", "resource.R"))
        (kind,) = R["scheduling"]["children"]
        assert kind["ranks"] == "0-2" and "numa" in json.dumps(kind["topo"])
        instance.load("sched-treepool")
        instance.wait(instance.shape("slot/numa{x}"), "alloc")


def test_quiescent_is_answered_when_all_jobs_have_started_or_are_planned(small):
    with small.configured() as instance:
        told = [json.loads(line) for line in instance.flux("python", "-c", ASK).splitlines()]
        assert told == [
            [{"status": 0, "alloc_current": 7}, 7, 0],
            [{"status": 0, "alloc_current": 8}, 8, 8],
        ]
        guest = instance.with_env(FLUX_HANDLE_USERID="12345", FLUX_HANDLE_ROLEMASK="0x2")
        ask = "import flux; flux.Flux().rpc('sched.quiescent', nodeid=0).get()"
        assert "requires owner credentials" in guest.run("python", "-c", ask).stderr
