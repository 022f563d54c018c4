#!/usr/bin/env python3
"""How long jobs take on a cluster with a fabric, and on the same one without.

    .venv/bin/python tools/bench/fabric.py [--nodes N] [--switch N] [--cell N]

Nodes of four NUMA domains of 24 cores and a GPU, --switch of them below each switch and --cell
switches in each cell, are filled with small jobs, of which a third ends. Then jobs come and go. A
row is a request and the CPU microseconds of an allocation with its R, median and 95th percentile,
with the fabric, without it, and, for requests that need one, with a property for each switch
(``same``). Each sample is taken after one job has ended and another has started.
"""

from __future__ import annotations

import argparse
import random
import time

from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources

SLOT = "slot/[core=24;gpu=1]"
NODE = "slot=4/[core=24;gpu=1]"
#: Small jobs, and how often they come.
SMALL = ((SLOT, 6), ("slot/core=8", 2), (f"node/{NODE}", 1), (f"node=4/{NODE}", 1))
#: Requests that are timed, with their options.
TIMED = (
    (SLOT, {}),
    ("slot/[core=96;gpu=4]", {}),
    (f"node=16/{NODE}", {}),
    (f"node=64/{NODE}", {}),
    ("node=16/slot/core=2", {}),
    (f"node=4/{NODE}", {"within": "switch"}),
    (f"node=16/{NODE}", {"within": "cell"}),
    (f"node=16/{NODE}", {"segment": "switch:4"}),
    (f"node=16/{NODE}", {"switches": 4}),
    (f"switch=2/node=4/{NODE}", {}),
    (f"node=4/{NODE}", {"same": "switch"}),
)
SAMPLES = 200


def cluster(nodes, switch, cell, kind):
    """The R of so many nodes; *kind* is fabric, flat or same."""
    ranks = f"0-{nodes - 1}"
    numa = [{"cores": f"{24 * i}-{24 * i + 23}", "gpus": str(i)} for i in range(4)]
    execution = {
        "R_lite": [{"rank": ranks, "children": {"core": "0-95", "gpu": "0-3"}}],
        "nodelist": [f"n[{ranks}]"],
    }
    scheduling = {"writer": "TreePool", "children": [{"ranks": ranks, "topo": {"numa": numa}}]}
    starts = range(0, nodes, switch)
    sets = [
        f"{a}-{b - 1}" if b > a + 1 else str(a) for a in starts for b in (min(a + switch, nodes),)
    ]
    if kind == "fabric":
        switches = [{"name": f"s{i}", "ranks": those} for i, those in enumerate(sets)]
        cells = [switches[i : i + cell] for i in range(0, len(switches), cell)]
        scheduling["fabric"] = {
            "cell": [{"name": f"c{i}", "switch": those} for i, those in enumerate(cells)]
        }
    if kind == "same":
        execution["properties"] = {f"switch:{i}": those for i, those in enumerate(sets)}
    return {"version": 1, "execution": execution, "scheduling": scheduling}


class Bench:
    """A pool on which small jobs come and go."""

    def __init__(self, R):
        self.pool = Pool(R)
        self.random = random.Random(1)
        self.small = [self.request(shape) for shape, often in SMALL for _ in range(often)]
        self.live: list[int] = []
        self.jobid = 0
        while self.start(self.random.choice(self.small)):
            pass
        for _ in range(len(self.live) // 3):
            self.end()

    def request(self, shape, options=None):
        return self.pool.parse_resource_request(from_resources(parse_shape(shape), options=options))

    def start(self, request):
        """Whether a job could start."""
        self.jobid += 1
        try:
            self.pool.alloc(self.jobid, request)
        except OSError:
            return False
        self.live.append(self.jobid)
        return True

    def end(self):
        """End a job."""
        place = self.random.randrange(len(self.live))
        self.live[place], self.live[-1] = self.live[-1], self.live[place]
        self.pool.free(self.live.pop())

    def times(self, shape, options):
        """Median and 95th percentile, in microseconds; None if the pool knows no such request."""
        try:
            request = self.request(shape, options)
            self.pool.check_feasibility(request)
        except (ValueError, OSError):
            return None
        found = []
        for sample in range(SAMPLES + 3):
            self.end()
            self.start(self.random.choice(self.small))
            self.jobid += 1
            before = time.process_time()
            try:
                self.pool.alloc(self.jobid, request).to_dict()
            except OSError:
                continue
            if sample >= 3:  # the first ones count what is there
                found.append(time.process_time() - before)
            self.pool.free(self.jobid)
        found.sort()
        return [1e6 * found[round(p * (len(found) - 1))] for p in (0.5, 0.95)] if found else None


def main():
    parser = argparse.ArgumentParser()
    for name, number in (("nodes", 11136), ("switch", 64), ("cell", 29)):
        parser.add_argument(f"--{name}", type=int, default=number)
    said = parser.parse_args()
    kinds = ("fabric", "flat", "same")
    columns = {}
    for kind in kinds:
        bench = Bench(cluster(said.nodes, said.switch, said.cell, kind))
        columns[kind] = [bench.times(shape, options) for shape, options in TIMED]
    print(f"{said.nodes} nodes, median / p95 in us: {', '.join(kinds)}")
    for i, (shape, options) in enumerate(TIMED):
        cells = [columns[kind][i] for kind in kinds]
        shown = ["-" if cell is None else f"{cell[0]:.0f} / {cell[1]:.0f}" for cell in cells]
        name = " ".join([shape, *(f"{key}={value}" for key, value in options.items())])
        print(f"{name:45}" + "".join(f"{cell:>16}" for cell in shown))


if __name__ == "__main__":
    main()
