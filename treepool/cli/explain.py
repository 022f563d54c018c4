"""Say what a job gets and why, why it waits, or why it can never run.
Say where each slot is, and what the nodes that were passed over lack. If the job has
to wait, name the jobs that must end first. If it can never run, say why and list
similar shapes that can.

examples:
  treepool explain 'slot=2/[core=8;gpu=1]'
      on an idle example cluster
  treepool explain -R R.json 'slot=1/socket{x}' --jobs 'slot=30/[core=8;gpu=1]' 'slot=1/node{x}'
      on your own, where two jobs run
  treepool explain 'slot=1/numa/core=20'
      what would fit instead?
  flux treepool explain --job f2k4x
      where does this job of the running instance stand, and what happens next?
  flux treepool explain --instance 'slot=4/[core=8;gpu=1]' --duration 2h
      what would this get now, or when?
  treepool explain --snapshot now.json --job job7
      why did this job wait when the snapshot was taken?
  treepool explain --json 'slot=1/numa/core=20' | jq -r '.nearest[].shape'
      for a program to read

exit status:
  0 the job gets resources; 1 it does not, or a file is not valid; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Mapping, Optional

import attrs

from treepool.cli import cluster, explainlive, files, instance
from treepool.cli.answers import Refusal, mistaken
from treepool.cli.screen import DONE, NO, USAGE, Stop, draw, out_json
from treepool.errors import InvalidInput, InvalidShape, Reason
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.quote import did_you_mean
from treepool.rfc.shape import parse_shape
from treepool.view.explain import ALLOCATED, WAITS, Explanation, explain
from treepool.view.explainfacts import facts
from treepool.view.model import Job

if TYPE_CHECKING:
    from treepool.view.snapshot import Snapshot

#: What ``--job`` knows of a job of the instance, beside the options of the pool.
_OF_JOB = ("shape", "locality", "constraint", "queue", "duration")

#: Why a job of a snapshot waits for which there is room.
_TURN = Reason("turn", "its turn has not come: treepool replay --snapshot tells when it starts")


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool explain [-R FILE | --cluster a|b | --snapshot FILE] SHAPE [--jobs SHAPE...] "
        "[options]\n"
        "       treepool explain --snapshot FILE --job JOB\n"
        "       treepool explain --instance SHAPE [--queue NAME] [--duration FSD] [options]\n"
        "       treepool explain --job ID"
    )
    parser.add_argument("shape", metavar="SHAPE", nargs="?", help="a job, as an RFC 46 shape")
    where = cluster.add_where(parser, instance=True)
    where.add_argument(
        "--job", metavar="ID", help="explain this job of the running instance, or of the snapshot"
    )
    cluster.add_jobs(where)
    how = cluster.add_placement(parser)
    how.add_argument("--constraint", metavar="JSON", help="which nodes it may use (RFC 31)")
    how.add_argument("--queue", metavar="NAME", help="with --instance: the queue of the job")
    how.add_argument("--duration", metavar="FSD", help="with --instance: its time limit")
    parser.add_argument("--json", action="store_true", help="print a line of JSON")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="also tell the rules and the order in which nodes were looked at",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    given = arguments.jobs or arguments.R_file or arguments.down
    if arguments.job is not None and arguments.snapshot is not None:
        return _explain_job(arguments)
    if arguments.job is not None:
        if given or arguments.instance or _are_given(arguments, *_OF_JOB, *cluster.PLACEMENT):
            raise Stop("--job: the instance tells the shape and all else", USAGE)
        return explainlive.explain_job(arguments)
    if arguments.shape is None:
        raise Stop("a SHAPE or --job ID is needed (see treepool explain --help)", USAGE)
    cluster.check_stdin(arguments, arguments.jobs)
    constraints = cluster.constraints(arguments.constraint)
    try:
        resources = parse_shape(arguments.shape)
    except InvalidShape as e:
        raise Stop(f"argument SHAPE: {e.line}{_meant(arguments.shape)}") from None
    if arguments.instance:
        if given or _are_given(arguments, *cluster.PLACEMENT):
            names = ", ".join(f"--{name}" for name in ("jobs", "down", *cluster.PLACEMENT))
            names = names.replace("_", "-")
            raise Stop(f"{names}: not with --instance, which has its own", USAGE)
        if meant := instance.meant_job(arguments.shape):
            raise Stop(f"argument SHAPE: there is no slot in it{meant}")
        return explainlive.explain_shape(arguments, resources, constraints)
    if arguments.queue is not None or arguments.duration is not None:
        raise Stop("--queue and --duration need --instance", USAGE)
    try:
        told = _told(arguments, cluster.snapshot(arguments), resources, constraints)
    except InvalidInput as e:
        raise Stop(f"argument SHAPE: {e}{_meant(arguments.shape)}") from None
    return _print(told, arguments)


def _are_given(arguments: Namespace, *names: str) -> bool:
    return any(getattr(arguments, name) is not None for name in names)


def _meant(shape: str) -> str:
    """What to say of *shape*, which is none, if it is something else; otherwise ""."""
    return mistaken(shape) or instance.meant_job(shape)


def _explain_job(arguments: Namespace) -> int:
    """Explain the job ``--job`` of the snapshot; returns the exit status."""
    if _are_given(arguments, "shape", "constraint", "queue", "duration"):
        raise Stop("--job: the snapshot tells the shape, constraint, queue and duration", USAGE)
    cluster.check_stdin(arguments, arguments.jobs)
    taken = cluster.snapshot(arguments)
    assert taken is not None
    name, path = arguments.job, files.shown(arguments.snapshot)
    if any(job.job == name for job in taken.running):
        raise Stop(f"{path}: job {name:.40}: has its resources")
    jobs = {job.traced.name: job.traced for job in taken.pending}
    if name not in jobs:
        raise Stop(f"{path}: there is no job {name:.40}{did_you_mean(name, list(jobs))}")
    job = jobs[name]
    arguments.shape = f"{name}: {job.shape}"
    with files.naming(arguments.snapshot):
        try:
            resources = parse_shape(job.shape)
        except InvalidShape as e:
            raise Stop(f"{path}: {job.place}/shape: {e.line}") from None
        told = _told(arguments, taken, resources, job.constraint, job.options)
    if told.verdict == ALLOCATED:
        told = attrs.evolve(told, verdict=WAITS, reason=_TURN)
    return _print(told, arguments)


def _told(
    arguments: Namespace,
    taken: Optional[Snapshot],
    resources: list[Any],
    constraints: Optional[Mapping[str, Any]],
    options: Optional[Mapping[str, Any]] = None,
) -> Explanation:
    """What *resources* get, on the cluster as *taken* or as the options say, and why."""
    pool = cluster.pool(arguments, taken)
    jobs, drained = _allocated(pool, arguments.jobs), 0
    if taken is not None:
        jobs, drained = {**taken.jobs, **jobs}, taken.drained
    pool.mark_down(idset.encode(cluster.ranks(pool, "--down", arguments.down)))
    return explain(pool, arguments.shape, resources, constraints, jobs, options, drained)


def _print(told: Explanation, arguments: Namespace) -> int:
    """Print *told*; returns the exit status."""
    if arguments.json:
        out_json(facts(told))
    else:
        from treepool.view.explaintext import text

        draw(lambda width: text(told, width, arguments.verbose))
    return DONE if told.verdict == ALLOCATED else NO


def _allocated(pool: Pool, words: list[str]) -> dict[int, Job]:
    """The jobs in *words*, each of which must get an allocation, by number."""
    jobs = {}
    for number, answer in cluster.run_jobs(pool, words):
        if isinstance(answer.outcome, Refusal):
            raise Stop(f"job {number}: {answer.refused}")
        jobs[number] = Job.of(str(number), "", answer.outcome)
    return jobs
