#!/usr/bin/env python3
"""How long planning takes: reservations from nothing, and after one change each.

    .venv/bin/python t/bench/planning.py [--nodes N] [--running N] [--waiting N] [--depth N]

Nodes like those of RFC 49's cluster B are filled with small jobs that end at random times within a
day; then large jobs wait for them. A row is what happened, the CPU seconds, the number of steps
between which a scheduler would serve others, the longest step, and the numbers of reservations,
ranks moved, and selections tried.
"""

import argparse
import json
import random
import resource
import time
from pathlib import Path

from treepool import Pool, parse_shape
from treepool.errors import InsufficientResources
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.queue import Queue, Rule
from treepool.rfc.jobspec import from_resources

ROOT = Path(__file__).resolve().parents[2]

NOW, DAY = 1000.0, 86400.0
SMALL = (
    "slot/[core=6;gpu=1]", "slot/core=4", "slot=2/[core=12;gpu=2]", "slot=4/node/core=16",
    "slot/core=24", "slot=8/[core=6;gpu=1]", "slot/core=1",
)  # fmt: skip
#: Jobs for 1,152 nodes, with their numbers of slots; larger clusters get larger ones.
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


class Bench:
    """A queue on a busy cluster."""

    def __init__(self, nodes, running, depth):
        self.rng = random.Random(1)
        self.pool = Pool(cluster(nodes))
        self.queue = Queue(self.pool, self, lambda: NOW, Rule("conservative", depth))
        self.large = [shape.format(max(1, n * nodes // 1152)) for n, shape in LARGE]
        self.jobid = 0
        while self.jobid < running:
            self.jobid += 1
            try:
                self.pool.alloc(self.jobid, self.request(self.rng.choice(SMALL), 0.0))
            except InsufficientResources:
                break
            self.pool.update_expiration(self.jobid, NOW + self.rng.uniform(10, DAY))
        self.ended = list(range(1, self.jobid))
        self.rng.shuffle(self.ended)

    def started(self, job, allocation):
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
        self.queue.add(Waiting(self.jobid, priority, request, self.queue.plan.kind(request)))

    def run(self, what):
        """A row for all passes until nothing is left to do."""
        plan, steps, began = self.queue.plan, [], time.process_time()
        moved, tried, last = plan.views.moved, plan.views.tried, began
        for _ in self.queue.run():
            steps.append(time.process_time() - last)
            last = time.process_time()
        steps.append(time.process_time() - last)
        print(
            f"{what:24} {time.process_time() - began:8.3f} {len(steps):7,} {max(steps) * 1e3:8.1f}"
            f" {len(plan.reservations):8,} {plan.views.moved - moved:9,}"
            f" {plan.views.tried - tried:6,}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1152)
    parser.add_argument("--running", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=100)
    parser.add_argument("--depth", type=float, default=64)
    arguments = parser.parse_args()
    bench = Bench(arguments.nodes, arguments.running, arguments.depth)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{arguments.nodes:,} nodes, {len(bench.ended):,} running jobs")
    names = zip(("CPU s", "steps", "ms most", "reserved", "moved", "tried"), (8, 7, 8, 8, 9, 6))
    print(f"{'':24}", *(f"{name:>{width}}" for name, width in names))
    bench.run("running jobs followed")
    for _ in range(arguments.waiting):
        bench.submit(bench.rng.choice(bench.large))
    bench.run("planned from nothing")
    for _ in range(5):
        bench.pool.free(bench.ended.pop(0))
        bench.run("a job ends early")
    bench.submit(bench.large[1])
    bench.run("a job is submitted")
    bench.submit(bench.large[0], priority=17)
    bench.run("one of higher priority")
    bench.pool.mark_down("5")
    bench.run("a node goes down")
    bench.pool.mark_up("5")
    bench.run("it comes up")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"planning took {(after - before) >> 10} MiB more at most")


if __name__ == "__main__":
    main()
