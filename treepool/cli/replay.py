"""Run a trace of jobs under the policies of sched-treepool, without Flux and as fast
as possible. Print how much of the cluster was in use, how long jobs waited, how
many slots had their cores and GPUs in one domain, and how fragmented the rest
was. Each --compare adds a policy, so that you can choose one.

A trace has a JSON object on each line. "submit" and "duration", in seconds, and
"shape" are required. "limit" (the time limit; by default the duration), "id",
"constraint" (RFC 31), "locality" and "options" (job options, as in a jobspec) are
optional. The scheduler knows the limit of a job, not its duration.

examples:
  treepool replay trace.jsonl -R R.json
      as the scheduler would do without options: fifo, packing
  treepool replay trace.jsonl --compare policy=easy --compare policy=easy,node-policy=min-span
      two node policies side by side
  treepool replay --synthetic 1000 --compare policy=fifo --compare policy=easy --svg out.svg
      jobs made up for the cluster; a plot of use, fragments and queue over time
  treepool replay trace.jsonl -R R.json --compare policy=easy --compare policy=easy,fabric=off
      with the fabric and without: how many switches jobs span
  treepool replay --synthetic 1000 --seed 2 --print > trace.jsonl
      such jobs as a trace

  {"id": "a1", "submit": 0, "duration": 600, "limit": 900, "shape": "slot=2/[core=8;gpu=1]"}
      a line of a trace

exit status:
  0 done; 1 some jobs could never run, or a file is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from treepool.cli import cluster, files, plots
from treepool.cli.progressbar import progress
from treepool.cli.replayarguments import FORMS, file_named, load_in, rules_in, whole_number
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, out, out_json, shortened, width
from treepool.errors import InvalidOption
from treepool.rfc.rset import ResourceSet
from treepool.view import trace
from treepool.view.history import Start, picture_of
from treepool.view.picture import Picture
from treepool.view.replay import Outcome, Rules, replay
from treepool.view.synthetic import synthetic
from treepool.view.trace import TraceJob

#: Most refused jobs that are listed by name.
MAX_REFUSALS = 10

#: Most sets of rules in one comparison.
MAX_RULES = 12


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool replay [-R FILE | --cluster a|b] TRACE|--synthetic N [options]"
    parser.add_argument("trace", metavar="TRACE", nargs="?", help='a trace, "-" for stdin')
    cluster.add_where(parser)
    made = parser.add_argument_group("synthetic traces")
    made.add_argument(
        "--synthetic",
        metavar="N",
        type=whole_number(1, trace.MAX_JOBS),
        help="N jobs made up instead",
    )
    made.add_argument(
        "--seed",
        metavar="N",
        type=whole_number(0, 1 << 62),
        default=1,
        help="the same jobs for the same number (default: 1)",
    )
    made.add_argument(
        "--load",
        metavar="X",
        type=load_in,
        default=0.9,
        help="the share of the cores or GPUs they ask for over the time in which they come "
        "(default: 0.9)",
    )
    made.add_argument("--print", action="store_true", help="print these jobs and do nothing else")
    parser.add_argument_group("policies").add_argument(
        "--compare",
        metavar="NAME=VALUE[,...]",
        type=rules_in,
        action="append",
        default=[],
        help=f"options of sched-treepool: {FORMS}; and fabric=off, to ignore what is above the "
        "nodes; repeatable (default: policy=fifo)",
    )
    form = parser.add_argument_group("output")
    form.add_argument("--json", action="store_true", help="a line of JSON for each set of options")
    form.add_argument(
        "--svg", metavar="FILE", type=file_named, help="write a plot, too (needs treepool[plots])"
    )
    form.add_argument(
        "--html",
        metavar="FILE",
        type=file_named,
        help="write a page, too: the plot, and a slider over the jobs under the first set of "
        "options",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if (arguments.trace is None) == (arguments.synthetic is None):
        raise Stop("one of TRACE and --synthetic N is needed (see treepool replay --help)", USAGE)
    files.check_stdin(arguments.trace, arguments.R_file)
    if arguments.print and arguments.synthetic is None:
        raise Stop("argument --print: prints synthetic jobs only", USAGE)
    if len(arguments.compare) > MAX_RULES:
        raise Stop(f"argument --compare: more than {MAX_RULES} times", USAGE)
    resource_set = cluster.resource_set(arguments)
    jobs = _jobs(arguments, resource_set)
    if arguments.print:
        for line in trace.write(jobs):
            out(line)
        return DONE
    if arguments.svg is not None:
        plots.check("--svg", arguments.svg)
    if arguments.html is not None:
        files.check_writable("--html", arguments.html)
    rules = arguments.compare or [rules_in("policy=fifo")]
    starts: list[Start] = []
    with files.naming(arguments.trace or "synthetic"):
        found = _outcomes(resource_set, jobs, rules, starts)
    if arguments.html is not None:
        _write_page(arguments.html, picture_of(resource_set, starts), found)
    _write(arguments, found)
    return _refusals([outcome for outcome, _ in found])


def _jobs(arguments: Namespace, resource_set: ResourceSet) -> list[TraceJob]:
    if arguments.trace is None:
        if not resource_set.ranks:
            raise Stop("--synthetic: the cluster has no nodes")
        return synthetic(resource_set, arguments.synthetic, arguments.seed, arguments.load)
    text = files.read_text(arguments.trace)
    with files.naming(arguments.trace):
        return trace.read(text)


def _outcomes(
    resource_set: ResourceSet, jobs: list[TraceJob], rules: list[Rules], starts: list[Start]
) -> list[tuple[Outcome, float]]:
    """The outcome of each of the *rules*, and how many seconds its replay took.

    *starts* receives the jobs that start under the first rules.
    """
    found = []
    for i, each in enumerate(rules):

        def tell(done: float, i: int = i, doing: str = each.name) -> None:
            progress((i + done) / len(rules), doing)

        began = time.perf_counter()
        watch = None if i else (lambda *start: starts.append(start))
        try:
            outcome = replay(resource_set, jobs, each, tell, watch)
        except InvalidOption as e:
            raise Stop(f"argument --compare: {e}") from None
        found.append((outcome, time.perf_counter() - began))
    return found


def _write_page(path: Path, picture: Picture, found: list[tuple[Outcome, float]]) -> None:
    from treepool.cli import replayplot
    from treepool.view.html import html
    from treepool.view.plot import Plot
    from treepool.view.rows import rows

    outcomes = [outcome for outcome, _ in found]
    page = html(picture, rows(picture), Plot.of(outcomes), replayplot.text(outcomes))
    with files.writing(path):
        path.write_text(page, encoding="utf-8")


def _write(arguments: Namespace, found: list[tuple[Outcome, float]]) -> None:
    outcomes = [outcome for outcome, _ in found]
    if arguments.svg is not None:
        from treepool.cli import replayplot

        with files.writing(arguments.svg):
            replayplot.write(outcomes, arguments.svg)
    if arguments.json:
        for outcome, seconds in found:
            out_json(_line(outcome, seconds))
    else:
        from treepool.cli.replaytable import table

        out("\n".join(table(found, width())))


def _line(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """The JSON object for *outcome*: times in seconds, shares from 0 to 1."""
    return {
        "rules": outcome.rules.name,
        "jobs": outcome.jobs,
        "refused": outcome.nrefused,
        "span": outcome.span,
        "cores": outcome.cores,
        "gpus": outcome.gpus,
        "cores_used": outcome.cores_used,
        "gpus_used": outcome.gpus_used,
        "cores_fragmented": outcome.cores_fragmented,
        "gpus_fragmented": outcome.gpus_fragmented,
        "wait": {
            "mean": outcome.wait_mean,
            "median": outcome.wait_median,
            "p95": outcome.wait_p95,
            "max": outcome.wait_max,
        },
        "slots": outcome.slots,
        "slots_local": outcome.local,
        "spread": {
            s.locality: {"jobs": s.jobs, "mean": s.mean, "p95": s.p95} for s in outcome.spreads
        },
        "replayed_in": seconds,
        "curve": outcome.curve,
    }


def _refusals(outcomes: list[Outcome]) -> int:
    """Name each job that could never run once; returns the exit status."""
    seen: dict[tuple[str, str], TraceJob] = {}
    for outcome in outcomes:
        for job, reason in outcome.refused:
            seen.setdefault((job.place, reason), job)
    for (place, reason), job in list(seen.items())[:MAX_REFUSALS]:
        complain("treepool replay", f"{place}: {shortened(job.shape)}: infeasible: {reason}")
    left = max((outcome.nrefused for outcome in outcomes), default=0) - MAX_REFUSALS
    if left > 0:
        complain("treepool replay", f"{left} more jobs could never run")
    return NO if seen else DONE
