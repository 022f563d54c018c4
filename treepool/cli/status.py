"""Show in lines what is free and used in the running Flux instance, and by whom.
It tells how many nodes, cores and GPUs are free or used; stranded GPUs, which are free,
and the jobs to come cannot use them; how many nodes a job may have to fit into one
switch or rack; and the windows.

The fitness of a job says how close together it is: 1.00 if an idle cluster could
not have placed it better.

examples:
  flux treepool status --jobs                 where do jobs sit?
  flux treepool status --gpus --watch         every GPU, again every two seconds
  flux treepool status --gpus --json | jq 'select(.state == "free")'
  flux treepool status --users                what has each user? (for the owner)
  flux treepool status --jobs -no '{job} {nodes} {fitness}'
  flux treepool status --prometheus > /var/lib/node_exporter/treepool.prom
      the scheduler's numbers, for a textfile collector; --users adds those of users

exit status:
  0 done; 1 the instance cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Iterator, Optional

from treepool.cli import instance
from treepool.cli.screen import DONE, USAGE, Stop, again, out, out_document, out_json, width
from treepool.view import prometheus, windows, words
from treepool.view.jobs import JobLine, UserLine, user_lines
from treepool.view.table import Line
from treepool.view.totals import Overview

if TYPE_CHECKING:  # with the engine, which only GPUs and domains need
    from treepool.flux.live import Live


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--gpus", action="store_true", help="a line for each GPU")
    parser.add_argument("--jobs", action="store_true", help="a line for each job")
    parser.add_argument(
        "--domains", action="store_true", help="a line for each switch, rack, ... above the nodes"
    )
    parser.add_argument(
        "--users",
        action="store_true",
        help="a line for each user: what runs and waits (only for the owner of the instance)",
    )
    parser.add_argument(
        "-o",
        "--format",
        metavar="FORMAT",
        help="with one of --gpus, --jobs, --domains, --users: print just these lines, in columns "
        "such as '{job:>12} {user:<8.8} {cores:>6}', as in flux jobs; names are those of --json",
    )
    parser.add_argument("-n", "--no-header", action="store_true", help="with -o: no line of names")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print lines of JSON")
    form.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        const=2.0,
        type=float,
        help="show it again and again (default: every 2 seconds)",
    )
    form.add_argument(
        "--prometheus", action="store_true", help="the scheduler's numbers in Prometheus' format"
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.no_header and arguments.format is None:
        raise Stop("argument -n: it needs -o", USAGE)
    if arguments.format is not None:
        if arguments.json or arguments.prometheus or arguments.watch is not None:
            raise Stop("argument -o: not with --json, --prometheus or --watch", USAGE)
        if arguments.gpus + arguments.jobs + arguments.domains + arguments.users != 1:
            raise Stop("argument -o: it needs one of --gpus, --jobs, --domains, --users", USAGE)
        from treepool.cli.statustable import TABLES, formatted

        (what,) = (what for what in TABLES if getattr(arguments, what))
        out(*formatted(*_lines(what), arguments.format, arguments.no_header))
        return DONE
    if arguments.prometheus:
        if arguments.gpus or arguments.jobs or arguments.domains:
            raise Stop("--prometheus has no lines for --gpus, --jobs and --domains", USAGE)
        with instance.asking():
            from treepool.flux import client

            handle = client.connected()
            numbers = client.ask(handle, "numbers")
            totals = client.totals(handle, arguments.users)
            users = user_lines(totals.get("users", {}), client.user_name)
        out_document("".join(f"{line}\n" for line in prometheus.text(numbers, totals, users)))
    elif arguments.json:
        for fact in _facts(arguments):
            out_json(fact)
    elif arguments.watch is None:
        out(*_text(arguments))
    else:
        if not 0.1 <= arguments.watch <= 86400:
            raise Stop("argument --watch: must be from 0.1 to 86400 seconds", USAGE)
        with suppress(KeyboardInterrupt):
            _watch(arguments)
    return DONE


def _lines(what: str, live: Optional[Live] = None) -> tuple[type, list[Any]]:
    """The lines of one of the tables of statustable.py, and their class; raises Stop."""
    if what == "users":
        return UserLine, _users()
    if what == "jobs":
        return JobLine, _jobs()
    from treepool.view import areas, status  # with the engine

    live = live or instance.look()
    if what == "gpus":
        return status.GpuLine, list(status.gpu_lines(live.picture, live.jobs))
    whole = areas.areas(live.picture)
    return areas.DomainLine, [] if whole is None else list(areas.domain_lines(whole))


def _watch(arguments: Namespace) -> None:
    """Show the status again and again, on a terminal in the same place."""
    while True:
        again(list(_text(arguments)))
        time.sleep(arguments.watch)


def _seen(arguments: Namespace) -> tuple[Overview, Optional[Live]]:
    """The instance as the scheduler tells it, and if GPUs or domains are asked for, its nodes.

    Where no scheduler tells it, it is made of the nodes. Raises Stop.
    """
    if not arguments.gpus and not arguments.domains:
        with instance.asking():
            from treepool.flux import standing

            told = standing.overview()
            if told is not None:
                return told, None
    live = instance.look()
    return live.overview, live


def _facts(arguments: Namespace) -> Iterator[Any]:
    """The JSON objects: GPUs, jobs, what is above the nodes, windows, and last the totals."""
    seen, live = _seen(arguments)
    for what in ("users", "gpus", "jobs"):
        if getattr(arguments, what):
            yield from _lines(what, live)[1]
    if seen.localities is not None:
        fabric: dict[str, Any] = {"localities": list(seen.localities)}
        if arguments.domains:
            fabric["domains"] = _lines("domains", live)[1]
        yield {"fabric": fabric}
    placement, hosts, _ = seen.held_back
    if placement:
        yield {"held_back": placement, "hosts": hosts}
    for entry in seen.windows:
        yield {"window": entry}
    cores, gpus = seen.preemptible
    more = {"cores_preemptible": cores, "gpus_preemptible": gpus}
    totals = {**seen.totals._asdict(), "cores_kept": seen.cores_kept, **more}
    yield {"totals": totals, "drained": seen.drains, "scheduled": seen.stopped is None}


def _users() -> list[UserLine]:
    """What each user has; raises Stop."""
    with instance.asking():
        from treepool.flux import client

        totals = client.totals(client.connected(), users=True)
        return user_lines(totals["users"], client.user_name)


def _jobs() -> list[JobLine]:
    """The jobs that run or wait; raises Stop."""
    with instance.asking():
        from treepool.flux import standing

        told = standing.job_lines()
    if told is not None:
        return told
    from treepool.view.status import job_lines  # with the engine

    live = instance.look(waiting=True)
    return list(job_lines(live.pool.inventory, live.jobs))


def _text(arguments: Namespace) -> Iterator[Line]:
    from treepool.cli.statustable import TABLES

    seen, live = _seen(arguments)
    yield seen.totals.line
    if seen.stopped is not None:
        yield f"{seen.stopped}: no job starts"
    if seen.other:
        yield seen.other
    if seen.cores_kept:
        yield f"{words.count(seen.cores_kept, 'free core')} kept for jobs with GPUs"
    cores, gpus = seen.preemptible
    if cores or gpus:
        yield f"{words.count(cores, 'core')}, {words.count(gpus, 'GPU')} in use by preemptible jobs"
    for drained in seen.drains:
        yield f"drained: {drained.line}"
    for locality in seen.localities or ():
        yield locality.text
    _, _, summary = seen.held_back
    if summary:
        yield f"held back for jobs whose R cannot be read: {words.listed(summary)}"
    for entry in seen.windows:
        yield windows.line(entry, time.time())
    for what, table in TABLES.items():
        if getattr(arguments, what):
            yield ""
            yield from table(_lines(what, live)[1], width())
