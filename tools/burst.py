"""Run by Flux's Python in an instance: many jobs at once, and what the scheduler makes of them.

``burst.py JOBS SEED [SECONDS]`` submits mixed jobs and waits until all have started. With SECONDS
they run up to their time limits, of at most so many seconds; otherwise for a moment. Prints one
JSON object:

* ``seconds`` from the first submission until the last job has started,
* ``idle``: the median of the seconds that the module took to answer before,
* ``arriving`` and ``planning``, while jobs were submitted and from then on: ``slowest``, the most
  seconds until an answer, ``work``, the most CPU seconds of the module until one, and ``beside``,
  the most seconds until a module answered that does nothing, ``cron``: as long as that anybody
  waits for the broker and for a CPU,
* ``jobs``: by id, ``told``, the first ``t_reserved`` of the job (or null), and ``started``.
"""

import json
import random
import statistics
import sys
import threading
import time

import flux
from flux.job import JobspecV1, submit_async
from flux.job.journal import JournalConsumer

from soakadmin import module_of, worked

#: Seconds before its time limit at which a job ends: the shell's start counts as well.
EARLY = 1.0

#: Seconds after the last submission in which the module still works on requests for allocations.
BACKLOG = 2.0


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


def limited(chance, seconds):
    """A job that runs up to its limit."""
    spec = jobspec(chance)
    spec.duration = chance.randint(3, seconds)
    spec.setattr("system.exec.test", {"run_duration": f"{spec.duration - EARLY}s"})
    return spec


def answer(handle, module="sched-treepool"):
    """The seconds that *module* takes to answer."""
    began = time.monotonic()
    handle.rpc(f"{module}.stats-get", {}).get()
    return time.monotonic() - began


class Asking(threading.Thread):
    """Asks *module* for its statistics again and again, and how much *pid* works meanwhile."""

    def __init__(self, module, pid):
        super().__init__(daemon=True)
        self.module, self.pid = module, pid
        self.answers = []
        self.over = False
        self.start()

    def most(self, first, last):
        """The most (seconds, CPU seconds) of an answer that was asked for between two times."""
        answers = [figures for when, *figures in self.answers if first <= when < last]
        return tuple(map(max, zip(*answers))) or (0.0, 0.0)

    def end(self):
        """Stop asking."""
        self.over = True
        self.join()

    def run(self):
        """Ask until it is over."""
        handle = flux.Flux()
        while not self.over:
            began, work = time.time(), worked(self.pid)
            took = answer(handle, self.module)
            self.answers.append((began, took, worked(self.pid) - work))
            time.sleep(0.05)


def watch(journal, jobs):
    """Wait until all *jobs* have started, and note in them what *journal* says.

    Returns when the last of them came to the scheduler.
    """
    left, arrived = set(jobs), 0.0
    while left:
        event = journal.poll(timeout=300)
        job = jobs.get(event.jobid)
        if job is None:
            continue
        if event.name == "annotations":
            told = ((event.context["annotations"] or {}).get("sched") or {}).get("t_reserved")
            job["told"] = job["told"] or told
        elif event.name == "priority":
            arrived = event.timestamp
        elif event.name == "alloc":
            job["started"] = event.timestamp
            left.discard(event.jobid)
    return arrived


def main(number, seed, seconds):
    """Submit *number* jobs and see them start."""
    chance = random.Random(seed)
    handle = flux.Flux()
    idle = statistics.median(answer(handle) for _ in range(20))
    journal = JournalConsumer(handle, full=False).start()
    module = module_of(int(handle.attr_get("broker.pid")))
    asking, beside = Asking("sched-treepool", module), Asking("cron", module)
    began = time.time()
    specs = [limited(chance, seconds) if seconds else jobspec(chance) for _ in range(number)]
    futures = [submit_async(handle, spec) for spec in specs]
    jobs = {future.get_id(): {"told": None, "started": None} for future in futures}
    arrived = watch(journal, jobs)
    asking.end()
    beside.end()
    last = max(job["started"] for job in jobs.values())
    figures = {"seconds": last - began, "idle": idle}
    phases = {"arriving": (began, arrived + BACKLOG), "planning": (arrived + BACKLOG, last)}
    for phase, times in phases.items():
        slowest, work = asking.most(*times)
        figures[phase] = {"slowest": slowest, "work": work, "beside": beside.most(*times)[0]}
    print(json.dumps({**figures, "jobs": jobs}))


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:], 0][:3]))
