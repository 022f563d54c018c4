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
  flux treepool status --user                 what has each user? (for the owner)
  flux treepool status --prometheus > /var/lib/node_exporter/treepool.prom
      the scheduler's numbers, for a textfile collector; --user adds those of users

exit status:
  0 done; 1 the instance cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import Any, Iterator

from treepool.cli import instance
from treepool.cli.screen import DONE, USAGE, Stop, again, out, out_document, out_json, width
from treepool.view import prometheus, status, windows, words
from treepool.view.areas import areas, domain_lines, locality_lines
from treepool.view.table import Line


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--gpus", action="store_true", help="a line for each GPU")
    parser.add_argument("--jobs", action="store_true", help="a line for each job")
    parser.add_argument(
        "--domains", action="store_true", help="a line for each switch, rack, ... above the nodes"
    )
    parser.add_argument(
        "--user",
        action="store_true",
        help="a line for each user: what runs and waits (only for the owner of the instance)",
    )
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
    if arguments.prometheus:
        if arguments.gpus or arguments.jobs or arguments.domains:
            raise Stop("--prometheus has no lines for --gpus, --jobs and --domains", USAGE)
        with instance.asking():
            from treepool.flux import client

            handle = client.connected()
            numbers = client.ask(handle, "numbers")
            totals = client.totals(handle, arguments.user)
            users = status.user_lines(totals.get("users", {}), client.user_name)
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


def _watch(arguments: Namespace) -> None:
    """Show the status again and again, on a terminal in the same place."""
    while True:
        again(list(_text(arguments)))
        time.sleep(arguments.watch)


def _facts(arguments: Namespace) -> Iterator[Any]:
    """The JSON objects: GPUs, jobs, what is above the nodes, windows, and last the totals."""
    live = instance.look(waiting=arguments.jobs)
    picture = live.picture
    if arguments.user:
        yield from _users()
    if arguments.gpus:
        yield from status.gpu_lines(picture, live.jobs)
    if arguments.jobs:
        yield from status.job_lines(picture, live.jobs)
    whole = areas(picture)
    if whole is not None:
        fabric: dict[str, Any] = {"localities": list(locality_lines(whole))}
        if arguments.domains:
            fabric["domains"] = list(domain_lines(whole))
        yield {"fabric": fabric}
    if live.held_back:
        yield {"held_back": live.held_back}
    for entry in live.windows:
        yield {"window": entry}
    cores, gpus = live.preemptible
    more = {"cores_preemptible": cores, "gpus_preemptible": gpus}
    kept = {"cores_kept": status.cores_kept(live.pool)}
    totals = {**picture.totals._asdict(), **kept, **more}
    yield {"totals": totals, "drained": live.drains, "scheduled": live.stopped is None}


def _users() -> list[status.UserLine]:
    """What each user has; raises Stop."""
    with instance.asking():
        from treepool.flux import client

        totals = client.totals(client.connected(), users=True)
        return status.user_lines(totals["users"], client.user_name)


def _text(arguments: Namespace) -> Iterator[Line]:
    from treepool.cli.statustable import domain_table, gpu_table, job_table, user_table

    live = instance.look(waiting=arguments.jobs)
    picture = live.picture
    yield picture.totals.line
    if live.stopped is not None:
        yield f"{live.stopped}: no job starts"
    if live.other:
        yield live.other
    kept = status.cores_kept(live.pool)
    if kept:
        yield f"{words.count(kept, 'free core')} kept for jobs with GPUs"
    cores, gpus = live.preemptible
    if cores or gpus:
        yield f"{words.count(cores, 'core')}, {words.count(gpus, 'GPU')} in use by preemptible jobs"
    for drained in live.drains:
        yield f"drained: {drained.line}"
    whole = areas(picture)
    for locality in locality_lines(whole) if whole is not None else ():
        yield locality.text
    if live.held_back:
        yield words.plain(
            f"held back for jobs whose R cannot be read: {live.held_back}", words.MAX_LIST
        )
    for entry in live.windows:
        yield windows.line(entry, time.time())
    if arguments.user:
        yield ""
        yield from user_table(_users(), width())
    if arguments.gpus:
        yield ""
        yield from gpu_table(list(status.gpu_lines(picture, live.jobs)), width())
    if arguments.domains:
        yield ""
        yield from domain_table(list(domain_lines(whole)) if whole is not None else [], width())
    if arguments.jobs:
        yield ""
        yield from job_table(list(status.job_lines(picture, live.jobs)), time.time(), width())
