"""Inside a Flux job, check that a task is bound to what the job has.
A task is not aligned if

  - it may run on cores that are not the job's,
  - it spans more NUMA nodes than its share of the cores,
  - it sees a GPU that is not the job's, or none of the job's GPUs,
  - both its cores and its GPUs are more than its share, so that other tasks use
    the same ones, or
  - its cores and its GPU are in different sockets.

examples:
  flux run -n8 -c4 -g1 flux treepool bind -- flux treepool verify
  flux treepool verify --pid 4711

exit status:
  0 aligned; 1 not; 2 usage, such as outside a job
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Mapping, Optional

from treepool.cli import here
from treepool.cli.here import Here
from treepool.cli.screen import DONE, NO, USAGE, Stop, out, out_json
from treepool.discovery import alignment, binding, visible
from treepool.errors import InvalidHardware
from treepool.rfc import idset

#: Most bytes of a process's environment, and most of its threads, that are read.
_MAX_ENVIRONMENT, _MAX_THREADS = 4 << 20, 1 << 14


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument(
        "--pid", type=_pid, help="a process of the job (default: the one that runs this)"
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON")
    here.add_options(parser)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    environment = os.environ if arguments.pid is None else _environment(arguments.pid)
    place = here.find(arguments, environment)
    task = place.task
    affinity = _affinity(arguments.pid)
    gpus, known = None, True
    try:
        gpus = visible.seen_by(task, environment)
        notes = [*visible.notes(task, task.gpus, environment)]
        notes += visible.unordered(task, environment)
    except InvalidHardware as e:
        known, notes = False, [f"{e}: GPUs were not compared"]
    found = alignment.check(task, affinity, gpus, known)
    if arguments.json:
        fact = {
            **here.about(place),
            "aligned": not found,
            "cores": idset.encode(binding.cores_of(task.machine, affinity)),
            "gpus": None if gpus is None else list(gpus),
            "reasons": [{"kind": one.kind, "message": one.message} for one in found],
            "notes": notes,
        }
        out_json(fact)
    else:
        _say(place, [one.message for one in found], notes)
    return NO if found else DONE


def _say(place: Here, reasons: list[str], notes: list[str]) -> None:
    """Print one line for each reason, because the lines of many tasks may be interleaved."""
    task = place.task
    name = f"task {place.number}" if place.number else f"local task {task.index} of {task.tasks}"
    name = f"{name} on {place.host or f'rank {place.rank}'}"
    if not reasons:
        out(f"{name}: aligned")
    for reason in reasons:
        out(f"{name}: not aligned: {reason}")
    for note in notes:
        out(f"{name}: note: {note}")


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text[:40]!r} is not a process id")
    return int(text)


def _environment(pid: int) -> Mapping[str, str]:
    """The environment that process *pid* was started with."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            data = file.read(_MAX_ENVIRONMENT)
    except FileNotFoundError:
        raise Stop(f"--pid {pid}: there is no such process", USAGE) from None
    except OSError as e:
        raise Stop(f"--pid {pid}: its environment cannot be read: {e.strerror}", USAGE) from None
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def _affinity(pid: Optional[int]) -> int:
    """The PUs that any thread of a process may use; a program may pin each thread elsewhere."""
    if pid is None:
        return idset.from_ids(os.sched_getaffinity(0))
    found = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")[:_MAX_THREADS]
    except OSError:
        threads = []
    for thread in threads:
        try:
            found |= idset.from_ids(os.sched_getaffinity(int(thread)))
        except OSError:  # the thread ended meanwhile
            continue
    if not found:
        raise Stop(f"--pid {pid}: the process has ended", USAGE)
    return found
