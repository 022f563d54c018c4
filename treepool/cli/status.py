"""Show the running Flux instance: what is free, used and fragmented (GPUs that
are free but in no domain that is), the windows, and with --gpus a line for each
GPU, with --jobs one for each job, with its placement and how close it is.
Fitness is from 0 to 1: links between GPUs, cores and GPUs in one memory domain.

examples:
  flux treepool status --jobs                 where do jobs sit?
  watch flux treepool status --gpus           every GPU, again and again
  flux treepool status --gpus --json | jq 'select(.state == "free")'

exit status:
  0 done; 1 the instance cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace

import attrs

from treepool.cli import instance
from treepool.cli.screen import DONE, draw, out
from treepool.view import status, windows
from treepool.view.picture import Picture


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--gpus", action="store_true", help="a line for each GPU")
    parser.add_argument("--jobs", action="store_true", help="a line for each job")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each, and the totals"
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    live = instance.look()
    running = instance.running(live)
    holding = [one.job for one in running if one.job.parts]
    picture = Picture.of(live.pool, holding, drained=live.drained)
    gpus = list(status.gpu_lines(picture, running)) if arguments.gpus else []
    jobs = list(status.job_lines(picture, running, live.pool.weights)) if arguments.jobs else []
    if arguments.json:
        for found in [*map(attrs.asdict, gpus), *map(attrs.asdict, jobs)]:
            out(json.dumps(found))
        for entry in live.windows:
            out(json.dumps({"window": entry.to_dict()}))
        out(json.dumps({"totals": picture.totals._asdict()}))
        return DONE
    from treepool.cli.statustable import gpu_table, job_table

    out(picture.totals.line)
    for entry in live.windows:
        out(windows.line(entry, time.time()))
    if gpus:
        out("")
        draw(lambda width: gpu_table(gpus))
    if jobs:
        out("")
        draw(lambda width: job_table(jobs, time.time()))
    return DONE
