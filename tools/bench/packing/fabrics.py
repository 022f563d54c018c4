"""How near the nodes of jobs are, and what that costs: ``python tools/bench/packing fabrics``.

Jobs of whole nodes come at random times and wait in one queue with EASY backfill, which is the same
for all rules. With --shared, half of the jobs ask for a part of a node, and the queue is treepool's
own. A rule says which free nodes a job gets:

flat      treepool without a fabric
treepool  treepool with the fabric, locality preferred
waits     the same, but a job that one switch could host waits for one (--within)
slurm     what Slurm documents of topology/tree, written from its Topology Guide: the lowest switch
          that can serve the job, and below it as few leaf switches as possible, best fit

A row has, of jobs of several nodes, the switches that they span over the fewest that could hold
them, mean and 95th percentile, the share that span no more than that, and of all jobs the mean wait
and that of large jobs (in mean run times), and how much of the machine is in use.
"""

from __future__ import annotations

import heapq
import math
import random
from argparse import Namespace
from collections import Counter, deque
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from treepool import ResourceSet, parse_shape
from treepool.cli import plots
from treepool.cli.main import INTERRUPTED, Parser
from treepool.cli.screen import DONE, complain, out
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources
from treepool.view import replay
from treepool.view.trace import TraceJob


class Machine(NamedTuple):
    """``cells`` cells of ``switches`` switches of ``nodes`` nodes, numbered in this order.

    ``sizes`` are the nodes that jobs ask for, to draw from. ``leaf`` is what a switch is called.
    """

    cells: int
    switches: int
    nodes: int
    sizes: Sequence[int]
    leaf: str = "switch"

    @property
    def size(self) -> int:
        """All nodes."""
        return self.cells * self.switches * self.nodes

    def leaves(self, ranks: Iterable[int]) -> Counter[int]:
        """How many of *ranks* are in each switch."""
        return Counter(rank // self.nodes for rank in ranks)

    def R(self, fabric: bool) -> dict[str, Any]:
        """Its resource set, with the fabric or without."""
        ranks = f"0-{self.size - 1}"
        execution = {
            "R_lite": [{"rank": ranks, "children": {"core": f"0-{CORES - 1}"}}],
            "nodelist": [f"n[{ranks}]"],
        }
        scheduling: dict[str, Any] = {"writer": "TreePool", "children": []}
        if fabric:
            runs = [
                {"ranks": f"{first}-{first + self.nodes - 1}"}
                for first in range(0, self.size, self.nodes)
            ]
            scheduling["fabric"] = {self.leaf: runs}
            if self.cells > 1:
                cells = [runs[i : i + self.switches] for i in range(0, len(runs), self.switches)]
                scheduling["fabric"] = {"cell": [{self.leaf: cell} for cell in cells]}
        return {"version": 1, "execution": execution, "scheduling": scheduling}


#: The cores of a node.
CORES = 8

#: Small jobs are many, large ones have most of the nodes.
_OTHERS = [size for low in (1, 4, 16, 64, 256) for size in range(low, 4 * low, low)]
MACHINES = {
    "fat tree": Machine(1, 174, 64, [1, 1, 2, 2, *_OTHERS]),
    "NVL72": Machine(1, 64, 18, [1, 2, 4, 8, 16, 16, 16, 16, 32, 64], "nvl"),
    "dragonfly": Machine(24, 16, 16, [1, 1, 2, 2, *_OTHERS]),
}


class Job(NamedTuple):
    """A job that came at ``submit`` and runs for ``runs``, at most for ``limit``.

    It asks for ``nodes``, or for ``cores`` of one of them.
    """

    submit: float
    nodes: int
    runs: float
    limit: float
    cores: int = CORES


class Rule:
    """Which free nodes a job gets."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def one_switch(self, nodes: int) -> bool:
        """Whether a job of so many *nodes* waits for one switch."""
        return False

    def look(self, nodes: int) -> Optional[list[int]]:
        """The ranks of a job of so many *nodes*, None if it has to wait."""
        raise NotImplementedError

    def start(self, jobid: int, nodes: int, ranks: list[int]) -> None:
        """The job that was looked at starts."""
        raise NotImplementedError

    def end(self, jobid: int, ranks: list[int]) -> None:
        """It ends."""
        raise NotImplementedError


class Treepool(Rule):
    """treepool, with the fabric or without; jobs that one switch can host may wait for one."""

    def __init__(self, machine: Machine, fabric: bool = True, waits: bool = False) -> None:
        super().__init__(machine)
        self.pool = Pool(machine.R(fabric))
        self.waits = waits
        self.requests: dict[int, Any] = {}

    def one_switch(self, nodes: int) -> bool:
        return self.waits and nodes <= self.machine.nodes

    def request(self, nodes: int) -> Any:
        """The request of a job of so many *nodes*."""
        if nodes not in self.requests:
            options = {"within": self.machine.leaf} if self.one_switch(nodes) else None
            spec = from_resources(parse_shape(f"node={nodes}/slot/core={CORES}"), options=options)
            self.requests[nodes] = self.pool.parse_resource_request(spec)
        return self.requests[nodes]

    def look(self, nodes: int) -> Optional[list[int]]:
        found = self.pool.choice(self.request(nodes)).selection
        return None if found is None else list(idset.iterate(found.ranks))

    def start(self, jobid: int, nodes: int, ranks: list[int]) -> None:
        assert sorted(self.pool.alloc(jobid, self.request(nodes)).ranks) == sorted(ranks)

    def end(self, jobid: int, ranks: list[int]) -> None:
        self.pool.free(jobid)


class Slurm(Rule):
    """Slurm's topology/tree, as its guide describes it; ties to the first switch."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        n = machine.nodes
        self.free = [list(range(i * n, i * n + n)) for i in range(machine.cells * machine.switches)]
        everything = range(len(self.free))
        #: The leaf switches below each switch, level by level.
        self.levels: list[list[Sequence[int]]] = [[[i] for i in everything], [everything]]
        if machine.cells > 1:
            k = machine.switches
            self.levels.insert(1, [everything[i : i + k] for i in everything[::k]])

    def look(self, nodes: int) -> Optional[list[int]]:
        free = [len(those) for those in self.free]
        for level in self.levels:
            able = [one for one in level if sum(free[i] for i in one) >= nodes]
            if able:
                below = min(able, key=lambda one: sum(free[i] for i in one))
                return self.on_leaves(set(below), free, nodes)
        return None

    def on_leaves(self, leaves: set[int], free: list[int], nodes: int) -> list[int]:
        """The ranks on *leaves*: the fullest that has room for the rest, else the emptiest."""
        ranks: list[int] = []
        while len(ranks) < nodes:
            rest = nodes - len(ranks)
            able = [i for i in leaves if free[i] >= rest]
            leaf = min(able or leaves, key=lambda i: (free[i] if able else -free[i], i))
            ranks += self.free[leaf][:rest]
            leaves.discard(leaf)
        return ranks

    def start(self, jobid: int, nodes: int, ranks: list[int]) -> None:
        for rank in ranks:
            self.free[rank // self.machine.nodes].remove(rank)

    def end(self, jobid: int, ranks: list[int]) -> None:
        for rank in ranks:
            self.free[rank // self.machine.nodes].append(rank)
        for leaf in {rank // self.machine.nodes for rank in ranks}:
            self.free[leaf].sort()


RULES: dict[str, Callable[[Machine], Rule]] = {
    "flat": lambda machine: Treepool(machine, fabric=False),
    "treepool": Treepool,
    "waits": lambda machine: Treepool(machine, waits=True),
    "slurm": Slurm,
}


def jobs_of(machine: Machine, number: int, load: float, seed: int, shared: bool) -> list[Job]:
    """So many jobs at random times (Poisson), which together ask for *load* of the nodes.

    If nodes are *shared*, every second job asks for a part of one.
    """
    rng, now, found = random.Random(seed), 0.0, []
    rate = load * machine.size * len(machine.sizes) / sum(machine.sizes) * (1 + shared)
    for place in range(number):
        now += rng.expovariate(rate)
        runs = max(0.01, rng.expovariate(1))
        limit = runs * rng.choice((1.0, 1.5, 3.0))
        if shared and place % 2:
            found.append(Job(now, 1, runs, limit, rng.randrange(1, CORES)))
        else:
            found.append(Job(now, rng.choice(machine.sizes), runs, limit))
    return found


#: When jobs started, and how many nodes they have in each switch.
Starts = dict[int, tuple[float, "Counter[int]"]]

#: How many jobs behind the first are looked at whenever something changed.
DEPTH = 50


class Queue:
    """First come, first served, with EASY backfill: a job may pass the first one that waits if that
    one still starts as early, by the limits of the jobs that run."""

    def __init__(self, machine: Machine, rule: Rule, jobs: Sequence[Job]) -> None:
        self.machine, self.rule, self.jobs = machine, rule, jobs
        self.free = Counter(dict.fromkeys(range(machine.size // machine.nodes), machine.nodes))
        self.waiting: deque[int] = deque()
        self.running: dict[int, tuple[float, list[int]]] = {}
        self.ends: list[tuple[float, int]] = []
        self.starts: Starts = {}
        self.places: dict[int, Counter[int]] = {}

    def run(self) -> None:
        """All jobs, until the last has come; those that still wait then never start."""
        for jobid, job in enumerate(self.jobs):
            while self.ends and self.ends[0][0] <= job.submit:
                now, ended = heapq.heappop(self.ends)
                self.end(ended)
                self.walk(now)
            self.waiting.append(jobid)
            self.walk(job.submit)

    def end(self, jobid: int) -> None:
        """A job ends."""
        _, ranks = self.running.pop(jobid)
        self.rule.end(jobid, ranks)
        self.free.update(self.places[jobid])

    def could(self, job: Job, free: Counter[int]) -> bool:
        """Whether *job* would find its nodes where so many are *free*."""
        rooms = free.values()
        return (max(rooms) if self.rule.one_switch(job.nodes) else sum(rooms)) >= job.nodes

    def begin(self, jobid: int, now: float, ranks: list[int]) -> None:
        """A job starts on *ranks*."""
        job = self.jobs[jobid]
        assert len(set(ranks)) == job.nodes
        self.places[jobid] = self.machine.leaves(ranks)
        self.free.subtract(self.places[jobid])
        assert min(self.free.values()) >= 0
        self.rule.start(jobid, job.nodes, ranks)
        self.running[jobid] = now + job.limit, ranks
        self.starts[jobid] = now, self.places[jobid]
        heapq.heappush(self.ends, (now + job.runs, jobid))

    def walk(self, now: float) -> None:
        """Start what can start."""
        while self.waiting and self.could(self.jobs[self.waiting[0]], self.free):
            ranks = self.rule.look(self.jobs[self.waiting[0]].nodes)
            assert ranks is not None
            self.begin(self.waiting.popleft(), now, ranks)
        if len(self.waiting) < 2:
            return
        first = self.jobs[self.waiting[0]]
        then, free = self.reserved(first, now)
        for jobid in list(self.waiting)[1 : DEPTH + 1]:
            job = self.jobs[jobid]
            if not self.could(job, self.free):
                continue
            ranks = self.rule.look(job.nodes)
            assert ranks is not None
            if now + job.limit > then:
                left = free.copy()
                left.subtract(self.machine.leaves(ranks))
                if min(left.values()) < 0 or not self.could(first, left):
                    continue
                free = left
            self.begin(jobid, now, ranks)
            self.waiting.remove(jobid)

    def reserved(self, first: Job, now: float) -> tuple[float, Counter[int]]:
        """When *first* can start at the latest, and how many nodes of each switch are free then."""
        free = self.free.copy()
        for limit, jobid in sorted((limit, jobid) for jobid, (limit, _) in self.running.items()):
            free.update(self.places[jobid])
            if self.could(first, free):
                return max(now, limit), free
        raise AssertionError("a job is larger than the machine")


class Found(NamedTuple):
    """Numbers of a run."""

    spread: float
    p95: float
    fewest: float
    cells: float
    wait: float
    large: float
    used: float


def replayed(machine: Machine, rule: str, jobs: Sequence[Job]) -> Starts:
    """When *jobs* start in treepool's own queue."""
    traced = []
    for jobid, job in enumerate(jobs):
        shape = f"slot/core={job.cores}"
        if job.cores == CORES:
            waits = rule == "waits" and job.nodes <= machine.nodes
            shape = f"{machine.leaf}/" * waits + f"node={job.nodes}/{shape}"
        times = (1000 * seconds for seconds in (job.submit, job.runs, job.limit))
        traced.append(TraceJob("", str(jobid), *times, shape))
    found: Starts = {}

    def watch(job: TraceJob, start: float, allocation: Allocation) -> None:
        found[int(job.name)] = start / 1000, machine.leaves(allocation.ranks)

    cluster = ResourceSet.read(machine.R(rule != "flat"))
    replay.replay(cluster, traced, replay.Rules("best-fit", "easy", 1, {}), watch=watch)
    return found


def queued(machine: Machine, rule: str, jobs: Sequence[Job]) -> Starts:
    """When *jobs* start in a queue that is the same for all rules."""
    queue = Queue(machine, RULES[rule](machine), jobs)
    queue.run()
    return queue.starts


def measure(machine: Machine, jobs: Sequence[Job], starts: Starts) -> Found:
    """The numbers of *jobs*; the first third warms up."""
    begin, end = jobs[len(jobs) // 3].submit, jobs[-1].submit
    counted = range(len(jobs) // 3, len(jobs))
    spreads, cells = [], []
    for i in counted:
        if jobs[i].nodes > 1 and i in starts:
            leaves = starts[i][1]
            spreads.append(len(leaves) / math.ceil(jobs[i].nodes / machine.nodes))
            at_least = math.ceil(jobs[i].nodes / (machine.nodes * machine.switches))
            cells.append(len({leaf // machine.switches for leaf in leaves}) / at_least)
    start = {i: min(end, starts[i][0]) if i in starts else end for i in range(len(jobs))}
    waits = [max(0.0, start[i] - jobs[i].submit) for i in counted]
    large = [wait for i, wait in zip(counted, waits) if jobs[i].nodes >= machine.nodes / 2]
    used = sum(
        job.nodes
        * job.cores
        / CORES
        * max(0.0, min(end, start[i] + job.runs) - max(begin, start[i]))
        for i, job in enumerate(jobs)
    )
    spreads.sort()
    return Found(
        _mean(spreads),
        spreads[round(0.95 * (len(spreads) - 1))],
        100 * _mean([spread == 1 for spread in spreads]),
        _mean(cells),
        _mean(waits),
        _mean(large),
        100 * used / (machine.size * (end - begin)),
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / max(1, len(numbers))


_HEAD = ("machine", "rule", "switches", "p95", "fewest %", "cells", "wait", "large", "in use %")
_WIDTHS = (10, 9, 9, 7, 9, 7, 7, 7, 9)


def main(argv: Sequence[str]) -> int:
    """Run the command line *argv* and return its exit status."""
    arguments = _parser().parse_args(argv)
    rows: list[tuple[str, str, Found]] = []
    try:
        out("  ".join(f"{cell:>{width}}" for cell, width in zip(_HEAD, _WIDTHS)))
        for name, rule, found in _rows(arguments):
            rows.append((name, rule, found))
            cells = (name, rule, *(f"{number:.2f}" for number in found))
            out("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS)))
        if arguments.plot is not None:
            _plot(rows, arguments.plot)
    except ImportError as e:
        complain("packing", str(e))
        return 1
    except KeyboardInterrupt:
        complain("packing", "interrupted")
        return INTERRUPTED
    return DONE


def _parser() -> Parser:
    parser = Parser(prog="packing fabrics", description=__doc__)
    add = parser.add_argument
    add("--machines", default=",".join(MACHINES), help=f"default: {','.join(MACHINES)}")
    add("--rules", default=",".join(RULES), help=f"default: {','.join(RULES)}")
    add("--jobs", type=int, default=3000, help="of a run, a third warms up (default: 3000)")
    add("--load", type=float, default=0.9, help="of the nodes (default: 0.9)")
    add("--seeds", type=int, default=1, help="runs to average over (default: 1)")
    add("--shared", action="store_true", help="half of the jobs ask for a part of a node")
    add("--plot", metavar="FILE", type=Path, help="a chart as SVG")
    return parser


def _rows(arguments: Namespace) -> Iterator[tuple[str, str, Found]]:
    for name in arguments.machines.split(","):
        machine = MACHINES[name]
        for rule in arguments.rules.split(","):
            if arguments.shared and rule == "slurm":
                continue  # its guide is about nodes
            found = []
            for seed in range(arguments.seeds):
                jobs = jobs_of(machine, arguments.jobs, arguments.load, seed, arguments.shared)
                starts = (replayed if arguments.shared else queued)(machine, rule, jobs)
                found.append(measure(machine, jobs, starts))
            yield name, rule, Found(*map(_mean, zip(*found)))


def _plot(rows: Sequence[tuple[str, str, Found]], path: Path) -> None:
    """Bars: the mean of switches over the fewest, with the 95th percentile as a mark; and waits."""
    plots.check("--plot", path)
    from matplotlib.figure import Figure

    machines, rules = dict.fromkeys(r[0] for r in rows), list(dict.fromkeys(r[1] for r in rows))
    with plots.style():
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots(1, 2)
        for i, rule in enumerate(rules):
            found = [f for _, of, f in rows if of == rule]
            at = [place + (i - (len(rules) - 1) / 2) * 0.2 for place in range(len(machines))]
            colour = f"C{i % 10}"
            axes[0].bar(at, [f.spread for f in found], 0.18, color=colour, label=rule)
            axes[0].plot(at, [f.p95 for f in found], "_", color=colour, markersize=10)
            axes[1].bar(at, [f.wait for f in found], 0.18, color=colour)
        for one, title in zip(axes, ("switches over the fewest (line: p95)", "mean wait")):
            one.set_xticks(range(len(machines)), list(machines))
            one.set_title(title)
        axes[0].set_ylim(bottom=1)
        figure.legend(loc="outside right center", frameon=False)
        plots.write(figure, path)
