"""``treepool show``: the cluster as a picture, in a terminal, as SVG or as HTML."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Iterator, Optional

from treepool.cli import cluster, instance
from treepool.cli.answers import Answer, Refusal, allocate_shape
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, draw, out
from treepool.errors import InvalidIdset
from treepool.placement.choose.policy import POLICIES
from treepool.placement.pool import Pool
from treepool.placement.request.job_options import LOCALITIES
from treepool.rfc import idset
from treepool.view.model import Job
from treepool.view.picture import Picture
from treepool.view.rows import Rows, rows

_DESCRIPTION = """\
Show a cluster: what is free, used and fragmented (GPUs that are free but in no
domain that is), its kinds of node, and its nodes as boxes of sockets, NUMA
domains, cores and GPUs, with the jobs that have them. Nodes that are alike
are one box. Jobs are allocated in order, as by treepool alloc.
"""

_EXAMPLES = """\
examples:
  treepool show
      an idle example cluster
  treepool show -R R.json --jobs 'slot=2/[core=8;gpu=1]' 'slot=1/socket{x}'
      where two jobs would sit on your own cluster
  treepool show --cluster b --jobs @shapes.txt --html cluster.html
      the same for a file with a shape on each line, as a page with a slider over the jobs
  flux treepool show --instance --html now.html
      the running instance and its jobs
  treepool show --jobs 'slot=20/[core=4;gpu=1]' --ranks 0-3 --drained 7
      four of the nodes one by one; one that takes no jobs

exit status:
  0 all were allocated; 1 not all, or R is not valid; 2 usage, or no such file
"""

#: Most refused jobs that are listed by name.
MAX_REFUSALS = 10

#: Most jobs in one picture.
MAX_JOBS = 1 << 17


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool show [-R FILE | --cluster a|b | --instance] [--jobs SHAPE...] [options]"
    )
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    where = parser.add_argument_group("cluster")
    which = where.add_mutually_exclusive_group()
    which.add_argument("-R", dest="R_file", metavar="FILE", help='its R (RFC 20), "-" for stdin')
    which.add_argument(
        "--cluster", choices=("a", "b"), default="a", help="an example of RFC 49 (default: a)"
    )
    which.add_argument(
        "--instance", action="store_true", help="the running Flux instance, with its jobs"
    )
    where.add_argument("--down", metavar="IDS", help="ranks that are down, as an idset (RFC 22)")
    where.add_argument("--drained", metavar="IDS", help="ranks that are drained")
    jobs = parser.add_argument_group("jobs")
    jobs.add_argument(
        "--jobs",
        metavar="SHAPE",
        nargs="+",
        action="extend",
        default=[],
        help="jobs to allocate first, as RFC 46 shapes; @FILE has a shape on each line",
    )
    jobs.add_argument(
        "--locality", choices=LOCALITIES, default="preferred", help="as of treepool alloc"
    )
    jobs.add_argument(
        "--policy", choices=sorted(POLICIES), default="best-fit", help="as of treepool alloc"
    )
    form = parser.add_argument_group("output")
    form.add_argument("--ranks", metavar="IDS", help="just these nodes, a box for each of them")
    form.add_argument("--svg", metavar="FILE", help='write a picture instead; "-" for stdout')
    form.add_argument("--html", metavar="FILE", help='write a page instead; "-" for stdout')
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    _check_streams(arguments)
    if arguments.instance:
        return _show_instance(arguments)
    pool = cluster.pool(arguments)
    down = _ids(pool, "--down", arguments.down)
    drained = _ids(pool, "--drained", arguments.drained)
    pool.mark_down(idset.encode(down | drained))
    unfold = _ids(pool, "--ranks", arguments.ranks)
    jobs, refusals = _allocated(pool, cluster.shapes(arguments.jobs))
    picture = Picture.of(pool, jobs, drained=drained)
    _write(arguments, picture, rows(picture, list(idset.iterate(unfold))))
    for number, answer in refusals[:MAX_REFUSALS]:
        _complain(number, answer)
    if len(refusals) > MAX_REFUSALS:
        complain("treepool show", f"{len(refusals) - MAX_REFUSALS} more jobs were refused")
    return NO if refusals else DONE


def _show_instance(arguments: Namespace) -> int:
    if arguments.jobs or arguments.down or arguments.drained:
        raise Stop("--jobs, --down and --drained: with --instance they are those there are", USAGE)
    live = instance.look()
    unfold = _ids(live.pool, "--ranks", arguments.ranks)
    holding = [running.job for running in instance.running(live) if running.job.parts]
    picture = Picture.of(live.pool, holding, drained=live.drained)
    _write(arguments, picture, rows(picture, list(idset.iterate(unfold))))
    return DONE


def _check_streams(arguments: Namespace) -> None:
    read = [arguments.R_file, *(word[1:] for word in arguments.jobs if word.startswith("@"))]
    if read.count("-") > 1:
        raise Stop("only one of the files can be stdin", USAGE)
    if arguments.svg == "-" and arguments.html == "-":
        raise Stop("only one of the pictures can go to stdout", USAGE)


def _ids(pool: Pool, option: str, text: Optional[str]) -> int:
    """The ranks given by an option (bitmask); they must be in the pool."""
    if text is None:
        return 0
    try:
        ids = idset.decode(text)
    except InvalidIdset as e:
        raise Stop(f"argument {option}: {e}", USAGE) from None
    known = pool.ranks
    if not ids & known or ids & ~known:
        missing = idset.encode(ids & ~known) or "none"
        raise Stop(f"argument {option}: ranks not in the cluster: {missing:.60}", USAGE)
    return ids


def _allocated(pool: Pool, shapes: Iterator[str]) -> tuple[list[Job], list[tuple[int, Answer]]]:
    """The jobs that got something, and the numbers and answers of those that did not."""
    jobs: list[Job] = []
    refusals: list[tuple[int, Answer]] = []
    for number, shape in enumerate(shapes, 1):
        if number > MAX_JOBS:
            raise Stop(f"more than {MAX_JOBS} jobs", USAGE)
        answer = allocate_shape(pool, number, shape)
        if isinstance(answer.outcome, Refusal):
            refusals.append((number, answer))
        else:
            jobs.append(Job.of(str(number), shape, answer.outcome))
    return jobs, refusals


def _write(arguments: Namespace, picture: Picture, shown: Rows) -> None:
    if arguments.svg is not None:
        from treepool.view.svg import svg

        _write_file(arguments.svg, svg(picture, shown))
    if arguments.html is not None:
        from treepool.view.html import html

        _write_file(arguments.html, html(picture, shown))
    if arguments.svg is None and arguments.html is None:
        from treepool.view.text import text

        encoding = getattr(sys.stdout, "encoding", None) or ""
        ascii_only = not encoding.lower().startswith("utf")
        draw(lambda width: text(picture, shown, width, ascii_only))


def _write_file(path: str, content: str) -> None:
    if path == "-":
        out(content.rstrip("\n"))
        return
    try:
        Path(path).write_text(content, encoding="utf-8")
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or e
        raise Stop(f"{path}: cannot be written: {reason}", USAGE) from None


def _complain(number: int, answer: Answer) -> None:
    assert isinstance(answer.outcome, Refusal)
    shape = answer.shape if len(answer.shape) <= 60 else answer.shape[:57] + "..."
    refusal = answer.outcome
    complain("treepool show", f"job {number}: {shape}: {refusal.kind}: {refusal.message}")
