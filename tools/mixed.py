"""Run by Flux's Python in an instance: many jobs of all kinds, some cancelled; then a census.

``mixed.py JOBS SEED`` submits, cancels a tenth, reloads the scheduler now and then with other
arguments (RELOADS), and looks each time whether a core or GPU is in two jobs. Prints one JSON
object when all jobs are over.
"""

import json
import random
import subprocess
import sys
from contextlib import suppress

import flux.constants
import flux.kvs
from flux.idset import IDset
from flux.job import JobspecV1, cancel_async, event_wait, job_list, submit_async
from flux.job.JobID import JobID

RESULTS = {1: "completed", 2: "failed", 4: "canceled", 8: "timeout"}
RELOADS = (["policy=easy"], ["policy=conservative"], [])


def jobspec(chance):
    """A job of some kind, for a moment."""
    spec = JobspecV1.from_command(["true"], num_tasks=1)
    tasks = chance.choice([1, 1, 2, 4, 8])
    kind = chance.random()
    core = {"type": "core", "count": chance.choice([1, 2, 5, 15])}
    gpu = {"type": "gpu", "count": chance.choice([1, 1, 2])}
    slot = {"type": "slot", "count": tasks, "label": "task", "with": [core]}
    if kind < 0.4:
        slot["with"] = [core, gpu]
    elif kind < 0.5:
        slot["with"] = [{"type": "numa", "count": 1, "exclusive": True}]
    resources = [slot]
    if kind > 0.85:
        exclusive = {"exclusive": True} if kind > 0.95 else {}
        resources = [{"type": "node", "count": tasks, "with": [dict(slot, count=1)], **exclusive}]
    spec.jobspec["resources"] = resources
    spec.duration = chance.choice([1, 60, 3600])
    run = f"{chance.uniform(0.01, 0.5):.3f}s"
    spec.setattr("system.exec.test", {"run_duration": run})
    spec.setattr("system.cwd", "/")
    return spec


def doubles(handle):
    """What is in the R of two jobs at one moment, as the job list has it."""
    listing = job_list(handle, 0, ["state"], states=flux.constants.FLUX_JOB_STATE_RUNNING)
    seen, twice = {}, []
    for job in listing.get_jobs():
        name = JobID(job["id"])
        for entry in flux.kvs.get(handle, f"{name.kvs}.R")["execution"]["R_lite"]:
            for kind, ids in entry["children"].items():
                for item in [(r, kind, i) for r in IDset(entry["rank"]) for i in IDset(ids)]:
                    if item in seen:
                        twice.append([seen[item], name.f58, *item])
                    seen[item] = name.f58
    return twice


def main(number, seed):
    """Submit *number* jobs and see them through."""
    chance = random.Random(seed)
    handle = flux.Flux()
    jobs, reloads, twice = [], 0, []
    for turn in range(10):
        futures = [submit_async(handle, jobspec(chance)) for _ in range(number // 10)]
        new = [future.get_id() for future in futures]
        jobs += new
        for jobid in chance.sample(new, len(new) // 10):
            with suppress(OSError):  # it may be over
                cancel_async(handle, jobid).get()
        twice += doubles(handle)
        if turn % 3 == 2:
            arguments = RELOADS[reloads % len(RELOADS)]
            subprocess.run(["flux", "module", "reload", "sched-treepool", *arguments], check=True)
            reloads += 1
            twice += doubles(handle)
    results = {}
    for jobid in jobs:
        event_wait(handle, jobid, "clean", raiseJobException=False)
    listing = job_list(handle, 0, ["result", "exception_note"])
    for job in listing.get_jobs():
        name = RESULTS[job["result"]]
        results[name] = results.get(name, 0) + 1
        if name == "failed":
            results.setdefault("notes", []).append(job.get("exception_note"))
    print(json.dumps({"jobs": len(jobs), "reloads": reloads, "twice": twice, **results}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
