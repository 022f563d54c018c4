#!/usr/bin/env python3
"""The longest steps: for how long the scheduler cannot answer while it works on one job.

    .venv/bin/python tools/bench/steps.py [--nodes N] [--only TEXT]

Nodes like those of RFC 49's cluster B, in switches of 16 and racks of 256, are in many states. A
row is a request that is made for the first time, the CPU milliseconds of the longest step of the
pass that looks at it, its bound (20 ms, and 10 us for each node of the job), and what it got. What
holds resources back is measured as well. ``--profile`` says what the longest steps did.
"""

import argparse
import cProfile
import gc
import pstats
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from bench.planning import cluster  # noqa: E402
from treepool import parse_shape  # noqa: E402
from treepool.errors import TreepoolError  # noqa: E402
from treepool.placement.plan.jobs import Rule  # noqa: E402
from treepool.placement.plan.queue import Queue  # noqa: E402
from treepool.placement.pool import Pool  # noqa: E402
from treepool.rfc.jobspec import from_resources  # noqa: E402

NOW, DAY = 1000.0, 86400.0

#: Requests, with some options; {} stands for a part of all nodes.
REQUESTS = (
    ("slot/core", {}),
    ("slot/[core=6;gpu=1]", {}),
    ("slot=8/[core=6;gpu=1]", {}),
    ("node=2/slot/core=3", {}),
    ("node=8/slot/[core=6;gpu=1]", {}),
    ("node={}/slot/core=1", {}),
    ("slot={}/core=1", {}),
    ("slot=1+/core=1", {}),
    ("slot=1/core=1-96", {}),
    ("node=1+/slot/core=5", {}),
    ("node={}/slot=1+/core=5", {}),
    ("node=4/slot=1+/core=5", {}),
    ("switch=2/node=4/slot/core=5", {}),
    ("rack=2/node=40/slot/core=5", {}),
    ("rack=1-9/switch=2/node=1+/slot/core=5", {}),
    ("slot=3/switch/node=4/core=5", {}),
    ("slot=1+/switch/node=4/core=5", {}),
    ("slot/switch{x}", {}),
    ("node=8/slot/core=5", {"within": "switch"}),
    ("node=40/slot/core=5", {"within": "rack:3"}),
    ("node=16/slot/core=5", {"segment": "switch:4"}),
    ("node=8/slot/core=5", {"locality": "required"}),
    ("node=8/slot/core=5", {"locality": "none"}),
    ("node=8/slot/core=5", {"same": "driver"}),
    ("slot=2-7/core=1-9", {"same": "driver"}),
    ("slot=1/[socket/core=3;core=2]", {}),
    ("slot=8/[socket/core=3;core=2]", {}),
    ("slot=2/socket{x}", {}),
    ("slot=4/node{x}", {}),
)


def with_fabric(nodes):
    """R of the nodes, in switches and racks, with two drivers."""
    R = cluster(nodes)

    def switch(first):
        return {"ranks": f"{first}-{min(first + 16, nodes) - 1}"}

    R["scheduling"]["fabric"] = {
        "rack": [
            {"switch": [switch(s) for s in range(rack, min(rack + 256, nodes), 16)]}
            for rack in range(0, nodes, 256)
        ]
    }
    half = nodes // 2
    R["execution"]["properties"] = {"driver:1": f"0-{half - 1}", "driver:2": f"{half}-{nodes - 1}"}
    return R


def idle(pool, chance):
    """Nothing is allocated."""


def mixed(pool, chance):
    """Each node is in one of some hundred states."""
    states = [(chance.getrandbits(96) & chance.getrandbits(96), chance.getrandbits(4))
              for _ in range(300)]  # fmt: skip
    _occupy(pool, lambda: chance.choice(states))


def different(pool, chance):
    """All nodes are in different states, with half of their cores free."""
    _occupy(pool, lambda: (chance.getrandbits(96), chance.getrandbits(4)))


def nearly_full(pool, chance):
    """All nodes are in different states, with a few cores free."""
    _occupy(pool, lambda: (chance.getrandbits(96) | chance.getrandbits(96)
                           | chance.getrandbits(96) | chance.getrandbits(96), 15))  # fmt: skip


def _occupy(pool, some):
    for jobid, rank in enumerate(range(len(pool.inventory.types)), 1):
        cores, gpus = some()
        pool.occupy(jobid, ((1 << rank, cores, gpus),), NOW + 60 * (jobid % 1000))


class Bench:
    """A queue on nodes in such states."""

    def __init__(self, nodes, states):
        self.pool = Pool(with_fabric(nodes))
        states(self.pool, random.Random(1))
        self.now, self.got = NOW, ""
        self.queue = Queue(self.pool, self, lambda: self.now, Rule("conservative", 64))
        self.passes()

    def started(self, job, allocation, how):
        self.got = f"{len(allocation.ranks):,} nodes"
        self.nodes = len(allocation.ranks)

    def refused(self, job, reason):
        self.got = "refused"

    def failed(self, job, error):
        raise error

    def submit(self, shape, options, jobid):
        spec = from_resources(parse_shape(shape), duration=DAY, options=options or None)
        request = self.pool.parse_resource_request(spec)
        self.queue.add(self.queue.waiting(jobid, 16, request, frozenset(), "", NOW, NOW))

    def passes(self, profile=None):
        """The seconds of the longest step until nothing is left to do, and of all."""
        steps = self.queue.run()
        longest, worst, done, total = 0.0, None, False, 0.0
        while not done:
            profiler = cProfile.Profile() if profile else None
            before = time.process_time()
            if profiler:
                profiler.enable()
            done = next(steps, self) is self
            if profiler:
                profiler.disable()
            taken = time.process_time() - before
            total += taken
            if taken > longest:
                longest, worst = taken, profiler
        if worst is not None:
            pstats.Stats(worst).sort_stats("cumtime").print_stats(profile)
        return longest, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=11136)
    parser.add_argument("--only", default="")
    parser.add_argument("--states", default="")
    parser.add_argument("--profile", type=int, default=0, metavar="LINES")
    arguments = parser.parse_args()
    gc.disable()
    print(f"{'states':12} {'request':58} {'ms':>7} {'bound':>7} {'all':>7}  got")
    for states in (idle, mixed, different, nearly_full):
        if arguments.states not in states.__name__:
            continue
        for shape, options in REQUESTS:
            shown = " ".join([shape, *(f"{key}={value}" for key, value in options.items())])
            if arguments.only not in shown:
                continue
            bench = Bench(arguments.nodes, states)
            bench.nodes = 0
            try:
                bench.submit(shape.replace("{}", str(arguments.nodes // 3)), options, 1 << 40)
            except TreepoolError as e:
                print(f"{states.__name__:12} {shown:58} {e}")
                continue
            longest, total = bench.passes(arguments.profile)
            bound = 20 + bench.nodes / 100
            mark = "!" if longest * 1e3 > bound else " "
            got = bench.got or ("reserved" if bench.queue.reservations else "waits")
            print(
                f"{states.__name__:12} {shown:58} {longest * 1e3:7.1f}{mark}{bound:7.1f}"
                f" {total * 1e3:7.0f}  {got}",
                flush=True,
            )


if __name__ == "__main__":
    main()
