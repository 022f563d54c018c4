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
from typing import Any, Iterator

from treepool.cli import instance, renamed
from treepool.cli.screen import DONE, USAGE, Stop, again, out, out_document, out_json, width
from treepool.placement.nodes.parts import on_hosts, short_form
from treepool.view import prometheus, userlines, windows, words
from treepool.view.table import Line


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--gpus", action="store_true", help="a line for each GPU")
    parser.add_argument("--jobs", action="store_true", help="a line for each job")
    parser.add_argument(
        "--domains", action="store_true", help="a line for each switch, rack, ... above the nodes"
    )
    parser.add_argument(
        "--users",
        dest="user",
        action="store_true",
        help="a line for each user: what runs and waits (only for the owner of the instance)",
    )
    renamed.add(parser, "--user", "--users", "user", flag=True)
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
        if arguments.gpus + arguments.jobs + arguments.domains + arguments.user != 1:
            raise Stop("argument -o: it needs one of --gpus, --jobs, --domains, --users", USAGE)
        out(*_columns(arguments))
        return DONE
    if arguments.prometheus:
        if arguments.gpus or arguments.jobs or arguments.domains:
            raise Stop("--prometheus has no lines for --gpus, --jobs and --domains", USAGE)
        with instance.asking():
            from treepool.flux import client

            handle = client.connected()
            numbers = client.ask(handle, "numbers")
            totals = client.totals(handle, arguments.user)
            users = userlines.user_lines(totals.get("users", {}), client.user_name)
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


def _columns(arguments: Namespace) -> list[str]:
    """The lines of the one table that is asked for, in the columns of ``-o``."""
    from treepool.cli.statustable import formatted

    if arguments.user:
        return formatted(userlines.UserLine, _users(), arguments.format, arguments.no_header)
    from treepool.view import status  # with the engine
    from treepool.view.areas import DomainLine, areas, domain_lines

    live = instance.look(waiting=arguments.jobs)
    if arguments.domains:
        whole = areas(live.picture)
        rows = domain_lines(whole) if whole is not None else []
        return formatted(DomainLine, rows, arguments.format, arguments.no_header)
    if arguments.gpus:
        gpus = status.gpu_lines(live.picture, live.jobs)
        return formatted(status.GpuLine, gpus, arguments.format, arguments.no_header)
    jobs = status.job_lines(live.pool.inventory, live.jobs)
    return formatted(status.JobLine, jobs, arguments.format, arguments.no_header)


def _watch(arguments: Namespace) -> None:
    """Show the status again and again, on a terminal in the same place."""
    while True:
        again(list(_text(arguments)))
        time.sleep(arguments.watch)


def _facts(arguments: Namespace) -> Iterator[Any]:
    """The JSON objects: GPUs, jobs, what is above the nodes, windows, and last the totals."""
    from treepool.view import status
    from treepool.view.areas import areas, domain_lines, locality_lines

    live = instance.look(waiting=arguments.jobs)
    picture = live.picture
    if arguments.user:
        yield from _users()
    if arguments.gpus:
        yield from status.gpu_lines(picture, live.jobs)
    if arguments.jobs:
        yield from status.job_lines(live.pool.inventory, live.jobs)
    whole = areas(picture)
    if whole is not None:
        fabric: dict[str, Any] = {"localities": list(locality_lines(whole))}
        if arguments.domains:
            fabric["domains"] = list(domain_lines(whole))
        yield {"fabric": fabric}
    if live.held_back:
        hosts = status.hosts_of(live.pool.inventory, live.held_back)
        yield {"held_back": short_form(live.held_back), "hosts": hosts}
    for entry in live.windows:
        yield {"window": entry}
    cores, gpus = live.preemptible
    more = {"cores_preemptible": cores, "gpus_preemptible": gpus}
    kept = {"cores_kept": status.cores_kept(live.pool)}
    totals = {**picture.totals._asdict(), **kept, **more}
    yield {"totals": totals, "drained": live.drains, "scheduled": live.stopped is None}


def _users() -> list[userlines.UserLine]:
    """What each user has; raises Stop."""
    with instance.asking():
        from treepool.flux import client

        totals = client.totals(client.connected(), users=True)
        return userlines.user_lines(totals["users"], client.user_name)


def _text(arguments: Namespace) -> Iterator[Line]:
    from treepool.cli.statustable import domain_table, gpu_table, job_table, user_table
    from treepool.view import status
    from treepool.view.areas import areas, domain_lines, locality_lines

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
        kept_back = words.listed(on_hosts(live.held_back, live.pool.inventory))
        yield f"held back for jobs whose R cannot be read: {kept_back}"
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
        lines = list(status.job_lines(live.pool.inventory, live.jobs))
        yield from job_table(lines, time.time(), width())
