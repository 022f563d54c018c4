"""Run by Flux's Python in an instance: many jobs at once, and what the scheduler makes of them.

``burst.py JOBS SEED [SECONDS]`` submits mixed jobs and waits until all have started. With SECONDS
they run up to their time limits, of at most so many seconds; otherwise for a moment. Prints one
JSON object:

* ``seconds`` from the first submission until the last job has started,
* ``idle``, ``arriving`` and ``planning``: how long the module took to answer: the median before,
  the most while jobs were submitted, and the most from then on (all in seconds),
* ``jobs``: by id, ``told``, the first ``t_estimate`` of the job (or null), and ``started``.
"""

import json
import random
import statistics
import sys
import threading
import time

import flux
from flux.job import submit_async
from flux.job.journal import JournalConsumer
from mixed import jobspec

#: Seconds before its time limit at which a job ends: the shell's start counts as well.
EARLY = 1.0

#: Seconds after the last submission in which the module still works on requests for allocations.
BACKLOG = 2.0


def limited(chance, seconds):
    """A job that runs up to its limit."""
    spec = jobspec(chance)
    spec.duration = chance.randint(3, seconds)
    spec.setattr("system.exec.test", {"run_duration": f"{spec.duration - EARLY}s"})
    return spec


def answer(handle):
    """The seconds that the module takes to answer."""
    began = time.monotonic()
    handle.rpc("sched-treepool.stats-get", {}).get()
    return time.monotonic() - began


class Asking(threading.Thread):
    """Asks the module for its statistics again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.answers = []
        self.over = False

    def slowest(self, first, last):
        """The most seconds that an answer took which was asked for between two times."""
        return max((took for when, took in self.answers if first <= when < last), default=0.0)

    def run(self):
        """Ask until it is over."""
        handle = flux.Flux()
        while not self.over:
            self.answers.append((time.time(), answer(handle)))
            time.sleep(0.01)


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
            told = ((event.context["annotations"] or {}).get("sched") or {}).get("t_estimate")
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
    asking = Asking()
    asking.start()
    began = time.time()
    specs = [limited(chance, seconds) if seconds else jobspec(chance) for _ in range(number)]
    futures = [submit_async(handle, spec) for spec in specs]
    jobs = {future.get_id(): {"told": None, "started": None} for future in futures}
    arrived = watch(journal, jobs)
    asking.over = True
    asking.join()
    last = max(job["started"] for job in jobs.values())
    figures = {
        "seconds": last - began,
        "idle": idle,
        "arriving": asking.slowest(began, arrived + BACKLOG),
        "planning": asking.slowest(arrived + BACKLOG, last),
        "jobs": jobs,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:], 0][:3]))
