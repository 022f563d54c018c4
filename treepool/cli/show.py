"""Draw a cluster: its numbers, a map, its kinds of node, jobs and nodes.
The numbers say what is free, used and stranded (GPUs that are free, and the jobs to
come cannot use them). The map has nodes by switch and rack, or in rows. Nodes are
boxes of sockets, NUMA domains, cores and GPUs, with the jobs that hold them; a box
stands for all nodes that are alike. Jobs are allocated in order, as by treepool alloc.

examples:
  treepool show --cluster a
      an idle example cluster
  treepool show -R R.json --jobs 'slot=2/[core=8;gpu=1]' 'slot=1/socket{x}'
      where two jobs would sit on your own cluster
  treepool show --cluster b --jobs @shapes.txt --html cluster.html
      the same for a file with a shape on each line, as a page with a slider over the jobs
  flux treepool show --html now.html
      the running instance and its jobs
  flux treepool show --html now.html --watch
      the same for a screen: the page is written again every 5 seconds, and loads itself again
  treepool show --snapshot now.json
      an instance as it was when somebody took a snapshot
  treepool show --cluster a --jobs 'slot=20/[core=4;gpu=1]' --ranks 0-3 --drained 7
      four of the nodes one by one; one that takes no jobs
  treepool show -R doc/fabric.json --domain x1000c0r1
      the nodes of a switch one by one

exit status:
  0 all were allocated; 1 not all, or R is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import Sequence

from treepool.cli import cluster, files, instance, shownodes
from treepool.cli.answers import Refusal
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, draw, out, out_json
from treepool.rfc import idset
from treepool.view import windows
from treepool.view.jobs import Job, Running
from treepool.view.picture import Picture
from treepool.view.rows import Rows, rows

#: Most refused jobs that are listed by name.
MAX_REFUSALS = 10


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool show [-R FILE | --cluster a|b | --snapshot FILE | --instance] [--jobs SHAPE...] "
        "[options]"
    )
    where = cluster.add_where(parser)
    cluster.add_jobs(where)
    where.add_argument("--drained", metavar="NODES", help="hosts or ranks that are drained")
    cluster.add_placement(parser)
    shownodes.define(parser)
    form = parser.add_argument_group("output")
    form.add_argument("--json", action="store_true", help="a line of JSON for each fact")
    form.add_argument("--svg", metavar="FILE", help='write a picture instead; "-" for stdout')
    form.add_argument("--html", metavar="FILE", help='write a page instead; "-" for stdout')
    form.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        const=5.0,
        type=float,
        help="with --instance and --html: write the page again and again (default: every 5 "
        "seconds); it loads itself again unless something is picked in it",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    cluster.check_stdin(arguments, arguments.jobs)
    if arguments.svg == "-" and arguments.html == "-":
        raise Stop("only one of the pictures can go to stdout", USAGE)
    if arguments.json and (arguments.svg is not None or arguments.html is not None):
        raise Stop("argument --json: not with --svg or --html", USAGE)
    if arguments.watch is not None:
        if not cluster.is_instance(arguments) or arguments.html in (None, "-"):
            raise Stop("argument --watch: it needs an instance, and --html with a file", USAGE)
        if not 1 <= arguments.watch <= 86400:
            raise Stop("argument --watch: must be from 1 to 86400 seconds", USAGE)
        with suppress(KeyboardInterrupt):
            while True:
                _show_instance(arguments)
                time.sleep(arguments.watch)
        return DONE
    if cluster.is_instance(arguments):
        return _show_instance(arguments)
    taken = cluster.snapshot(arguments)
    pool = cluster.pool(arguments, taken)
    down = cluster.nodes(pool, "--down", arguments.down)
    drained = cluster.nodes(pool, "--drained", arguments.drained)
    pool.mark_down(idset.encode(down | drained))
    only = shownodes.chosen(arguments, pool)
    jobs: list[Job] = []
    about = cluster.example(arguments)
    if taken is not None:
        jobs, drained = list(taken.jobs.values()), drained | taken.drained
        about = [f"snapshot of {_date(taken.time)}: {taken.summary}"]
        about += [windows.line(entry, taken.time) for entry in taken.windows]
    refused: list[str] = []
    for number, answer in cluster.run_jobs(pool, arguments.jobs):
        if isinstance(answer.outcome, Refusal):
            refused.append(f"job {number}: {answer.refused}")
        else:
            jobs.append(Job.of(str(number), answer.shape, answer.outcome))
    picture = Picture.of(pool, jobs, drained=drained)
    _write(arguments, picture, rows(picture, only), about)
    for line in refused[:MAX_REFUSALS]:
        complain("treepool show", line)
    if len(refused) > MAX_REFUSALS:
        complain("treepool show", f"{len(refused) - MAX_REFUSALS} more jobs were refused")
    return NO if refused else DONE


def _show_instance(arguments: Namespace) -> int:
    for option in ("jobs", "down", "drained", "locality", *cluster.PLACEMENT):
        if getattr(arguments, option):
            raise Stop(
                f"argument --{option}: the instance has its own: name a cluster by -R", USAGE
            )
    live = instance.look()
    only = shownodes.chosen(arguments, live.pool)
    picture = live.picture
    head: list[str] = []
    waiting: list[Running] = []
    if arguments.html is not None:
        with instance.asking():
            from treepool.flux import live as asked

            head, waiting = asked.about(), asked.waiting()
    about = [windows.line(entry, time.time()) for entry in live.windows]
    about += [live.other] if live.other else []
    _write(arguments, picture, rows(picture, only), about, head, live.jobs, waiting)
    return DONE


def _date(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _write(
    arguments: Namespace,
    picture: Picture,
    shown: Rows,
    about: Sequence[str],
    head: Sequence[str] = (),
    running: Sequence[Running] = (),
    waiting: Sequence[Running] = (),
) -> None:
    """Write *picture* in the forms asked for, with the lines *about*.

    A page begins with *head*, and tells of the jobs in *running* and *waiting*.
    """
    if arguments.svg is not None:
        from treepool.view.svg import svg

        files.write_text(arguments.svg, svg(picture, shown))
    if arguments.html is not None:
        from treepool.view.html import html

        page = html(
            picture,
            shown,
            about=[*head, *about],
            running=running,
            waiting=waiting,
            again=arguments.watch or 0,
        )
        # A browser that loads the page again must not find half of it.
        new = f"{arguments.html}.new" if arguments.watch else arguments.html
        files.write_text(new, page)
        if arguments.watch:
            with files.using(files.shown(arguments.html), "written"):
                os.replace(new, arguments.html)
    if arguments.json:
        from treepool.view.facts import facts

        for number, fact in enumerate(facts(picture, shown)):
            out_json({**({} if number else cluster.named(arguments)), **fact})
    elif arguments.svg is None and arguments.html is None:
        from treepool.view.text import text

        encoding = getattr(sys.stdout, "encoding", None) or ""
        ascii_only = not encoding.lower().startswith("utf")
        draw(lambda width: text(picture, shown, width, ascii_only))
        out(*about)
