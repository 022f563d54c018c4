"""Show where a job is: each node's address in the fabric, each task's domain on its node.
Nodes are in topology order: those of one switch are next to each other, then those
of the next switch of the same rack. Flux itself numbers the nodes of a job, and
through them its tasks, by rank.

Inside a job it is that job; in the script of "flux batch" or "flux alloc", and
anywhere else without JOBID, it is the whole instance, without the nodes that are
excluded from it or left it for good.

examples:
  flux treepool where f2oQ9Yxk
  eval "$(flux treepool where --env)"         variables of the node it runs on:
      TREEPOOL_TOPOLOGY_ADDR=x1000.x1000c0r1.n3, TREEPOOL_TOPOLOGY_ADDR_PATTERN=
      cell.switch.node, TREEPOOL_POSITION=0, TREEPOOL_NNODES=4,
      TREEPOOL_FIRST_HOST=n3
  mpirun --hostfile <(flux treepool where --hostfile) ./solve
  flux run -N4 -n32 --taskmap=manual:"$(flux treepool where --taskmap 8)" ./solve
      in a script: tasks in topology order, eight on each node

exit status:
  0 done; 1 the job cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

import os
import shlex
import socket
from argparse import ArgumentParser, Namespace
from typing import Iterator, Optional, Sequence

from treepool.cli import files, instance
from treepool.cli.screen import DONE, USAGE, Stop, out, out_json, width
from treepool.cli.values import whole_number
from treepool.rfc import idset, taskmap
from treepool.view import table, where
from treepool.view.where import Place
from treepool.view.words import plain

#: Most tasks on a node.
_MOST = 1 << 16


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("job", metavar="JOBID", nargs="?", help="a job of the instance")
    which.add_argument("-R", dest="R_file", metavar="FILE", help='the R of a job, "-" for stdin')
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a line of JSON for each node")
    form.add_argument(
        "--env",
        action="store_true",
        help="print variables of this node, for eval in a shell; with -R, of the node of this name",
    )
    form.add_argument("--hostfile", action="store_true", help="print the hosts, one on each line")
    form.add_argument(
        "--taskmap",
        metavar="TASKS",
        nargs="?",
        const=0,
        type=whole_number(1, _MOST),
        help="print an RFC 34 task map in topology order, with so many tasks on each node "
        "(default: as many as the job has there)",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    places, rank = _places(arguments)
    if not places:
        raise Stop("R has no nodes")
    if arguments.json:
        for place in places:
            out_json(_fact(place))
    elif arguments.env:
        out(*_variables(places, _here(places, rank)))
    elif arguments.hostfile:
        out(*(place.host for place in places))
    elif arguments.taskmap is not None:
        out(_taskmap(places, arguments.taskmap))
    else:
        out(*_table(places))
    return DONE


def _places(arguments: Namespace) -> tuple[list[Place], Optional[int]]:
    """The nodes, and the rank of the broker here, None if no broker was asked; raises Stop."""
    if arguments.R_file is not None:
        R = files.read_resource_set(arguments.R_file)
        with files.naming(arguments.R_file):
            return where.places(R), None
    job = arguments.job or os.environ.get("FLUX_JOB_ID", "")
    with instance.asking(f"job {job:.40}: " if job else ""):
        from treepool.flux.job import located

        R, tasks, rank, members = located(job, os.environ)
        return where.places(R, tasks, members), rank


def _fact(place: Place) -> dict[str, object]:
    return {
        "rank": place.rank,
        "host": place.host,
        "position": place.position,
        "address": place.address,
        "pattern": place.pattern,
        "cores": idset.encode(place.cores),
        "gpus": idset.encode(place.gpus),
        "tasks": [
            {"task": one.task, "cores": idset.encode(one.cores), "domain": one.domain}
            for one in place.tasks
        ],
    }


def _here(places: Sequence[Place], rank: Optional[int]) -> Place:
    """The node with the broker of this *rank*, or without one that of this host; raises Stop."""
    if rank is not None:
        what, mine = "this one", [place for place in places if place.rank == rank]
    else:
        host = socket.gethostname()
        names = host, host.partition(".")[0]
        what, mine = f"this host, {host}", [place for place in places if place.host in names]
    if not mine:
        raise Stop(f"--env: the job is on other nodes than {what}", USAGE)
    if len(mine) > 1:
        raise Stop(f"--env: {len(mine)} nodes of R are called like {what}", USAGE)
    return mine[0]


def _variables(places: Sequence[Place], mine: Place) -> Iterator[str]:
    """The lines for a shell; the names are those of Slurm's variables where it has such."""
    for name, value in (
        ("TOPOLOGY_ADDR", mine.address),
        ("TOPOLOGY_ADDR_PATTERN", mine.pattern),
        ("POSITION", mine.position),
        ("NNODES", len(places)),
        ("FIRST_HOST", places[0].host),
    ):
        yield f"export TREEPOOL_{name}={shlex.quote(str(value))}"


def _taskmap(places: Sequence[Place], tasks: int) -> str:
    counts = [(place.number, tasks or len(place.tasks)) for place in places]
    if not any(number for _, number in counts):
        raise Stop("--taskmap: there are no tasks: how many on each node? (--taskmap TASKS)", USAGE)
    return taskmap.in_order(counts)


def _table(places: Sequence[Place]) -> Iterator[table.Line]:
    rows = [
        (str(place.position), str(place.rank), plain(place.address, 400), _tasks(place))
        for place in places
    ]
    header = ("POSITION", "RANK", places[0].pattern.upper(), "TASKS")
    return table.lines(header, rows, width(), "rrll")


def _tasks(place: Place) -> str:
    """The tasks of a node by their domains: ``0-3 numa 0, 4-7 numa 1``."""
    by_domain: dict[str, list[int]] = {}
    for one in place.tasks:
        by_domain.setdefault(one.domain, []).append(one.task)
    return ", ".join(f"{idset.encode_ids(ids)} {name}" for name, ids in by_domain.items())
