"""The command line of the packing benchmark."""

from __future__ import annotations

import random
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

import attrs

from bench.packing import chart, runs
from bench.packing.clusters import CLUSTERS, Cluster, Mix, cluster, mix, mixes, trace
from bench.packing.pools import packer
from treepool.cli import files, plots
from treepool.cli.main import INTERRUPTED, Parser
from treepool.cli.screen import DONE, USAGE, Stop, complain, out
from treepool.placement.choose.policy import POLICIES

_DESCRIPTION = """\
How well jobs are packed, by treepool's policies and others: fgd is
fragmentation gradient descent (Weng et al., ATC'23) for whole GPUs, which
knows the mix beforehand; random takes any node; flux-core, if it is here, is
Flux's own pool. packing:4 is the policy packing with straddle=4, mix is packing
with the mix as an option.

fill     jobs come until they have asked for all GPUs, or for more or less
         (--asked), and none ends: GPUs allocated, percent
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
        if arguments.plot is not None:
            plots.check("--plot", arguments.plot)
        for row in _rows(arguments):
            out("  ".join(f"{cell:>{width}}" for cell, width in zip(row, _WIDTHS)))
            rows.append(row)
    except ImportError as e:
        complain("packing", str(e))
        return 1
    except Stop as e:
        complain("packing", str(e))
        return e.status
    except KeyboardInterrupt:
        complain("packing", "interrupted")
        return INTERRUPTED
    if arguments.plot is not None:
        chart.write(rows, arguments.plot)
    return DONE


HEAD = "run", "cluster", "mix", "pool", "allocated", "refused", "straddling", "sockets", "nodes"
_WIDTHS = (6, 7, 5, 11, 9, 9, 10, 7, 6)


def _parser() -> Parser:
    parser = Parser(prog="packing", description=_DESCRIPTION)
    add = parser.add_argument
    names = "packing,mix,best-fit,first-fit,worst-fit,fgd,random"
    add("--pools", metavar="NAME[,...]", default=names, help=f"default: {names}")
    add("--runs", default="fill,closed", help="of fill, closed, open, queue (default: fill,closed)")
    add("--clusters", default=",".join(CLUSTERS), help="default: A,B,alike,mixed")
    add("--mixes", default="ones,even,eights", help="default: ones,even,eights")
    add("--loads", default="0.95", help="default: 0.95")
    add("--asked", default="1", help="of all GPUs, in a run fill (default: 1)")
    add("--nodes", type=int, default=400, help="of each cluster (default: 400)")
    add("--turns", type=float, default=2, help="how often a cluster turns over (default: 2)")
    add("--jobs", type=int, default=600, help="of a queue (default: 600)")
    add("--seeds", type=int, default=1, help="orders to average over (default: 1)")
    add(
        "--trace",
        nargs="+",
        metavar="FILE",
        help="NODES and JOBS, CSV files as of Alibaba's cluster-trace-gpu-v2023, instead of "
        "--clusters and --mixes; or JOBS alone, as Philly's, on its 321 nodes with 2 and 231 nodes "
        "with 8 GPUs, 12 cores for each GPU",
    )
    add("--plot", metavar="FILE", type=Path, help="a chart as SVG: refused and straddling")
    return parser


def _cases(arguments: Namespace) -> Iterator[tuple[str, str, Cluster, Mix]]:
    if arguments.trace is not None:
        yield from _traced(arguments.trace)
        return
    for name in arguments.clusters.split(","):
        on = cluster(name, arguments.nodes)
        for kind in arguments.mixes.split(","):
            yield name, kind, on, mix(kind, on, random.Random(kind))


def _traced(paths: list[str]) -> Iterator[tuple[str, str, Cluster, Mix]]:
    """The cases of a trace."""
    if len(paths) > 2:
        raise Stop("argument --trace: expected NODES and JOBS, or JOBS alone", USAGE)
    on, jobs = trace(paths[0] if paths[1:] else None, paths[-1])
    could = [job for job in jobs if on.could(job.ask)]
    if not any(job.ask[1] for job in could):
        raise Stop(f"{files.shown(paths[-1])}: no job with GPUs that a node could serve")
    if len(could) < len(jobs):
        left = f"{len(jobs) - len(could):,} of {len(jobs):,} jobs left out"
        complain("packing", f"{left}: no node could serve them")
    for kind, found in mixes(could):
        yield "trace", kind, on, found


@attrs.frozen
class _Task:
    """Some rows: a run of a pool at a load, with the options of the command line."""

    what: str
    name: str
    kind: str
    on: Cluster
    jobs: Mix
    pool: str
    load: float
    arguments: Namespace


def _rows(arguments: Namespace) -> Iterator[tuple[str, ...]]:
    """The rows, in order; as many are worked out at a time as there are processors."""
    loads, asked = (
        [float(load) for load in listed.split(",")] for listed in (arguments.loads, arguments.asked)
    )
    tasks = [
        _Task(what, name, kind, on, jobs, pool, load, arguments)
        for name, kind, on, jobs in _cases(arguments)
        for what in arguments.runs.split(",")
        for load in (asked if what == "fill" else loads)
        for pool in arguments.pools.split(",")
        if what != "queue" or pool.partition(":")[0] in _QUEUED
    ]
    yield HEAD
    with ProcessPoolExecutor() as processes:
        for rows in processes.map(_rows_of, tasks):
            yield from rows


def _rows_of(task: _Task) -> list[tuple[str, ...]]:
    """The rows of *task*."""
    seeds, load = range(task.arguments.seeds), task.load
    about = task.name, task.kind, task.pool
    if task.what == "queue":
        rows = []
        for rule in ("fifo", "easy"):
            found = _mean(
                runs.waits(task.on, task.jobs, task.pool, seed, load, rule, task.arguments.jobs)
                for seed in seeds
            )
            rows.append((f"{rule}{load:.0%}", *about, *(f"{n:.3f}" for n in found)))
        return rows
    turns = task.arguments.turns
    found = _mean(
        _numbers(task.what, task.on, task.jobs, task.pool, seed, load, turns) for seed in seeds
    )
    return [(f"{task.what[0]}{load:.0%}", *about, *(f"{n:.2f}" for n in found))]


def _numbers(
    what: str, on: Cluster, jobs: Mix, pool: str, seed: int, load: float, turns: float
) -> tuple[float, ...]:
    one = packer(pool, on, jobs)
    if what == "fill":
        found = runs.inflation(on, jobs, one, seed, load)
    else:
        run = runs.closed if what == "closed" else runs.opened
        found = run(on, jobs, one, seed, load, turns)
    return found.allocated, found.refused, found.straddling, found.sockets, found.nodes


def _mean(rows: Any) -> list[float]:
    return [sum(column) / len(column) for column in zip(*rows)]
