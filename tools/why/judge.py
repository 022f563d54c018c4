"""What users get of a scheduler, from the Rs and times of a run's jobs alone; no treepool in it."""

import math
from collections import Counter
from itertools import chain


def ids(text):
    """The ids of an idset."""
    parts = (part.partition("-") for part in text.split(",") if part)
    return list(chain.from_iterable(range(int(a), int(b or a) + 1) for a, _, b in parts))


class Run:
    """The *jobs* of a run on nodes of *domains* NUMA domains of so many (cores, GPUs), below
    switches of *switch* nodes.

    A job is a dict of its times ``submit``, ``alloc`` and ``free`` in seconds, its ``R_lite``, and
    how many ``cores`` each of its tasks has; a task has one GPU or none (``gpus``).
    """

    def __init__(self, jobs, nodes, domains, cores, gpus, switch):
        self.jobs, self.nodes, self.switch = jobs, nodes, switch
        self.domains, self.cores, self.gpus = domains, cores, gpus

    def places(self, job):
        """(rank, cores, GPUs) of *job*."""
        for entry in job["R_lite"]:
            children = entry["children"]
            for rank in ids(entry["rank"]):
                yield rank, ids(children["core"]), ids(children.get("gpu", ""))

    def apart(self):
        """The share of tasks with a GPU that have a core in another NUMA domain than it.

        Tasks get the cores and GPUs of their job on the node in the way that is best for them.
        """
        tasks = local = 0
        for job in self.jobs:
            for _, cores, gpus in self.places(job):
                near = Counter(core // self.cores for core in cores)
                here = Counter(gpu // self.gpus for gpu in gpus)
                tasks += len(gpus)
                local += sum(min(here[d], near[d] // job["cores"]) for d in here)
        return (tasks - local) / tasks

    def scattered(self):
        """The share of jobs of several nodes that are below more switches than they need."""
        more = several = 0
        for job in self.jobs:
            ranks = [rank for rank, _, _ in self.places(job)]
            switches = {rank // self.switch for rank in ranks}
            several += len(ranks) > 1
            more += len(switches) > math.ceil(len(ranks) / self.switch)
        return more / several

    def fragmented(self, least):
        """The share of the jobs with *least* GPUs or more that were the first to wait, for half a
        second, while as many GPUs and cores as they asked for were free."""
        changes = []
        for number, job in enumerate(self.jobs):
            held = [sum(map(len, of)) for of in zip(*((c, g) for _, c, g in self.places(job)))]
            changes += [(job["submit"], 0, number), (job["alloc"], 1, number)]
            changes.append((job["free"], 2, number))
            job["held"] = held
        free = [self.nodes * self.domains * n for n in (self.cores, self.gpus)]
        waiting, since, found = {}, {}, set()
        for time, what, number in sorted(changes):
            job = self.jobs[number]
            if what == 0:
                waiting[number] = None
            elif what == 1:
                del waiting[number]
                free = [f - h for f, h in zip(free, job["held"])]
            else:
                free = [f + h for f, h in zip(free, job["held"])]
            first = next(iter(waiting), None)
            enough = first is not None and all(
                f >= h for f, h in zip(free, self.jobs[first]["held"])
            )
            for other, began in list(since.items()):
                if time - began >= 0.5:
                    found.add(other)
                if other != first or not enough:
                    del since[other]
            if enough:
                since.setdefault(first, time)
        large = {n for n, job in enumerate(self.jobs) if job["held"][1] >= least}
        return len(found & large) / len(large)

    def wait(self):
        """The mean wait in seconds."""
        return sum(job["alloc"] - job["submit"] for job in self.jobs) / len(self.jobs)
