"""The command line of the packing benchmark."""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from bench.packing import runs
from bench.packing.clusters import CLUSTERS, Cluster, Mix, cluster, mix, trace
from bench.packing.pools import packer
from treepool.cli import plots
from treepool.cli.main import INTERRUPTED, Parser
from treepool.cli.screen import DONE, complain, out
from treepool.placement.choose.policy import POLICIES

_DESCRIPTION = """\
How well jobs are packed, by treepool's policies and others: fgd is
fragmentation gradient descent (Weng et al., ATC'23) for whole GPUs, which
knows the mix beforehand; random takes any node; flux-core, if it is here, is
Flux's own pool. packing:4 is the policy packing with straddle=4.

fill     jobs come until they have asked for all GPUs: GPUs allocated, percent
closed   the cluster stays at a load: jobs of several GPUs that are refused
         though enough cores and GPUs are free, percent; jobs that straddle
         domains though on an idle node they would not; whole sockets; nodes
open     the same with jobs that come at random times and do not wait
queue    the mean wait of jobs with one GPU at most, and with four or more, in
         mean run times
"""

#: Pools for which a queue can be replayed: treepool's policies.
_QUEUED = tuple(POLICIES)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line *argv* and return its exit status."""
    arguments = _parser().parse_args(argv)
    rows = []
    try:
        for row in _rows(arguments):
            out("  ".join(f"{cell:>{width}}" for cell, width in zip(row, _WIDTHS)))
            rows.append(row)
    except ImportError as e:
        complain("packing", str(e))
        return 1
    except KeyboardInterrupt:
        complain("packing", "interrupted")
        return INTERRUPTED
    if arguments.plot is not None:
        _plot(rows, arguments.plot)
    return DONE


_WIDTHS = (6, 7, 5, 11, 9, 9, 10, 7, 6)


def _parser() -> Parser:
    parser = Parser(prog="packing", description=_DESCRIPTION)
    add = parser.add_argument
    names = "packing,best-fit,node-fit,first-fit,worst-fit,min-span,fgd,random"
    add("--pools", metavar="NAME[,...]", default=names, help=f"default: {names}")
    add("--runs", default="fill,closed", help="of fill, closed, open, queue (default: fill,closed)")
    add("--clusters", default=",".join(CLUSTERS), help="default: A,B,alike,mixed")
    add("--mixes", default="ones,even,eights", help="default: ones,even,eights")
    add("--loads", default="0.95", help="default: 0.95")
    add("--nodes", type=int, default=200, help="of each cluster (default: 200)")
    add("--turns", type=float, default=2, help="how often a cluster turns over (default: 2)")
    add("--jobs", type=int, default=600, help="of a queue (default: 600)")
    add("--seeds", type=int, default=1, help="orders to average over (default: 1)")
    add(
        "--trace",
        nargs=2,
        type=Path,
        metavar=("NODES", "JOBS"),
        help="CSV files as of Alibaba's cluster-trace-gpu-v2023, instead of --clusters and --mixes",
    )
    add("--plot", metavar="FILE", type=Path, help="a chart as SVG: refused against straddling")
    return parser


def _cases(arguments: Namespace) -> Iterator[tuple[str, str, Cluster, Mix]]:
    if arguments.trace is not None:
        yield "trace", "-", *trace(*arguments.trace)
        return
    for name in arguments.clusters.split(","):
        on = cluster(name, arguments.nodes)
        for kind in arguments.mixes.split(","):
            yield name, kind, on, mix(kind, on, random.Random(kind))


def _rows(arguments: Namespace) -> Iterator[tuple[str, ...]]:
    yield "run", "cluster", "mix", "pool", "allocated", "refused", "straddling", "sockets", "nodes"
    loads = [float(load) for load in arguments.loads.split(",")]
    for name, kind, on, jobs in _cases(arguments):
        for what in arguments.runs.split(","):
            for load in [1.0] if what == "fill" else loads:
                for pool in arguments.pools.split(","):
                    label = what if what == "fill" else f"{what[0]}{load:.0%}"
                    if what == "queue" and pool in _QUEUED:
                        for rule in ("fifo", "easy"):
                            small, large = _mean(
                                runs.waits(on, jobs, pool, seed, load, rule, arguments.jobs)
                                for seed in range(arguments.seeds)
                            )
                            yield (
                                f"{rule}{load:.0%}",
                                name,
                                kind,
                                pool,
                                f"{small:.3f}",
                                f"{large:.3f}",
                            )
                    elif what != "queue":
                        found = _mean(
                            _numbers(what, on, jobs, pool, seed, load, arguments.turns)
                            for seed in range(arguments.seeds)
                        )
                        yield label, name, kind, pool, *(f"{n:.2f}" for n in found)


def _numbers(
    what: str, on: Cluster, jobs: Mix, pool: str, seed: int, load: float, turns: float
) -> tuple[float, ...]:
    one = packer(pool, on, jobs)
    if what == "fill":
        found = runs.inflation(on, jobs, one, seed)
    else:
        run = runs.closed if what == "closed" else runs.opened
        found = run(on, jobs, one, seed, load, turns)
    return found.allocated, found.refused, found.straddling, found.sockets, found.nodes


def _mean(rows: Any) -> list[float]:
    return [sum(column) / len(column) for column in zip(*rows)]


def _plot(rows: Sequence[tuple[str, ...]], path: Path) -> None:
    """Refused against straddling, a point for each cluster, mix and pool at one load."""
    plots.check("--plot", path)
    from matplotlib.figure import Figure

    with plots.style():
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.add_subplot()
        for i, pool in enumerate(dict.fromkeys(row[3] for row in rows[1:])):
            points = [
                (float(row[6]), float(row[5]))
                for row in rows[1:]
                if row[3] == pool and row[0][0] in "co"
            ]
            if points:
                axes.plot(*zip(*points), "o", label=pool, color=plots.colour(i), markersize=4)
        axes.set(xscale="symlog", yscale="symlog", xlabel="straddling, %", ylabel="refused, %")
        figure.suptitle("Jobs refused for fragmentation against jobs that straddle")
        figure.legend(loc="outside right center", frameon=False)
        plots.write(figure, path)
