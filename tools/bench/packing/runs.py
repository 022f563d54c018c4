"""What is measured: a cluster that fills, one that stays full, and a queue.

Books check every place and every end without any code of the pools.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import Optional

import attrs

from bench.packing.clusters import Ask, Cluster, Mix
from bench.packing.pools import Packer, Place, covers, shape_of
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view import replay
from treepool.view.trace import TraceJob

#: Mean run times after which the jobs of an open run are as many as they will be, within 1 %.
_WARM = 5


class Books:
    """What is free, by what was said; raises AssertionError if that cannot be."""

    def __init__(self, on: Cluster) -> None:
        self.levels = [kind.levels() for kind in on.kinds]
        self.free = [levels[0][0] for levels in self.levels]
        self.places: dict[int, tuple[Ask, Place]] = {}
        self.used = Counter({0: 0, 1: 0})

    def start(self, jobid: int, ask: Ask, place: Place) -> bool:
        """Note a job; whether it straddles although on an idle node it would not."""
        rank, cores, gpus = place
        free = self.free[rank]
        assert not cores & ~free[0] and not gpus & ~free[1], f"job {jobid}: not free on {rank}"
        assert (idset.size(cores), idset.size(gpus)) == ask, (
            f"job {jobid}: {ask} got something else"
        )
        self.free[rank] = free[0] ^ cores, free[1] ^ gpus
        self.places[jobid] = ask, place
        self.used.update({0: ask[0], 1: ask[1]})
        levels = self.levels[rank]
        could = max(i for i, level in enumerate(levels) if any(covers(d, d, ask) for d in level))
        does = max(
            i
            for i, level in enumerate(levels)
            if any(not cores & ~d[0] and not gpus & ~d[1] for d in level)
        )
        return does < could

    def end(self, jobid: int) -> None:
        """A job ends."""
        ask, (rank, cores, gpus) = self.places.pop(jobid)
        self.free[rank] = self.free[rank][0] ^ cores, self.free[rank][1] ^ gpus
        self.used.subtract({0: ask[0], 1: ask[1]})

    def whole(self) -> tuple[int, int]:
        """How many sockets and nodes with GPUs are entirely free."""
        sockets = nodes = 0
        for levels, (cores, gpus) in zip(self.levels, self.free):
            node, below = levels[0][0], levels[1] if len(levels) > 1 else ()
            nodes += bool(node[1]) and (cores, gpus) == node
            sockets += sum(bool(d[1]) and not (d[0] & ~cores or d[1] & ~gpus) for d in below)
        return sockets, nodes


@attrs.define
class Found:
    """Numbers of a run: shares in percent.

    ``refused`` is of the jobs with several GPUs, at times when as many GPUs and cores were free.
    ``straddling`` is of all jobs that started. ``nodes`` and ``sockets`` were whole on average.
    """

    allocated: float = 0.0
    refused: float = 0.0
    straddling: float = 0.0
    sockets: float = 0.0
    nodes: float = 0.0


class _Run:
    """Jobs that start and end in a pool, and the books."""

    def __init__(self, on: Cluster, packer: Packer) -> None:
        self.on, self.packer, self.books = on, packer, Books(on)
        self.live: list[int] = []
        self.count = self.started = self.straddling = self.large = self.refused = 0
        self.gpus, self.samples, self.sockets, self.nodes = 0, 0, 0, 0

    def start(self, ask: Ask, counted: bool = True) -> Optional[int]:
        """Let a job start if the pool has a place."""
        self.count += 1
        used = self.books.used
        enough = used[0] + ask[0] <= self.on.cores and used[1] + ask[1] <= self.on.gpus
        place = self.packer.start(self.count, ask)
        straddles = place is not None and self.books.start(self.count, ask, place)
        if counted:
            self.started += place is not None
            self.straddling += straddles
            self.large += ask[1] > 1
            self.refused += ask[1] > 1 and place is None and enough
            if self.count % 16 == 0:
                sockets, nodes = self.books.whole()
                self.sockets, self.nodes = self.sockets + sockets, self.nodes + nodes
                self.gpus, self.samples = self.gpus + used[1], self.samples + 1
        return None if place is None else self.count

    def end(self, jobid: int) -> None:
        """Let a job end."""
        self.packer.end(jobid)
        self.books.end(jobid)

    def found(self) -> Found:
        """The numbers."""
        samples = max(1, self.samples)
        return Found(
            100 * self.gpus / samples / self.on.gpus,
            100 * self.refused / max(1, self.large),
            100 * self.straddling / max(1, self.started),
            self.sockets / samples,
            self.nodes / samples,
        )


def inflation(on: Cluster, mix: Mix, packer: Packer, seed: int, most: float = 1.0) -> Found:
    """Jobs arrive until they have asked for *most* of the GPUs, and none ends."""
    rng, run, asked = random.Random(seed), _Run(on, packer), 0
    while asked < most * on.gpus:
        ask = rng.choice(mix)
        asked += ask[1]
        run.start(ask)
    found = run.found()
    found.allocated = 100 * run.books.used[1] / on.gpus
    return found


def closed(
    on: Cluster, mix: Mix, packer: Packer, seed: int, load: float, turns: float
) -> Found:  # fmt: skip
    """Before each job, random others end until it stays below *load* of the GPUs and the cores.

    The cluster turns over *turns* times, and once before anything is counted.
    """
    rng, run, asked = random.Random(seed), _Run(on, packer), 0
    live: list[int] = []
    while asked < (1 + turns) * on.gpus:
        ask = rng.choice(mix)
        used = run.books.used
        while used[0] + ask[0] > load * on.cores or used[1] + ask[1] > load * on.gpus:
            i = rng.randrange(len(live))
            live[i], live[-1] = live[-1], live[i]
            run.end(live.pop())
        asked += ask[1]
        jobid = run.start(ask, asked > on.gpus)
        if jobid is not None:
            live.append(jobid)
    return run.found()


def opened(on: Cluster, mix: Mix, packer: Packer, seed: int, load: float, turns: float) -> Found:
    """Jobs come at random times (Poisson), run 1 on average, and are lost if they cannot start.

    Together they ask for *load* of the GPUs. Nothing is counted until the cluster is that full.
    """
    rng, run, now = random.Random(seed), _Run(on, packer), 0.0
    rate = load * on.gpus * len(mix) / sum(gpus for _, gpus in mix)
    ends: list[tuple[float, int]] = []
    while now < _WARM + turns:
        now += rng.expovariate(rate)
        while ends and ends[0][0] <= now:
            run.end(heapq.heappop(ends)[1])
        jobid = run.start(rng.choice(mix), now > _WARM)
        if jobid is not None:
            heapq.heappush(ends, (now + rng.expovariate(1), jobid))
    return run.found()


def waits(
    on: Cluster, mix: Mix, policy: str, seed: int, load: float, rule: str, jobs: int
) -> tuple[float, float]:
    """The mean wait of jobs with at most one GPU, and with four or more, in mean run times."""
    rng, now, traced = random.Random(seed), 0.0, []
    rate = load * on.gpus * len(mix) / sum(gpus for _, gpus in mix)
    size = {}
    for number in range(jobs):
        now += 1000 * rng.expovariate(rate)
        runs = max(1.0, 1000 * rng.expovariate(1))
        ask = rng.choice(mix)
        size[str(number)] = ask[1]
        traced.append(TraceJob("", str(number), now, runs, 1.5 * runs, shape_of(ask)))
    small: list[float] = []
    large: list[float] = []

    def watch(job: TraceJob, start: float, _: object) -> None:
        if size[job.name] <= 1:
            small.append(max(0.0, start - job.submit))
        elif size[job.name] >= 4:
            large.append(max(0.0, start - job.submit))

    rules = replay.Rules(policy, rule, 1, {"policy": policy})
    replay.replay(ResourceSet.read(on.R()), traced, rules, watch=watch)
    return tuple(sum(one) / max(1, len(one)) / 1000 for one in (small, large))
