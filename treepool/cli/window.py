"""Add, change, list or remove windows (reservations, DATs) of the running instance.
A window takes nodes out for maintenance, or keeps them for some users or queues,
from one time to another. Jobs that would still run when the window starts, and may
not use it, do not start on its nodes. Jobs that run already go on, and are named;
with --end-jobs they end when it starts. With --nodes or --shape the scheduler takes
nodes on which the fewest jobs are in the way. "flux submit --window NAME" submits a
job ahead that starts in it. doc/reservations.md goes from a request to the end.

examples:
  flux treepool window add --hosts 'n[0-99]' --start 'tomorrow 8am' --duration 4h --name maint
      no jobs on these nodes tomorrow from 8 to 12
  flux treepool window add --nodes 16 --within switch --start +2d --duration 8h --test-only
      which 16 nodes below one switch it would have, and which jobs are in the way
  flux treepool window add --hosts n7 --start 'monday 9am' --duration 2h --queue debug --every week
      only jobs of the queue debug, each Monday
  flux treepool window change maint --end +2h
      it ends in two hours
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
from typing import Any, Iterable, Sequence

import attrs

from treepool.cli import instance
from treepool.cli.main import Parser
from treepool.cli.screen import DONE, USAGE, Stop, complain, out, out_json, plain, width
from treepool.errors import InvalidWindow
from treepool.flux import joboptions
from treepool.rfc import times, windows
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.windows import WindowEntry
from treepool.view.windows import line
from treepool.view.words import count

#: Examples of times.
_TIMES = "now, +2h, 'tomorrow 8am'"

#: The pointer to a key of a window, or of one of several: /end, /7/hosts, /users/3.
_POINTER = re.compile(r"(?:/\d+)?/([a-z]+)(?:/\d+)?(?=: )")

#: Keys whose options have another name.
_SINGULAR = {"users": "user", "queues": "queue", "groups": "group", "banks": "bank"}

#: Words for how often a window comes, and units of a number of days.
_EVERY, _DAYS = {"once": 0, "day": 1, "week": 7}, {"d": 1, "w": 7}

#: Running jobs that are named.
MAX_NAMED = 20


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="add|change|list|remove", parser_class=Parser
    )
    add = actions.add_parser("add", help="add a window")
    add.add_argument("--name", metavar="NAME", help="its name, which waiting jobs are told")
    _describe(add, True)
    change = actions.add_parser("change", help="extend, shorten, move or otherwise change a window")
    change.add_argument("name", metavar="NAME", help="the name of the window")
    _describe(change, False)
    show = actions.add_parser("list", help="list the windows that are not over")
    show.add_argument("--json", action="store_true", help="print a line of JSON for each")
    remove = actions.add_parser("remove", help="remove a window")
    remove.add_argument("name", metavar="NAME", help="the name of the window")


def _describe(parser: ArgumentParser, new: bool) -> None:
    """Add the arguments that say what a window is like; a *new* one needs nodes and times."""
    nodes = parser.add_mutually_exclusive_group(required=new)
    nodes.add_argument("--hosts", metavar="HOSTS", help="its nodes, such as n[0-99]")
    nodes.add_argument("--nodes", metavar="N", type=int, help="so many nodes, to be chosen")
    nodes.add_argument("--shape", metavar="SHAPE", help="nodes that could serve this (RFC 46)")
    parser.add_argument("--within", metavar="LOCALITY", help="chosen nodes are all in one such")
    parser.add_argument("--requires", metavar="QUERY", help="what chosen nodes are (RFC 35)")
    when = (
        f"as flux submit --begin-time takes it, such as {_TIMES}, ISO 8601, or seconds since 1970"
    )
    parser.add_argument("--start", metavar="TIME", required=new, help=when)
    end = parser.add_mutually_exclusive_group(required=new)
    end.add_argument("--duration", metavar="FSD", help="how long it lasts, such as 4h")
    end.add_argument("--end", metavar="TIME", help="when it ends, in the form of --start")
    parser.add_argument("--every", metavar="TIME", help="it comes again: day, week, 14d; or once")
    for flag, what in (
        *(("user", "a user"), ("group", "a group of users")),
        *(("bank", "a bank of flux-accounting"), ("queue", "a queue")),
    ):
        text = f"{what} whose jobs may use the nodes; repeatable"
        parser.add_argument(f"--{flag}", metavar=flag.upper(), action="append", help=text)
    parser.add_argument(
        "--end-jobs", action="store_true", help="running jobs end when it starts, and are told so"
    )
    parser.add_argument(
        "--test-only", action="store_true", help="only say which nodes and jobs it would affect"
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    with instance.asking():
        from treepool.flux import client

        if arguments.action == "add":
            return _add(arguments, client)
        if arguments.action == "change":
            return _change(arguments, client)
        if arguments.action == "list":
            return _list(arguments, client)
        client.ask(client.connected(), "window-remove", {"name": arguments.name})
    out(f"removed window {arguments.name}")
    return DONE


def _add(arguments: Namespace, client: Any) -> int:
    given = {"name": "window" if arguments.name is None else arguments.name, "hosts": ""}
    entry = _entry(_changed(given, arguments, client))
    names: Iterable[str] = [entry.name]
    if arguments.name is None:
        taken = {known.entry.name for known in client.windows_now()}
        names = (name for i in itertools.count(1) if (name := f"window{i}") not in taken)
    for name in names:
        entry = attrs.evolve(entry, name=name)
        try:
            added = client.add_window(entry, test=arguments.test_only)
            break
        except OSError as e:  # of a name that it chose itself: another command has just taken it
            if e.errno != errno.EEXIST or arguments.name is not None:
                raise OSError(e.errno, _argument(e.strerror or str(e))) from None
    return _told("added", attrs.evolve(entry, hosts=added.hosts), added, arguments, client)


def _change(arguments: Namespace, client: Any) -> int:
    there = {known.entry.name: known for known in client.windows_now()}
    if arguments.name not in there:
        hint = did_you_mean(arguments.name, there)
        raise Stop(f"there is no window {shown(arguments.name)}{hint}")
    if there[arguments.name].source == "configuration":
        raise Stop(f"window {arguments.name} is in the configuration: change it there")
    given = there[arguments.name].entry.to_dict()
    if arguments.start is not None and "shape" in given:
        given["hosts"] = ""  # at another time others are in the way
    try:
        entry = _entry(_changed(given, arguments, client))
        added = client.add_window(entry, replaces=True, test=arguments.test_only)
    except OSError as e:
        raise OSError(e.errno, _argument(e.strerror or str(e))) from None
    return _told("changed", attrs.evolve(entry, hosts=added.hosts), added, arguments, client)


def _changed(given: dict[str, Any], arguments: Namespace, client: Any) -> dict[str, Any]:
    """The window *given*, as JSON, with what *arguments* say."""
    value, start, now = dict(given), given.get("start"), time.time()
    if arguments.start is not None:
        value["start"] = start = instance.read("--start", arguments.start, client.time_of, _TIMES)
        if "end" in given:
            value["end"] = start + given["end"] - given["start"]
    if arguments.end is not None:
        value["end"] = instance.read("--end", arguments.end, client.time_of, _TIMES)
    elif arguments.duration is not None and start is not None:
        seconds = instance.read("--duration", arguments.duration, client.seconds_of, "4h")
        value["end"] = start + seconds
    if arguments.every is not None:
        value["every"] = _every(arguments.every)
    if value.get("every") == 0:
        del value["every"]
    if arguments.end is None and "every" not in value and value.get("end", now + 1) <= now:
        over = f"the window is over already: it ends at {times.clock(value['end'], now)}"
        text = arguments.start or ""  # who gives no end is not told of one
        raise Stop(f"argument --start: {text[:60]!r}: {over}")
    chosen = arguments.shape
    if arguments.nodes is not None:
        if arguments.nodes < 1:
            raise Stop("argument --nodes: must be at least 1", USAGE)
        chosen = f"slot={arguments.nodes}/node{{x}}"
    if arguments.hosts is not None or chosen is not None:
        for name in windows.CHOSEN:
            value.pop(name, None)
        value["hosts"] = arguments.hosts or ""
    asked = {"shape": chosen, "within": arguments.within, "requires": arguments.requires}
    for name, text in asked.items():
        if text is not None:
            if not chosen and not value.get("shape"):
                raise Stop(f"argument --{name}: is for --nodes or --shape", USAGE)
            value.update({name: text, "hosts": ""})
    if arguments.user:
        value["users"] = [int(u) if _is_id(u) else u for u in arguments.user]
    for name in ("queues", "groups", "banks"):
        if getattr(arguments, _SINGULAR[name]):
            value[name] = getattr(arguments, _SINGULAR[name])
    return value


def _told(what: str, entry: WindowEntry, added: Any, arguments: Namespace, client: Any) -> int:
    """Say what was done or would be, and let running jobs end if that was asked for."""
    if arguments.test_only:
        what = "would have " + what
    out(f"{what} {line(entry, time.time())}")
    if added.reserved:
        moved = "would be moved" if arguments.test_only else "moved"
        out(f"{count(added.reserved, 'reservation')} of waiting jobs {moved} out of its way")
    if not added.running:
        return DONE
    names = _first(added.names)
    if not arguments.end_jobs:
        complain("treepool window", f"warning: these jobs may still run when it starts: {names}")
        return DONE
    if not arguments.test_only:
        for jobid, name in zip(added.running, added.names):
            try:
                client.end_at(jobid, entry.start, entry.name)
            except OSError as e:
                text = f"warning: {name} does not end for it: {e.strerror or e}"
                complain("treepool window", text)
    out(f"{'would end' if arguments.test_only else 'end'} when it starts: {names}")
    return DONE


def _first(names: Sequence[str]) -> str:
    """The first of *names*, and how many more there are."""
    more = len(names) - MAX_NAMED
    return " ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _every(text: str) -> int:
    """After how many days a window comes again, 0 if it does not."""
    if text in _EVERY:
        return _EVERY[text]
    number, unit = text[:-1], text[-1:]
    if unit in _DAYS and _is_id(number):
        return int(number) * _DAYS[unit]
    raise Stop(f"argument --every: {text[:60]!r} is not day, week, 14d, 2w or once", USAGE)


def _list(arguments: Namespace, client: Any) -> int:
    found = client.windows_now()
    if arguments.json:
        for known in found:
            out_json({**plain(known.entry), "source": known.source, "down": known.down})
    elif not found:
        out("no windows")
    else:
        from treepool.cli.statustable import window_table

        rows = [(known.entry, known.source, known.down) for known in found]
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
        return f"argument {said}" if (said := joboptions.named(problem)) != problem else problem
    return f"argument --{_SINGULAR.get(pointer[1], pointer[1])}{problem[pointer.end() :]}"


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12
