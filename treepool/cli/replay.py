"""Run a trace of jobs under the policies of sched-treepool, without Flux.
It runs as fast as possible. Print how much of the cluster was in use, how long jobs
waited, how many slots had their cores and GPUs in one domain, and how many free GPUs
were stranded: the jobs to come cannot use them. Each --compare adds a policy, each -R
a cluster, each --add the cluster with more nodes, so that you can choose one.

A trace has a JSON object on each line. "submit" and "duration", in seconds, and
"shape" are required. "limit" (the time limit; by default the duration), "id",
"queue", "account", "priority", "constraint" (RFC 31), "locality" and "options" (job
options, as in a jobspec) are optional. The scheduler knows the limit of a job, not
its duration. A table that begins with the names of its columns, as sacct prints it,
is a trace, too, and so is a file in Standard Workload Format (SWF), whose header says
how many nodes there are. --print shows which jobs it has. Files may be compressed by
gzip.

With --snapshot, the jobs of a running instance go on, as if none came after them:
each job ends at its time limit, because nobody knows better. Options that --compare
does not give are those of the instance. A job without a limit never ends; no start
is told for a job that waits for one.

examples:
  treepool replay trace.jsonl -R R.json
      as the scheduler would do without options: easy, packing
  sacct -aX --parsable2 -o JobID,Submit,Elapsed,Timelimit,AllocTRES,Account > jobs.csv
  treepool replay jobs.csv -R R.json --compare policy=easy --by account --by size
      what Slurm ran; also how long the jobs of each account and size waited
  treepool replay theta.swf.gz --nodes 4360
      jobs of the Parallel Workloads Archive, on nodes without topology
  treepool replay jobs.csv -R R.json --add '10*gpu' --add '20*gpu'
      the same jobs, and with ten or twenty more nodes like those with property gpu
  treepool replay trace.jsonl --compare policy=easy --compare policy=easy,node-policy=worst-fit
      two node policies side by side
  treepool replay --synthetic 1000 --compare policy=fifo --compare policy=easy --svg out.svg
      jobs made up for the cluster; a plot of use, stranded GPUs and queue over time
  treepool replay trace.jsonl -R R.json --compare policy=easy --compare policy=easy,fabric=off
      with the fabric and without: how many switches jobs span
  treepool replay --synthetic 1000 --seed 2 --print > trace.jsonl
      such jobs as a trace

  treepool replay --snapshot now.json --compare policy=fifo --compare policy=easy
      when would the jobs that wait in a snapshot start?

  {"id": "a1", "submit": 0, "duration": 600, "limit": 900, "shape": "slot=2/[core=8;gpu=1]"}
      a line of a trace

exit status:
  0 done; 1 some jobs could never run, or a file is not valid; 2 usage, or no such file;
  130 interrupted: Ctrl-C prints the numbers up to then, a second one nothing
"""

from __future__ import annotations

import signal
import threading
import time
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import attrs

from treepool.cli import cluster, files, plots, tracefile
from treepool.cli.progressbar import progress
from treepool.cli.replayarguments import (
    FORMS,
    added_in,
    file_named,
    load_in,
    preemptible_in,
    rules_in,
)
from treepool.cli.screen import (
    DONE,
    INTERRUPTED,
    NO,
    USAGE,
    Stop,
    complain,
    out,
    out_json,
    shortened,
    width,
)
from treepool.cli.values import whole_number
from treepool.errors import InvalidOption
from treepool.placement.allocation import Allocation
from treepool.rfc.findings import shown
from treepool.rfc.rset import ResourceSet
from treepool.view import trace
from treepool.view.added import added
from treepool.view.history import Start, day, picture_of
from treepool.view.picture import Picture
from treepool.view.replay import Outcome, Progress, Rules, continued, replay
from treepool.view.snapshot import Snapshot
from treepool.view.started import GROUPS, Started, waits_by
from treepool.view.synthetic import synthetic
from treepool.view.trace import Machine, TraceJob
from treepool.view.words import count

#: Most refused jobs that are listed by name.
MAX_REFUSALS = 10

#: Most replays in one comparison.
MAX_REPLAYS = 12

#: Most lines that ``--starts`` prints.
MAX_STARTS = 1 << 20


@attrs.frozen
class Replayed:
    """A replay: its outcome, how many seconds it took, and what ``--by`` and ``--starts`` show."""

    outcome: Outcome
    seconds: float
    started: list[Started]


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool replay [-R FILE... | --nodes N | --cluster a|b] TRACE|--synthetic N [options]\n"
        "       treepool replay --snapshot FILE [options]"
    )
    parser.add_argument("trace", metavar="TRACE", nargs="?", help='a trace, "-" for stdin')
    clusters = cluster.add_where(parser, several=True)
    clusters.add_argument(
        "--add",
        metavar="N*NODE[,...]",
        type=added_in,
        action="append",
        default=[],
        help="also the cluster with N more nodes like NODE, a rank, host or property; repeatable",
    )
    tracefile.add_options(parser)
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
    policies = parser.add_argument_group("policies")
    policies.add_argument(
        "--preemptible-queue",
        metavar="NAME[=TIME]",
        type=preemptible_in,
        action="append",
        default=[],
        help="jobs of this queue may be ended for others once they have run for TIME, such as 10m "
        "(default: at once); repeatable",
    )
    policies.add_argument(
        "--compare",
        metavar="NAME=VALUE[,...]",
        type=rules_in,
        action="append",
        default=[],
        help=f"options of sched-treepool: {FORMS}; fabric=off, to ignore what is above the "
        "nodes; preemption=off, to end no job for another; repeatable (default: policy=easy)",
    )
    form = parser.add_argument_group("output")
    form.add_argument(
        "--print", action="store_true", help="print the jobs, a line of JSON each, and stop"
    )
    form.add_argument(
        "--by",
        choices=tuple(GROUPS),
        action="append",
        default=[],
        help="also how long jobs waited by account, queue, size (cores) or gpus; repeatable",
    )
    form.add_argument(
        "--json", action="store_true", help="a line of JSON for each cluster and set of options"
    )
    form.add_argument(
        "--starts", action="store_true", help="with --json: a line for each job that started, too"
    )
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
    sources = arguments.trace, arguments.synthetic, arguments.snapshot
    if sources.count(None) != 2:
        needed = "one of TRACE, --synthetic N and --snapshot FILE is needed"
        raise Stop(f"{needed} (see treepool replay --help)", USAGE)
    files.check_stdin(arguments.trace, *arguments.R_file or ())
    if arguments.starts and not arguments.json:
        raise Stop("argument --starts: only with --json", USAGE)
    taken = cluster.snapshot(arguments)
    past = None
    if arguments.trace is not None:
        past = tracefile.read("replay", arguments.trace, arguments)
    clusters: dict[str, ResourceSet] = {}
    if past is None or not arguments.print:
        clusters = _clusters(arguments, taken, past.machine if past else None)
    jobs = past.jobs if past else continued(taken) if taken else _made_up(arguments, clusters)
    preemptible = dict(arguments.preemptible_queue)
    unknown = preemptible.keys() - {job.queue for job in jobs}
    if unknown:
        name = min(unknown)
        raise Stop(f"argument --preemptible-queue: no job is of queue {shown(name)}", USAGE)
    if preemptible:
        jobs = [
            attrs.evolve(job, preemptible_after=preemptible.get(job.queue, job.preemptible_after))
            for job in jobs
        ]
    if arguments.print:
        for line in trace.write(jobs):
            out(line)
        return DONE
    rules = arguments.compare or [Rules("as it was") if taken else rules_in("policy=easy")]
    number = len(clusters) * len(rules)
    if number > MAX_REPLAYS:
        raise Stop(f"more than {MAX_REPLAYS} clusters and sets of options in one table", USAGE)
    if arguments.starts and len(jobs) * number > MAX_STARTS:
        raise Stop(f"argument --starts: more than {MAX_STARTS} lines: compare fewer", USAGE)
    if arguments.svg is not None:
        plots.check("--svg", arguments.svg)
    if arguments.html is not None:
        files.check_writable("--html", arguments.html)
    starts: list[Start] = []
    with files.naming(arguments.trace or arguments.snapshot or "synthetic"), _stopping() as stopped:
        found = _replays(arguments, clusters, jobs, rules, starts, taken, stopped)
    if arguments.html is not None:
        picture = picture_of(next(iter(clusters.values())), starts)
        _write_page(arguments.html, picture, [one.outcome for one in found])
    _write(arguments, found)
    if taken is not None:
        _tell_missing(taken, jobs)
    status = _refusals([one.outcome for one in found])
    if not stopped():
        return status
    done = f"{len(found) - 1} of {count(number, 'replay')} complete"
    complain("treepool replay", f"interrupted: the numbers are those up to then; {done}")
    return INTERRUPTED


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C, given once, stop the replay with what is known; says whether it was given."""
    given: list[int] = []

    def stop(number: int, frame: object) -> None:
        given.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # Elsewhere someone has decided what an interrupt does, and threads cannot.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, stop)
        try:
            yield lambda: bool(given)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield lambda: False


def _clusters(
    arguments: Namespace, taken: Optional[Snapshot], machine: Optional[Machine]
) -> dict[str, ResourceSet]:
    """The clusters to compare, by name: those of ``-R``, or one and what ``--add`` makes of it.

    *machine* is what the trace says of its own, if it may.
    """
    if taken is not None:
        found = {Path(arguments.snapshot).name: taken.resource_set}
    elif arguments.nodes is not None or (
        machine is not None and arguments.R_file is None and arguments.cluster is None
    ):
        found = _flat_nodes(arguments, machine).resource_sets()
    else:
        found = cluster.resource_sets(arguments)
    if arguments.add and len(found) > 1:
        raise Stop("argument --add: goes with one cluster", USAGE)
    ((name, alone),) = list(found.items())[:1]
    for nodes in arguments.add:
        larger, label = alone, name
        for number, like in nodes:
            with files.naming("argument --add"):
                larger = added(larger, number, like)
            label += f"+{number}*{like}"
        if label in found:
            raise Stop("argument --add: the same nodes are given twice", USAGE)
        found[label] = larger
    return found


def _flat_nodes(arguments: Namespace, machine: Optional[Machine]) -> cluster.FlatNodes:
    """The nodes of ``--nodes``, as far as it says, otherwise those of *machine*."""
    given: Optional[cluster.FlatNodes] = arguments.nodes
    if given is not None and given.cores is not None:
        return given
    if machine is None:
        form = f"{given.number if given else 'N'},cores=C is needed"
        raise Stop(f"argument --nodes: {form}: the jobs do not say how many a node has", USAGE)
    number = given.number if given else machine.nodes or machine.processors
    if not number:
        needed = "its header does not say how many nodes there are: --nodes N is needed"
        raise Stop(f"{files.shown(arguments.trace)}: {needed}", USAGE)
    cores = machine.cores(number)
    said = "as the header says" if machine.processors else "because the header says nothing"
    told = f"{count(number, 'node')}, each with {count(cores, 'core')}, {said}"
    complain("treepool replay", f"{files.shown(arguments.trace)}: {told}")
    return cluster.FlatNodes(number, cores, given.gpus if given else 0)


def _made_up(arguments: Namespace, clusters: dict[str, ResourceSet]) -> list[TraceJob]:
    resource_set = next(iter(clusters.values()))
    if not resource_set.ranks:
        raise Stop("--synthetic: the cluster has no nodes")
    return synthetic(resource_set, arguments.synthetic, arguments.seed, arguments.load)


def _replays(
    arguments: Namespace,
    clusters: dict[str, ResourceSet],
    jobs: list[TraceJob],
    rules: list[Rules],
    starts: list[Start],
    taken: Optional[Snapshot],
    stopped: Callable[[], bool],
) -> list[Replayed]:
    """The replay of *jobs* on each of the *clusters* under each of the *rules*, until *stopped*.

    *starts* receives the jobs that start in the first one, if a page shows them.
    """
    found: list[Replayed] = []
    runs = [(name, resource_set, each) for name, resource_set in clusters.items() for each in rules]
    for name, resource_set, each in runs:
        started: list[Started] = []

        def tell(done: Progress, name: str = each.name) -> None:
            doing = f"{name}: {done.over:,} of {count(done.jobs, 'job')}, {day(done.time)}"
            progress((len(found) + done.share) / len(runs), doing)

        def watch(
            job: TraceJob, start: float, allocation: Allocation, to: list[Started] = started
        ) -> None:
            if job.place and (arguments.by or arguments.starts):  # not what ran in a snapshot
                to.append(Started.of(job, start, allocation))
            if arguments.html is not None and not found:
                starts.append((job, start, allocation))

        began = time.perf_counter()
        try:
            outcome = replay(resource_set, jobs, each, tell, watch, taken, stopped)
        except InvalidOption as e:
            raise Stop(f"argument --compare: {e}") from None
        outcome = attrs.evolve(outcome, cluster=name)
        found.append(Replayed(outcome, time.perf_counter() - began, started))
        if stopped():
            break
    return found


def _tell_missing(taken: Snapshot, jobs: list[TraceJob]) -> None:
    """Say which jobs that wait in the snapshot are not in the replay."""
    if taken.unreadable:
        number = count(taken.unreadable, "job")
        complain("treepool replay", f"not replayed: {number}, whose requests are not in the file")
    stopped = len(taken.pending) - len(jobs)
    if stopped:
        complain("treepool replay", f"not replayed: {count(stopped, 'job')} of stopped queues")


def _write_page(path: Path, picture: Picture, outcomes: list[Outcome]) -> None:
    from treepool.cli import replayplot
    from treepool.view.html import html
    from treepool.view.plot import Plot
    from treepool.view.rows import rows

    page = html(picture, rows(picture), Plot.of(outcomes), replayplot.text(outcomes))
    files.write_text(str(path), page)


def _write(arguments: Namespace, found: list[Replayed]) -> None:
    outcomes = [one.outcome for one in found]
    if arguments.svg is not None:
        from treepool.cli import replayplot

        with files.using(arguments.svg, "written"):
            replayplot.write(outcomes, arguments.svg)
    if arguments.json:
        for one in found:
            named = {"cluster": one.outcome.cluster, "rules": one.outcome.rules.name}
            for job in one.started if arguments.starts else ():
                out_json({**named, **job.to_dict()})
            by = {kind: waits_by(kind, one.started) for kind in arguments.by}
            out_json({**named, **_line(one), "by": by})
    else:
        from treepool.cli.replaytable import starts_table, table, waits_table

        out(*cluster.example(arguments))
        out(*table(outcomes, width()), *starts_table(outcomes, width()))
        for kind in arguments.by:
            groups = [waits_by(kind, one.started) for one in found]
            out("", *waits_table(kind, outcomes, groups, width()))


def _line(one: Replayed) -> dict[str, Any]:
    """The JSON object for a replay: times in seconds, shares from 0 to 1."""
    outcome = one.outcome
    starts = {"starts": outcome.starts} if outcome.starts else {}
    return {
        "jobs": outcome.jobs,
        "refused": outcome.nrefused,
        "preempted": outcome.preempted,
        "lost": outcome.lost,
        **({} if outcome.unstarted is None else {"partial": True, "unstarted": outcome.unstarted}),
        "span": outcome.span,
        "last_start": outcome.last_start,
        "cores": outcome.cores,
        "gpus": outcome.gpus,
        "cores_used": outcome.cores_used,
        "gpus_used": outcome.gpus_used,
        "gpus_stranded": outcome.gpus_stranded,
        "wait": outcome.wait,
        "slots": outcome.slots,
        "slots_local": outcome.local,
        "spread": {
            s.locality: {"jobs": s.jobs, "mean": s.mean, "p95": s.p95} for s in outcome.spreads
        },
        "replayed_in": one.seconds,
        **starts,
        "curve": outcome.curve,
    }


def _refusals(outcomes: list[Outcome]) -> int:
    """Name each job that could never run once; returns the exit status."""
    seen: dict[str, None] = {}
    several = len({outcome.cluster for outcome in outcomes}) > 1
    for outcome in outcomes:
        where = f" on {outcome.cluster}" if several else ""
        for job, reason in outcome.refused:
            seen[f"{job.place}: {shortened(job.shape)}: infeasible{where}: {reason}"] = None
    for line in list(seen)[:MAX_REFUSALS]:
        complain("treepool replay", line)
    left = max((outcome.nrefused for outcome in outcomes), default=0) - MAX_REFUSALS
    if left > 0:
        complain("treepool replay", f"{left} more jobs could never run")
    return NO if seen else DONE
