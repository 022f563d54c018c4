"""Run by Flux's Python in the instance of a soak: what users and administrators do, at random.

``soakhand.py act JSON`` acts for a while, and with ``settle`` then waits until all jobs are over
and looks whether everything is free; ``soakhand.py kill JSON`` kills the instance, at a bad moment
if asked; ``soakhand.py collect JSON`` reads all that happened from the
KVS. Both leave what they saw in files of the run's directory. JSON is an object, see ``Hand``.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import TreePool  # noqa: F401 (makes treepool importable)

# isort: split

import flux
import flux.constants
import flux.kvs
from flux.job import JobID, cancel_async, event_wait, job_list, submit_async
from flux.job.journal import JournalConsumer
from flux.resource import resource_list

from burst import watch
from soakadmin import Admin
from soakjobs import limited_job, random_job, traced_job, whole_cluster

#: No more jobs than this at a time; with a trace, whose jobs are large.
MOST_ACTIVE, MOST_TRACED = 250, 60

#: Seconds that a job runs at most, unless told otherwise.
LONGEST = 20.0

#: Seconds that a job may run longer than it should before it counts as forgotten.
OVERTIME = 15.0

#: With a trace, the share of bursts that are of it.
TRACED = 0.8

#: Seconds until all jobs must be over, or the whole cluster be had.
SETTLING = 240


class Hand:
    """Acts on an instance.

    *told*: ``directory`` of the run, ``seed`` of this leg, ``seconds`` to act, ``settle``,
    ``nodes``, ranks that are ``gone`` and that may be ``lost`` (idsets), ``cluster`` ("a" or "b"),
    how many seconds a job runs at the ``longest``, and to how many jobs a start is promised
    (``promises``).
    """

    def __init__(self, told):
        self.told = told
        self.directory = Path(told["directory"])
        self.chance = random.Random(told["seed"])
        self.handle = flux.Flux()
        self.recent = []
        self.counts = Counter(submitted=0)
        self.admin = Admin(self)
        day = self.directory / "day"
        self.day = json.loads(day.read_text()) if day.exists() else []
        #: Jobs that flux-core would let run for ever, see over().
        self.forgotten = set()

    def act(self):
        """Act for the time that was told; returns what was done how often.

        However short it is, there are cancels, and a reload with jobs.
        """
        end = time.monotonic() + self.told["seconds"]
        actions = [
            (0.62, self.submit),
            (0.14, self.cancel),
            (0.05, self.prioritize),
            (0.03, self.update),
            *self.admin.actions(),
        ]
        surely = [self.admin.reload, self.cancel, self.submit]
        while time.monotonic() < end or surely:
            (action,) = self.chance.choices([a for _, a in actions], [w for w, _ in actions])
            (surely.pop() if surely else action)()
            time.sleep(self.chance.uniform(0, 0.2))
        if self.told["settle"]:
            self.settle()
        self.admin.measure()
        return self.counts

    def stats(self):
        """(jobs that are not over, jobs in housekeeping)."""
        said = self.handle.rpc("job-manager.stats-get").get()
        return said["active_jobs"], len(said["housekeeping"]["running"])

    def submit(self):
        """A burst of jobs, unless there are enough."""
        if self.stats()[0] > (MOST_TRACED if self.day else MOST_ACTIVE):
            time.sleep(0.3)
            return
        cluster, nodes = self.told["cluster"], self.told["nodes"]
        many, longest = self.chance.randint(1, 16), self.told.get("longest", LONGEST)
        if self.day and self.chance.random() < TRACED:
            specs = [
                traced_job(self.chance, cluster, nodes, longest, self.day) for _ in range(many)
            ]
        else:
            specs = [random_job(self.chance, cluster, nodes, longest) for _ in range(many)]
        self.send(specs)

    def send(self, specs):
        """Submit *specs*; their ids are noted at once.

        Without Flux's validator, which as it comes refuses every count that is not a number.
        """
        futures = [submit_async(self.handle, spec, novalidate=True) for spec in specs]
        got = []
        for future in futures:
            try:
                got.append(int(future.get_id()))
            except OSError as e:
                self.problem(f"submit: {e}")
        self.note("submitted", *got)
        self.recent = (self.recent + got)[-300:]
        self.counts["submitted"] += len(got)
        return got

    def cancel(self):
        """Cancel some jobs of the last, if they are not over."""
        last = self.recent[-40:]
        for jobid in self.chance.sample(last, min(len(last), self.chance.randint(1, 5))):
            with suppress(OSError):
                cancel_async(self.handle, jobid).get()
                self.counts["cancels"] += 1

    def prioritize(self):
        """Give a job another urgency; 0 would hold it for ever."""
        if self.recent:
            urgency = self.chance.randint(1, 31)
            with suppress(OSError):
                told = {"id": self.chance.choice(self.recent[-40:]), "urgency": urgency}
                self.handle.rpc("job-manager.urgency", told).get()
                self.counts["priorities"] += 1

    def update(self):
        """Give a job more time, which changes the end of one that runs."""
        if self.recent:
            seconds = self.chance.choice([1800.0, 7200.0])
            with suppress(OSError):
                updates = {"attributes.system.duration": seconds}
                told = {"id": self.chance.choice(self.recent[-40:]), "updates": updates}
                self.handle.rpc("job-manager.update", told).get()
                self.counts["updates"] += 1

    def note(self, name, *lines):
        """Append *lines* to a file of the run's directory."""
        with (self.directory / name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def problem(self, text):
        """Note what went wrong other than for a job."""
        self.note("problems", text.replace("\n", " "))

    def settle(self):
        """Wait until all is over; look whether all is free; have all of it once."""
        self.admin.everything_back()
        if not self.until(self.over):
            self.problem(
                f"after {SETTLING} s there are still (active, housekeeping) {self.stats()}"
            )
            return
        listed = resource_list(self.handle).get()
        counts = {
            name: [int(rset.nnodes), int(rset.ncores), int(rset.ngpus)]
            for name, rset in (("allocated", listed.allocated), ("free", listed.free))
        }
        self.note("quiet", json.dumps({"time": time.time(), **counts}))
        for jobid in self.send([whole_cluster(self.told["nodes"] - len(self.admin.gone))]):
            if self.until(lambda: self.stats() == (0, 0)):
                event_wait(self.handle, jobid, "clean", raiseJobException=False)
            else:
                self.problem(f"job {jobid} could not have the whole idle cluster")
        if self.told.get("promises"):
            self.promise()

    def promise(self):
        """Let jobs run up to their limits; note when they should have started, and when they did.

        Nothing else happens meanwhile, so that what they are told first must be kept. Under fifo
        most are told an estimate, which is no promise, and the order must be kept.
        """
        policy = self.chance.choice(["fifo", "easy", "conservative"])
        self.admin.reload((["sched-treepool", f"policy={policy}"],))
        journal = JournalConsumer(self.handle, full=False).start()
        cluster, nodes = self.told["cluster"], self.told["nodes"]
        specs = [limited_job(self.chance, cluster, nodes) for _ in range(self.told["promises"])]
        queues = [spec.queue for spec in specs]
        jobs = {
            jobid: {"told": None, "started": None, "queue": queue, "policy": policy}
            for jobid, queue in zip(self.send(specs), queues)
        }
        watch(journal, jobs)
        journal.stop()
        if policy == "fifo":
            for job in jobs.values():
                job["told"] = None
        self.note("promises", json.dumps(jobs))
        if not self.until(self.over):
            self.problem("jobs that were promised a start did not end")

    def over(self):
        """Whether no job is left.

        flux-core 0.86 to 0.88 forgets a simulated job whose last second passes while no broker is
        there: it runs for ever. No scheduler can help that, so such jobs are cancelled.
        """
        states = flux.constants.FLUX_JOB_STATE_RUN
        listed = job_list(self.handle, 0, ["t_run"], states=states).get_jobs()
        since = time.time() - self.told.get("longest", LONGEST) - OVERTIME
        for job in listed:
            if 0 < job.get("t_run", 0) < since:
                self.forgotten.add(job["id"])
                with suppress(OSError):
                    cancel_async(self.handle, job["id"]).get()
        self.counts["forgotten by flux-core, cancelled"] = len(self.forgotten)
        return self.stats() == (0, 0)

    def until(self, question, pause=0.1):
        """Whether *question()* came true in time."""
        end = time.monotonic() + SETTLING
        while not (answer := question()) and time.monotonic() < end:
            time.sleep(pause)
        return answer


def collect(told):
    """Write ``jobs`` and ``resource``: what the KVS has of all jobs, and the resource eventlog."""
    handle, directory = flux.Flux(), Path(told["directory"])
    submitted = [int(line) for line in (directory / "submitted").read_text().split()]
    with (directory / "jobs").open("w") as file:
        for first in range(0, len(submitted), 200):
            asked = [(i, lookups(handle, i)) for i in submitted[first : first + 200]]
            for jobid, futures in asked:
                file.write(json.dumps(answer(jobid, futures)) + "\n")
    eventlog = flux.kvs.get_key_direct(handle, "resource.eventlog")
    (directory / "resource").write_text(eventlog)
    print(json.dumps({"jobs": len(submitted)}))


def lookups(handle, jobid):
    """Futures of the job's eventlog, R and jobspec."""
    return [
        handle.rpc("job-info.lookup", {"id": jobid, "keys": [key], "flags": 0})
        for key in ("eventlog", "R", "jobspec")
    ]


def answer(jobid, futures):
    """The job as the checker wants it; what is not there is empty."""
    texts = []
    for key, future in zip(("eventlog", "R", "jobspec"), futures):
        try:
            texts.append(future.get()[key])
        except OSError:
            texts.append("")
    events = [json.loads(line) for line in texts[0].splitlines()]
    wanted = json.loads(texts[2])["attributes"]["user"]["soak"] if texts[2] else {}
    R = json.loads(texts[1]) if texts[1] else None
    return {"id": jobid, "events": events, "R": R, "wanted": wanted}


def kill(told):
    """Write a checkpoint, then kill the processes ``pids``; if ``at_R``, when a job gets its R."""
    hand, handle = Hand(told), flux.Flux()
    key = "soak.killed"
    if told["at_R"]:
        specs = [limited_job(hand.chance, told["cluster"], told["nodes"]) for _ in range(16)]
        places = [f"{JobID(jobid).kvs}.R" for jobid in hand.send(specs)]
        hand.until(lambda: any(flux.kvs.exists(handle, place) for place in places), 0)
    flux.kvs.put(handle, key, 1)
    flux.kvs.commit(handle, flux.constants.FLUX_KVS_SYNC)
    for pid in told["pids"]:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    if sys.argv[1] == "kill":
        kill(asked)
    elif sys.argv[1] == "act":
        print(json.dumps(Hand(asked).act()))
    else:
        collect(asked)
