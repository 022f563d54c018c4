#!/usr/bin/env python3
"""How long planning takes: reservations from nothing, and after one change each.

    .venv/bin/python tools/bench/planning.py [--nodes N] [--waiting N] [--depth N] [--small N]

Nodes like those of RFC 49's cluster B are filled with jobs of many sizes that end at random times
within a day, and more such jobs wait for them. With ``--small 160`` jobs of one node are 160 times
as frequent among them. With ``--large`` the jobs that wait have up to a quarter of all nodes each.

A row is what happened, the CPU seconds, the number of steps between which a scheduler would serve
others, the longest step, and the numbers of reservations, ranks moved, and selections tried. The
row of jobs that end early one after another has the median of the seconds, and below the most.

With ``--full`` all of 2,000 nodes are taken, 100 jobs of up to 40 nodes wait, and one job ends.
With ``--trace FILE``, in Standard Workload Format such as the Parallel Workloads Archive has, the
first ``--jobs`` of it are replayed under each policy, beside EASY backfill by numbers of nodes.
"""

import argparse
import json
import random
import resource
import statistics
import time
from pathlib import Path

import bare

from treepool import parse_shape
from treepool.cli.cluster import FlatNodes
from treepool.cli.files import read_text
from treepool.errors import InsufficientResources
from treepool.flux.garbage import Garbage
from treepool.placement.plan.jobs import POLICIES, Rule
from treepool.placement.plan.queue import SWEEP, Queue
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.view import swf
from treepool.view.replay import Rules, replay

ROOT = Path(__file__).resolve().parents[2]

NOW, DAY = 1000.0, 86400.0

#: The cluster is full when so many jobs did not fit.
MISSES = 60

SMALL = (
    "slot/[core=6;gpu=1]", "slot/core=4", "slot=2/[core=12;gpu=2]", "slot=4/node/core=16",
    "slot/core=24", "slot=8/[core=6;gpu=1]", "slot/core=1",
)  # fmt: skip
#: Larger jobs, with their numbers of slots on 1,152 nodes; with --large, more on more nodes.
LARGE = (
    (64, "slot={}/node/core=32"), (16, "slot={}/node{{x}}"), (100, "slot={}/[core=6;gpu=1]"),
    (8, "slot={}/node{{x}}"), (32, "slot={}/node/[core=24;gpu=2]"), (250, "slot={}/core=12"),
    (32, "slot={}/node{{x}}"), (1, "slot={}/node{{x}}"),
)  # fmt: skip


def cluster(nodes):
    """R of so many nodes like the first of cluster B."""
    path = ROOT / "testvectors" / "rfc49-cluster-b.json"
    R = json.loads(path.read_text())["cluster"]["R"]
    ranks = f"0-{nodes - 1}"
    children = R["execution"]["R_lite"][0]["children"]
    topo = R["scheduling"]["children"][0]["topo"]
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": children}],
            "nodelist": [f"n[{ranks}]"],
        },
        "scheduling": {"writer": "TreePool", "children": [{"ranks": ranks, "topo": topo}]},
    }


def full(depth):
    """A row: one job ends on 2,000 full nodes, while 100 jobs of up to 40 nodes wait."""
    bench = Bench(2000, depth, 0, False, filled=False)
    jobs = bench.jobid = 200
    for jobid in range(1, jobs + 1):
        bench.pool.alloc(jobid, bench.request("slot=10/node{x}", 0.0))
        bench.pool.update_expiration(jobid, NOW + bench.rng.uniform(600, DAY))
    for _ in range(100):
        bench.submit(f"slot={bench.rng.randint(1, 40)}/node{{x}}")
    bench.passes()
    bench.run(f"full, {depth:.0f} reserved: ends", lambda: bench.pool.free(jobs))


def trace(path, number):
    """Rows: the first jobs of a trace under each policy."""
    read = swf.read(read_text(path, table=True))
    (R,) = FlatNodes(read.machine.nodes, read.machine.cores(1)).resource_sets().values()
    jobs = read.jobs[:number]
    told = [(job.submit, job.runs, job.limit, int(job.shape[5:-7])) for job in jobs]
    for policy, depth in POLICIES.items():
        _replayed(policy, lambda: replay(R, jobs, Rules(policy, policy, depth)).wait.mean)  # noqa: B023
    if read.machine.cores(1) == 1:
        nodes = read.machine.nodes
        _replayed("easy, by numbers", lambda: statistics.mean(bare.waits(told, nodes)))


def _replayed(what, wait):
    before = time.process_time()
    mean = wait()
    print(f"{what:24} {time.process_time() - before:8.2f} s, mean wait {mean / 60:,.0f} min")


class Bench:
    """A queue on a busy cluster."""

    def __init__(self, nodes, depth, small, large, filled=True):
        self.rng = random.Random(1)
        self.now = NOW
        self.pool = Pool(cluster(nodes))
        self.queue = Queue(self.pool, self, lambda: self.now, Rule("conservative", depth))
        mixed = [*SMALL * small, *(shape.format(n) for n, shape in LARGE)]
        self.waiting = mixed
        if large:
            self.waiting = [shape.format(max(1, n * nodes // 1152)) for n, shape in LARGE]
        self.jobid = misses = 0
        self.ended = []
        requests = {shape: self.request(shape, 0.0) for shape in mixed}
        while filled and misses < MISSES:
            self.jobid += 1
            try:
                self.pool.alloc(self.jobid, requests[self.rng.choice(mixed)])
            except InsufficientResources:
                misses += 1
                continue
            self.pool.update_expiration(self.jobid, NOW + self.rng.uniform(10, DAY))
            self.ended.append(self.jobid)
        self.rng.shuffle(self.ended)
        Garbage()  # as the module does once it is ready

    def started(self, job, allocation, how):
        self.ended.append(job.jobid)

    def refused(self, job, reason):
        raise AssertionError(reason)

    def failed(self, job, error):
        raise error

    def request(self, shape, duration):
        spec = from_resources(parse_shape(shape), duration=duration)
        return self.pool.parse_resource_request(spec)

    def submit(self, shape, priority=16):
        self.jobid += 1
        request = self.request(shape, self.rng.choice([600.0, 3600.0, 7200.0, 43200.0, DAY]))
        waiting = self.queue.waiting
        self.queue.add(waiting(self.jobid, priority, request, frozenset(), "", NOW, NOW))

    def passes(self):
        """The seconds of each step of all passes until nothing is left to do."""
        steps, last = [], time.process_time()
        for _ in self.queue.run():
            steps.append(time.process_time() - last)
            last = time.process_time()
        return [*steps, time.process_time() - last]

    def run(self, what, prepare=lambda: None, times=1):
        """A row for *what* happens when *prepare* was called, each of so many *times*."""
        taken, steps = [], []
        for _ in range(times):
            prepare()
            new = self.passes()
            while self.queue.next_time <= self.now + SWEEP:
                self.now = self.queue.next_time
                new += self.passes()
            steps += new
            taken.append(sum(new))
        print(
            f"{what:24} {statistics.median(taken):8.3f} {len(steps):7,} {max(steps) * 1e3:8.1f}"
            f" {len(self.queue.reservations):8,}"
        )
        if times > 1:
            print(f"  of {times} times, at most {max(taken):7.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1152)
    parser.add_argument("--waiting", type=int, default=200)
    parser.add_argument("--depth", type=float, default=64)
    parser.add_argument("--small", type=int, default=8, metavar="N")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--trace", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.trace:
        trace(arguments.trace, arguments.jobs)
        return
    if arguments.full:
        full(64)
        full(256)
        return
    bench = Bench(arguments.nodes, arguments.depth, arguments.small, arguments.large)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{arguments.nodes:,} nodes, {len(bench.ended):,} running jobs")
    names = zip(("CPU s", "steps", "ms most", "reserved", "moved", "tried"), (8, 7, 8, 8, 9, 6))
    print(f"{'':24}", *(f"{name:>{width}}" for name, width in names))
    bench.run("running jobs followed")
    for _ in range(arguments.waiting):
        bench.submit(bench.rng.choice(bench.waiting))
    bench.run("planned from nothing")
    bench.run("a job ends early", lambda: bench.pool.free(bench.ended.pop()), 40)
    bench.run("a job is submitted", lambda: bench.submit(bench.waiting[-1]))
    bench.run("one of higher priority", lambda: bench.submit(bench.waiting[-2], priority=17))
    bench.run("a node goes down", lambda: bench.pool.mark_down("5"))
    bench.run("it comes up", lambda: bench.pool.mark_up("5"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"planning took {(after - before) >> 10} MiB more at most")


if __name__ == "__main__":
    main()
