"""Add, list or remove windows of the running instance.
A window takes nodes out for maintenance, or keeps them for some users or queues,
from one time to another. Jobs that would still run when the window starts, and may
not use it, do not start on its nodes. Jobs that run already go on: "window add"
names those that may still run when the window starts.

examples:
  flux treepool window add --hosts 'n[0-99]' --start 'tomorrow 8am' --duration 4h --name maint
      no jobs on these nodes tomorrow from 8 to 12
  flux treepool window add --hosts n7 --start now --duration 2h --user alice --queue debug
      only jobs of alice, and of the queue debug, for two hours
  flux treepool window list
  flux treepool window remove maint

exit status:
  0 done; 1 the scheduler refuses; 2 usage, or there is no instance with sched-treepool
"""

from __future__ import annotations

import errno
import itertools
import re
import time
from argparse import ArgumentParser, Namespace
from typing import Any, Iterable

import attrs

from treepool.cli import instance
from treepool.cli.main import Parser
from treepool.cli.screen import DONE, USAGE, Stop, complain, out, out_json, plain, width
from treepool.errors import InvalidWindow
from treepool.rfc import times, windows
from treepool.rfc.windows import WindowEntry
from treepool.view.windows import line
from treepool.view.words import count

#: Examples of times.
_TIMES = "now, +2h, 'tomorrow 8am'"

#: The pointer to a key of a window, or of one of several: /end, /7/hosts, /users/3.
_POINTER = re.compile(r"(?:/\d+)?/([a-z]+)(?:/\d+)?(?=: )")

#: Keys whose options have another name.
_SINGULAR = {"users": "user", "queues": "queue"}

#: Running jobs that are named.
MAX_NAMED = 20


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="add|list|remove", parser_class=Parser
    )
    add = actions.add_parser("add", help="add a window")
    add.add_argument("--hosts", metavar="HOSTS", required=True, help="its nodes, such as n[0-99]")
    when = (
        f"as flux submit --begin-time takes it, such as {_TIMES}, ISO 8601, or seconds since 1970"
    )
    add.add_argument("--start", metavar="TIME", required=True, help=when)
    end = add.add_mutually_exclusive_group(required=True)
    end.add_argument("--duration", metavar="FSD", help="how long it lasts, such as 4h")
    end.add_argument("--end", metavar="TIME", help="when it ends, in the form of --start")
    add.add_argument(
        "--user",
        metavar="USER",
        action="append",
        help="a user whose jobs may use the nodes; repeatable",
    )
    add.add_argument(
        "--queue",
        metavar="QUEUE",
        action="append",
        help="a queue whose jobs may use the nodes; repeatable",
    )
    add.add_argument("--name", metavar="NAME", help="its name, which waiting jobs are told")
    show = actions.add_parser("list", help="list the windows that are not over")
    show.add_argument("--json", action="store_true", help="print a line of JSON for each")
    remove = actions.add_parser("remove", help="remove a window")
    remove.add_argument("name", metavar="NAME", help="the name of the window")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    with instance.asking():
        from treepool.flux import client

        if arguments.action == "add":
            return _add(arguments, client)
        if arguments.action == "list":
            return _list(arguments, client)
        client.ask(client.connected(), "window-remove", {"name": arguments.name})
    out(f"removed window {arguments.name}")
    return DONE


def _add(arguments: Namespace, client: Any) -> int:
    start = instance.read("--start", arguments.start, client.time_of, _TIMES)
    if arguments.end is not None:
        end = instance.read("--end", arguments.end, client.time_of, _TIMES)
    else:
        end = start + instance.read("--duration", arguments.duration, client.seconds_of, "4h")
        if end <= time.time():  # who gives no end is not told of one
            over = f"the window is over already: it ends at {times.clock(end, time.time())}"
            raise Stop(f"argument --start: {arguments.start[:60]!r}: {over}")
    value: dict[str, Any] = {"hosts": arguments.hosts, "start": start, "end": end}
    value["name"] = "window" if arguments.name is None else arguments.name
    if arguments.user:
        value["users"] = [int(u) if _is_id(u) else u for u in arguments.user]
    if arguments.queue:
        value["queues"] = arguments.queue
    entry = _entry(value)
    names: Iterable[str] = [entry.name]
    if arguments.name is None:
        taken = {known.entry.name for known in client.windows_now()}
        names = (name for i in itertools.count(1) if (name := f"window{i}") not in taken)
    for name in names:
        entry = attrs.evolve(entry, name=name)
        try:
            added = client.add_window(entry)
            break
        except OSError as e:  # of a name that it chose itself: another command has just taken it
            if e.errno != errno.EEXIST or arguments.name is not None:
                raise OSError(e.errno, _argument(e.strerror or str(e))) from None
    out(f"added {line(entry, time.time())}")
    if added.reserved:
        out(f"{count(added.reserved, 'reservation')} of waiting jobs moved out of its way")
    if added.running:
        more = len(added.running) - MAX_NAMED
        names = " ".join(added.running[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
        complain("treepool window", f"warning: these jobs may still run when it starts: {names}")
    return DONE


def _list(arguments: Namespace, client: Any) -> int:
    found = client.windows_now()
    if arguments.json:
        for known in found:
            out_json({**plain(known.entry), "source": known.source})
    elif not found:
        out("no windows")
    else:
        from treepool.cli.statustable import window_table

        rows = [(known.entry, known.source) for known in found]
        out(*window_table(rows, time.time(), width()))
    return DONE


def _entry(value: dict[str, Any]) -> WindowEntry:
    try:
        return windows.read(value)
    except InvalidWindow as e:
        raise Stop(_argument(str(e)), USAGE) from None


def _argument(problem: str) -> str:
    """The text of a problem, with the option instead of the JSON pointer, if it has one."""
    pointer = _POINTER.match(problem)
    if pointer is None:
        return problem
    return f"argument --{_SINGULAR.get(pointer[1], pointer[1])}{problem[pointer.end() :]}"


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12
