"""The scheduler is unloaded and loaded while jobs start and end: none is lost, nothing leaks.

A job has an R in the KVS just if it was allocated. When the job manager starts again it takes the
R of a job that waits for an allocation, and then refuses the allocation itself ("already
allocated") and stops talking to the scheduler, which no job survives.
"""

import json

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


def test_jobs_that_were_not_allocated_have_no_R(cluster):
    cluster.load("sched-treepool")
    told = json.loads(cluster.flux("python", "-c", SCRIPT, "sched-treepool"))
    assert any(alloc for alloc, _ in told)
    assert [number for number, (alloc, R) in enumerate(told) if alloc != R] == []
    cluster.load("sched-treepool")
    cluster.cancel_all()
