"""The scheduler is unloaded and loaded while jobs start and end: none is lost, nothing leaks.

A job has an R in the KVS just if it was allocated. When the job manager starts again it takes the
R of a job that waits for an allocation, and then refuses the allocation itself ("already
allocated") and stops talking to the scheduler, which no job survives.
"""

import json

import pytest

from broker import Instance, key_of

#: Submits jobs, unloads the scheduler in the middle of it; prints [allocated, jobs that have an R].
SCRIPT = """
import json, subprocess, sys
import flux
from flux.job import JobspecV1, event_wait, submit_async

handle = flux.Flux()
spec = JobspecV1.from_command(["true"], num_tasks=1, cores_per_task=1)
spec.duration = 60
spec.setattr("system.exec.test", {"run_duration": "30s"})
text = spec.dumps()
futures = [submit_async(handle, text, novalidate=True) for _ in range(800)]
jobs = [future.get_id() for future in futures]
event_wait(handle, jobs[0], "alloc")
handle.rpc("module.remove", {"name": sys.argv[1]}).get()
# What the job manager was told last it writes within its batch time.
handle.rpc("job-manager.stats-get").get()
subprocess.run(["sleep", "1"])

def has(job, key):
    lookup = {"id": int(job), "keys": [key], "flags": 0}
    try:
        return handle.rpc("job-info.lookup", lookup).get()[key]
    except OSError:
        return ""

told = [[" alloc" in has(job, "eventlog").replace('"', " "), bool(has(job, "R"))] for job in jobs]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def instance():
    with Instance(16, 120, 8, key_of("rfc49-cluster-a")) as instance:
        yield instance


def test_jobs_that_were_not_allocated_have_no_R(instance):
    instance.load("sched-treepool")
    told = json.loads(instance.flux("python", "-c", SCRIPT, "sched-treepool"))
    assert any(alloc for alloc, _ in told)
    assert [number for number, (alloc, R) in enumerate(told) if alloc != R] == []
    instance.load("sched-treepool")
    instance.cancel_all()


#: Submits short jobs and reloads the scheduler while they end; waits until all are over.
ENDING = """
import random, subprocess, time
import flux
from flux.job import JobspecV1, submit_async

handle, chance = flux.Flux(), random.Random(49)

def spec():
    made = JobspecV1.from_command(["true"], num_tasks=1)
    made.duration = 60
    made.setattr("system.exec.test", {"run_duration": f"{chance.uniform(0.3, 2.5):.3f}s"})
    return made.dumps()

for _ in range(3):
    futures = [submit_async(handle, spec(), novalidate=True) for _ in range(500)]
    jobs = [future.get_id() for future in futures]
    time.sleep(0.4)
    for _ in range(2):
        for words in (["remove", "sched-treepool"], ["load", "sched-treepool"]):
            subprocess.run(["flux", "module", *words], check=True)
        time.sleep(0.3)
while handle.rpc("job-manager.stats-get").get()["active_jobs"]:
    time.sleep(0.2)
"""


def test_what_jobs_give_back_while_the_scheduler_starts_is_free(instance):
    # The job manager tells a scheduler of what is freed only from ready on, not since hello.
    instance.load("sched-treepool")
    instance.flux("python", "-c", ENDING, timeout=120)
    assert instance.soon(lambda: instance.stats()["running_jobs"] == 0)
    whole = instance.submit("-N16", "-n16", "--exclusive", seconds=0.1)
    instance.wait(whole, "clean")
