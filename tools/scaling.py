"""Run by Flux's Python in an instance: a machine full of jobs, and very many that wait.

``scaling.py JSON`` with the numbers of ``nodes`` of ``cores`` cores, of jobs ``running`` and
``pending``, and of those that ``end`` one after another while all wait. Or with ``short`` jobs that
run for a moment, at most ``open`` of them at a time, spread over ``minutes``. Prints one JSON
object for each part.
"""

import json
import sys
import threading
import time

import flux
from flux.constants import FLUX_JOB_STATE_RUN
from flux.job import JobspecV1, cancel_async, job_list, submit_async

from soakadmin import module_of, resident, worked

#: Jobs that are submitted before any is waited for.
BATCH = 500

#: Parts in which the jobs that wait are submitted.
PARTS = 5

#: Seconds between two looks at the sizes of the processes, or a share of the whole time.
LOOK = 15.0, 1 / 12


class Pings(threading.Thread):
    """Pings the module; keeps how long it worked until it answered, and how long that took."""

    def __init__(self, module):
        super().__init__(daemon=True)
        self.module, self.worst, self.slowest = module, 0.0, 0.0
        self.start()

    def run(self):
        """Ping for ever."""
        handle = flux.Flux()
        while True:
            began, before = time.monotonic(), worked(self.module)
            handle.rpc("sched-treepool.ping", {"pad": ""}).get()
            self.worst = max(self.worst, worked(self.module) - before)
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.02)

    def take(self):
        """(most work of the module, most seconds) for an answer since this was asked last."""
        found, self.worst, self.slowest = (self.worst, self.slowest), 0.0, 0.0
        return found


class Machine:
    """The instance."""

    def __init__(self):
        self.handle = flux.Flux()
        self.broker = int(self.handle.attr_get("broker.pid"))
        self.module = module_of(self.broker)
        self.pings = Pings(self.module)
        self.began, self.work, self.goal = time.monotonic(), worked(self.module), 0

    def say(self, part, jobs):
        """Print what a part of so many *jobs* took."""
        seconds, work = time.monotonic() - self.began, worked(self.module) - self.work
        worst, slowest = self.pings.take()
        numbers = self.numbers()
        told = {
            "part": part,
            "jobs": jobs,
            "seconds": round(seconds, 1),
            "jobs/s": round(jobs / seconds, 1),
            "module, CPU s": round(work, 2),
            "module, us a job": round(1e6 * work / max(jobs, 1)),
            "worst answer, ms of work": round(1e3 * worst),
            "worst answer, ms": round(1e3 * slowest),
            "worst step, ms": round(1e3 * numbers["steps"]["worst"], 1),
            "long steps": numbers["steps"]["long"],
            "waiting": numbers["pending_jobs"],
            "running": numbers["running_jobs"],
            "module, MiB": resident(self.module),
            "broker, MiB": resident(self.broker),
        }
        print(json.dumps(told), flush=True)
        self.began, self.work = time.monotonic(), worked(self.module)

    def submit(self, number, cores=1, nodes=0, seconds=36000.0):
        """Submit so many jobs of a task with *cores*, or of whole *nodes*."""
        words = {"num_tasks": nodes, "num_nodes": nodes, "exclusive": True} if nodes else {}
        words = words or {"num_tasks": 1, "cores_per_task": cores}
        spec = JobspecV1.from_command(["true"], **words)
        spec.duration = max(60.0, seconds)
        spec.setattr("system.exec.test", {"run_duration": f"{seconds}s"})
        text = spec.dumps()
        while number > 0:
            futures = [
                submit_async(self.handle, text, novalidate=True) for _ in range(min(number, BATCH))
            ]
            number -= len(futures)
            for future in futures:
                future.get_id()
            yield len(futures)

    def numbers(self):
        """What the module tells of itself."""
        return self.handle.rpc("sched-treepool.numbers", {}).get()

    def wait(self, question):
        """Wait until *question()* is true."""
        while not question():
            time.sleep(0.2)

    def placed(self, number):
        """Wait until so many more jobs have been placed since this was asked last."""
        self.goal += number
        self.wait(lambda: self.numbers()["jobs"]["placed"] >= self.goal)

    def active(self):
        """How many jobs are not over."""
        return self.handle.rpc("job-manager.stats-get").get()["active_jobs"]

    def full(self, told):
        """Fill the machine, let very many wait, and some end."""
        half = told["cores"] // 2
        sum(self.submit(told["running"], half))
        self.say("submit those that run", told["running"])
        self.placed(told["running"])
        self.say("start them", told["running"])
        rest = told["nodes"] - told["running"] // 2
        sum(self.submit(1, nodes=rest))
        self.placed(1)
        self.say("fill the rest", 1)
        for part in range(1, PARTS + 1):
            sum(self.submit(told["pending"] // PARTS, half))
            enough = told["pending"] // PARTS * part
            self.wait(lambda: self.numbers()["pending_jobs"] >= enough)  # noqa: B023
            self.say("submit some that wait", told["pending"] // PARTS)
        time.sleep(10)
        self.say("ten seconds of rest", 0)
        listed = job_list(self.handle, told["end"], [], states=FLUX_JOB_STATE_RUN).get_jobs()
        for job in listed:
            cancel_async(self.handle, job["id"]).get()
        self.placed(told["end"])
        self.say("end some, others start", told["end"])

    def many(self, told):
        """Let very many short jobs pass, and look at memory."""
        sent = said = 0
        seconds, begin = 60 * told["minutes"], time.monotonic()
        look = max(LOOK[0], LOOK[1] * seconds)
        for number in self.submit(told["short"], seconds=0.001):
            sent += number
            last = sent == told["short"]
            self.wait(lambda: self.active() <= (0 if last else told["open"]))  # noqa: B023
            time.sleep(max(0.0, begin + seconds * sent / told["short"] - time.monotonic()))
            if last or time.monotonic() > self.began + look:
                passed = sent - self.active()
                self.say(f"{passed} short jobs", passed - said)
                said = passed


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    (Machine().many if "short" in asked else Machine().full)(asked)
