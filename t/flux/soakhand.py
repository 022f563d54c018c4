"""Run by Flux's Python in the instance of a soak: what users and administrators do, at random.

``soakhand.py act JSON`` acts for a while, and with ``settle`` then waits until all jobs are over
and looks whether everything is free; ``soakhand.py collect JSON`` reads all that happened from the
KVS. Both leave what they saw in files of the run's directory. JSON is an object, see ``Hand``.
"""

import json
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import TreePool  # noqa: F401 (makes treepool importable)

# isort: split

import flux
import flux.constants
import flux.kvs
from burst import watch
from flux.idset import IDset
from flux.job import cancel_async, event_wait, job_list, submit_async
from flux.job.journal import JournalConsumer
from flux.resource import resource_list
from soakjobs import limited_job, random_job, whole_cluster

#: Schedulers with treepool's pool, as ``flux module load`` takes them.
SCHEDULERS = (
    ["sched-treepool"],
    ["sched-treepool", "policy=easy"],
    ["sched-treepool", "policy=conservative"],
    ["sched-treepool", "policy=easy", "node-policy=worst-fit"],
    ["sched-treepool", "policy=easy", "node-policy=node-fit", "locality=none"],
    ["sched-treepool", "policy=conservative", "reservation-depth=4", "node-policy=first-fit"],
    ["sched-treepool", "policy=easy", "node-policy=min-span", "queue-depth=8"],
)

#: Flux's own with treepool's pool. When it is unloaded it leaves jobs with an R and no alloc event,
#: and it never learns of what jobs free while it starts (see test_unload.py): so only where no
#: restart follows before all jobs are over, and not while they are waited for.
SIMPLE = ["sched-simple", "pool-class=TreePool"]

#: No more jobs than this at a time.
MOST_ACTIVE = 250

#: Seconds that a job runs at most, unless told otherwise.
LONGEST = 20.0

#: Seconds that a job may run longer than it should before it counts as forgotten.
OVERTIME = 15.0

#: Seconds until all jobs must be over, or the whole cluster be had.
SETTLING = 240


class Hand:
    """Acts on an instance.

    *told*: ``directory`` of the run, ``seed`` of this leg, ``seconds`` to act, ``settle``,
    ``nodes``, ``cluster`` ("a" or "b"), how many seconds a job runs at the ``longest``, and to how
    many jobs a start is promised (``promises``).
    """

    def __init__(self, told):
        self.told = told
        self.directory = Path(told["directory"])
        self.chance = random.Random(told["seed"])
        self.handle = flux.Flux()
        self.recent = []
        drained = self.handle.rpc("resource.status", nodeid=0).get()["drain"]
        self.drained = {rank for idset in drained for rank in map(int, IDset(idset))}
        self.counts = dict.fromkeys(
            ("submitted", "cancels", "reloads", "drains", "undrains", "priorities", "updates"), 0
        )
        #: Jobs that flux-core would let run for ever, see over().
        self.forgotten = set()

    def act(self):
        """Act for the time that was told; returns what was done how often."""
        end = time.monotonic() + self.told["seconds"]
        actions = [
            (0.62, self.submit),
            (0.14, self.cancel),
            (0.05, self.drain),
            (0.06, self.undrain),
            (0.05, self.prioritize),
            (0.03, self.update),
            (0.05, self.reload),
        ]
        while time.monotonic() < end:
            (action,) = self.chance.choices([a for _, a in actions], [w for w, _ in actions])
            action()
            time.sleep(self.chance.uniform(0, 0.2))
        if self.told["settle"]:
            self.settle()
        return self.counts

    def stats(self):
        """(jobs that are not over, jobs in housekeeping)."""
        said = self.handle.rpc("job-manager.stats-get").get()
        return said["active_jobs"], len(said["housekeeping"]["running"])

    def submit(self):
        """A burst of jobs, unless there are enough."""
        if self.stats()[0] > MOST_ACTIVE:
            time.sleep(0.3)
            return
        cluster, nodes = self.told["cluster"], self.told["nodes"]
        many, longest = self.chance.randint(1, 16), self.told.get("longest", LONGEST)
        self.send([random_job(self.chance, cluster, nodes, longest) for _ in range(many)])

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
        with (self.directory / "submitted").open("a") as file:
            file.writelines(f"{jobid}\n" for jobid in got)
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

    def drain(self):
        """Drain a few nodes, mostly of those that are used first."""
        nodes = self.told["nodes"]
        last = self.chance.choice([min(nodes, 16), min(nodes, 64), nodes]) - 1
        first = self.chance.randint(0, last)
        ranks = set(range(first, min(last, first + self.chance.choice([0, 1, 7])) + 1))
        new = ranks - self.drained
        if new and len(self.drained | new) <= nodes // 4:
            told = {"targets": str(IDset(sorted(new))), "reason": "soak"}
            self.handle.rpc("resource.drain", told, nodeid=0).get()
            self.drained |= new
            self.counts["drains"] += 1

    def undrain(self, everything=False):
        """Give back some of the drained nodes."""
        if self.drained:
            some = len(self.drained) if everything else self.chance.randint(1, len(self.drained))
            back = self.chance.sample(sorted(self.drained), some)
            told = {"targets": str(IDset(sorted(back)))}
            self.handle.rpc("resource.undrain", told, nodeid=0).get()
            self.drained -= set(back)
            self.counts["undrains"] += 1

    def reload(self, known=None):
        """Another scheduler of *known*, or the same again."""
        if known is None:
            known = [*SCHEDULERS, SIMPLE, SIMPLE] if self.told["settle"] else SCHEDULERS
        listed = self.command("module", "list").stdout.split("\n")
        old = [line.split()[0] for line in listed if line.startswith("sched-")]
        for name in old:
            self.command("module", "remove", name)
        self.command("module", "load", *self.chance.choice(known))
        self.counts["reloads"] += 1

    def command(self, *words):
        """``flux WORDS``; that it fails is a problem."""
        done = subprocess.run(["flux", *words], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            self.problem(f"flux {' '.join(words)}: {done.stderr.strip()}")
        return done

    def problem(self, text):
        """Note what went wrong other than for a job."""
        with (self.directory / "problems").open("a") as file:
            file.write(text.replace("\n", " ") + "\n")

    def settle(self):
        """Wait until all is over; look whether all is free; have all of it once."""
        self.undrain(everything=True)
        self.reload(SCHEDULERS)
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
        with (self.directory / "quiet").open("a") as file:
            file.write(json.dumps({"time": time.time(), **counts}) + "\n")
        for jobid in self.send([whole_cluster(self.told["nodes"])]):
            if self.until(lambda: self.stats() == (0, 0)):
                event_wait(self.handle, jobid, "clean", raiseJobException=False)
            else:
                self.problem(f"job {jobid} could not have the whole idle cluster")
        if self.told.get("promises"):
            self.promise()

    def promise(self):
        """Let jobs run up to their limits; note when they should have started, and when they did.

        Nothing else happens meanwhile, so that what they are told first must be kept.
        """
        self.reload((["sched-treepool", "policy=easy"], ["sched-treepool", "policy=conservative"]))
        journal = JournalConsumer(self.handle, full=False).start()
        cluster, nodes = self.told["cluster"], self.told["nodes"]
        specs = [limited_job(self.chance, cluster, nodes) for _ in range(self.told["promises"])]
        jobs = {jobid: {"told": None, "started": None} for jobid in self.send(specs)}
        watch(journal, jobs)
        journal.stop()
        with (self.directory / "promises").open("a") as file:
            file.write(json.dumps(jobs) + "\n")
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

    def until(self, question):
        """Whether *question()* came true in time."""
        end = time.monotonic() + SETTLING
        while not (answer := question()) and time.monotonic() < end:
            time.sleep(0.1)
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


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    if sys.argv[1] == "act":
        print(json.dumps(Hand(asked).act()))
    else:
        collect(asked)
