"""Show the running Flux instance: what is free, used and fragmented (GPUs that
are free but in no domain that is), and with --gpus a line for each GPU, with
--jobs one for each job, with its placement and how close it is. Fitness is
from 0 to 1: links between GPUs, cores and GPUs in one memory domain.

examples:
  flux treepool status --jobs                 where do jobs sit?
  flux treepool status --gpus --watch         every GPU, again and again
  flux treepool status --gpus --json | jq 'select(.state == "free")'

exit status:
  0 done; 1 the instance cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from typing import Sequence, Union

import attrs

from treepool.cli import instance
from treepool.cli.screen import DONE, draw, out
from treepool.view import status
from treepool.view.picture import Picture
from treepool.view.status import GpuLine, JobLine

#: Seconds between two updates of --watch, and the smallest interval allowed.
INTERVAL, SHORTEST = 5.0, 0.2


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--gpus", action="store_true", help="a line for each GPU")
    parser.add_argument("--jobs", action="store_true", help="a line for each job")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a line of JSON for each, and the totals")
    form.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        const=INTERVAL,
        type=_interval,
        help=f"look again every so many seconds (default {INTERVAL:g}), until interrupted",
    )


def _interval(text: str) -> float:
    value = float(text)
    if not SHORTEST <= value <= 86400:
        raise ValueError(text)
    return value


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    while True:
        live = instance.look()
        jobs = instance.running(live)
        holding = [running.job for running in jobs if running.job.parts]
        picture = Picture.of(live.pool, holding, drained=live.drained)
        weights = live.pool.weights
        gpus = list(status.gpu_lines(picture, jobs)) if arguments.gpus else []
        lines = list(status.job_lines(picture, jobs, weights)) if arguments.jobs else []
        if arguments.json:
            return _print_json(picture, gpus, lines)
        if arguments.watch and sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[2J")
        _print(picture, gpus, lines)
        if not arguments.watch:
            return DONE
        sys.stdout.flush()
        time.sleep(arguments.watch)


def _print_json(picture: Picture, gpus: Sequence[GpuLine], jobs: Sequence[JobLine]) -> int:
    lines: list[Union[GpuLine, JobLine]] = [*gpus, *jobs]
    for line in lines:
        out(json.dumps(attrs.asdict(line)))
    out(json.dumps({"totals": picture.totals._asdict()}))
    return DONE


def _print(picture: Picture, gpus: Sequence[GpuLine], jobs: Sequence[JobLine]) -> None:
    from treepool.cli.statustable import gpu_table, job_table

    out(picture.totals.line)
    if gpus:
        out("")
        draw(lambda width: gpu_table(gpus))
    if jobs:
        out("")
        now = time.time()
        draw(lambda width: job_table(jobs, now))
