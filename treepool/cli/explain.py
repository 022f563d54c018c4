"""Say why a job gets what it gets: which nodes were looked at, in which order,
what those passed over lack, which domains the slots sit in, and what an idle
cluster would have given. Of a job that has to wait: for which jobs. Of one
that can never run: why, and which shapes near it could.

examples:
  treepool explain 'slot=2/[core=8;gpu=1]'
      on an idle example cluster
  treepool explain -R R.json 'slot=1/socket{x}' --jobs 'slot=30/[core=8;gpu=1]' 'slot=1/node{x}'
      on your own, where two jobs run
  treepool explain 'slot=1/numa/core=20'
      what would fit instead?
  flux treepool explain --job f2k4x
      what does this job of the running instance wait for?

exit status:
  0 it gets something; 1 it does not, or a file is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from treepool.cli import cluster, instance
from treepool.cli.answers import Refusal
from treepool.cli.screen import DONE, NO, USAGE, Stop, draw, out
from treepool.errors import InvalidInput, InvalidShape
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.shape import format_shape, parse_shape
from treepool.view import windows
from treepool.view.explain import ALLOCATED, Explanation, explain


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool explain [-R FILE | --cluster a|b] SHAPE [--jobs SHAPE...] [options]\n"
        "       treepool explain --job ID"
    )
    parser.add_argument("shape", metavar="SHAPE", nargs="?", help="a job, as an RFC 46 shape")
    where = cluster.add_where(parser)
    where.add_argument(
        "--job", metavar="ID", help="instead: a job of the running Flux instance, as things are now"
    )
    cluster.add_jobs(where)
    how = cluster.add_placement(parser)
    how.add_argument("--constraint", metavar="JSON", help="which nodes it may use (RFC 31)")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.job is not None:
        return _explain_job(arguments)
    if arguments.shape is None:
        raise Stop("a SHAPE or --job ID is needed (see treepool explain --help)", USAGE)
    cluster.check_stdin(arguments)
    constraints = cluster.constraints(arguments.constraint)
    try:
        resources = parse_shape(arguments.shape)
    except InvalidShape as e:
        raise Stop(f"argument SHAPE: {e.line}") from None
    pool = cluster.pool(arguments)
    jobs = _allocated(pool, arguments.jobs)
    pool.mark_down(idset.encode(cluster.ranks(pool, "--down", arguments.down)))
    try:
        told = explain(pool, arguments.shape, resources, constraints, jobs)
    except InvalidInput as e:
        raise Stop(f"argument SHAPE: {e}") from None
    return _print(told)


def _print(told: Explanation) -> int:
    from treepool.view.explaintext import text

    draw(lambda width: text(told, width))
    return DONE if told.verdict == ALLOCATED else NO


def _explain_job(arguments: Namespace) -> int:
    """Explain what a job of the running instance would get or waits for, if it held nothing."""
    if arguments.shape is not None or arguments.jobs or arguments.R_file or arguments.down:
        raise Stop("--job: the instance tells the shape, R and the other jobs", USAGE)
    jobid = instance.job_named(arguments.job)
    live = instance.look()
    spec = instance.jobspec_of(jobid, arguments.job)
    system = (spec.get("attributes") or {}).get("system") or {}
    held = {}
    for job, running in zip(live.jobs, instance.running(live)):
        if live.pool.has_job(job.id) and job.held is not None and job.id != jobid:
            mine = running.job
            held[job.id] = Allocation(live.pool.inventory, mine.parts, mine.nslots or 1)
    if live.pool.has_job(jobid):
        live.pool.free(jobid)
    resources = spec.get("resources") or []
    try:
        told = explain(
            live.pool,
            f"{arguments.job}: {format_shape(resources)}",
            resources,
            system.get("constraints"),
            held,
            system.get("treepool"),
            {job.id: job.name for job in live.jobs},
        )
    except InvalidInput as e:
        raise Stop(f"job {arguments.job:.40}: {e}") from None
    reasons = {job.id: str(job.annotations.get("reason_pending", "")) for job in live.jobs}
    entry = windows.behind(reasons.get(jobid, ""), live.windows)
    if entry is not None:
        out(f"it may not reach into {windows.line(entry, time.time())}")
    return _print(told)


def _allocated(pool: Pool, words: list[str]) -> dict[int, Allocation]:
    """The allocations of the jobs in *words*; each of them must get one."""
    jobs = {}
    for number, answer in cluster.run_jobs(pool, words):
        if isinstance(answer.outcome, Refusal):
            raise Stop(f"job {number}: {answer.refused}")
        jobs[number] = answer.outcome
    return jobs
