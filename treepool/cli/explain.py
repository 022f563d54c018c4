"""Say what a job gets and why, why it waits, or why it can never run.
Say where each slot is, and what the nodes that were passed over lack. If the job has
to wait, name the jobs that must end first. If it can never run, say why and list
similar shapes that can.

examples:
  treepool explain --cluster a 'slot=1/numa/core=20'
      what would fit instead, on an idle example cluster?
  flux treepool explain f2k4x
      where does this job of the running instance stand, and what happens next?
  flux treepool explain 'slot=4/[core=8;gpu=1]' --duration 2h --within switch
      what would this get now, or when?
  flux submit --dry-run -n4 -c8 -g1 ./train | flux treepool explain --jobspec -
      the same for the line that you would submit
  treepool explain -R R.json 'slot=1/socket{x}' --jobs 'slot=30/[core=8;gpu=1]' 'slot=1/node{x}'
      on your own, where two jobs run
  treepool explain --snapshot now.json job7
      why did this job wait when the snapshot was taken?
  treepool explain --cluster a --json 'slot=1/numa/core=20' | jq -r '.nearest[].shape'
      for a program to read

exit status:
  0 the job gets resources; 1 it does not, or a file is not valid; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Mapping, Optional

import attrs

from treepool.cli import cluster, explainlive, files, instance, requested
from treepool.cli.answers import Refusal, mistaken, shape_of
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, draw, out, out_json
from treepool.errors import InvalidInput, InvalidShape, Reason
from treepool.flux import joboptions
from treepool.rfc import idset, jobspec
from treepool.rfc.quote import did_you_mean
from treepool.rfc.shape import parse_shape

if TYPE_CHECKING:  # with the engine, which the instance has
    from treepool.placement.pool import Pool
    from treepool.view.explain import Explanation
    from treepool.view.jobs import Job
    from treepool.view.snapshot import Snapshot

#: Why a job of a snapshot waits for which there is room.
_TURN = Reason("turn", "its turn has not come: treepool replay --snapshot tells when it starts")


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool explain JOBID\n"
        "       treepool explain [-R FILE | --cluster a|b] SHAPE [--jobs SHAPE...] [options]\n"
        "       treepool explain --snapshot FILE JOB|SHAPE [options]\n"
        "       treepool explain --jobspec FILE [options]"
    )
    parser.add_argument(
        "word", metavar="JOBID|SHAPE", nargs="?", help="a job, or what one would ask for (RFC 46)"
    )
    parser.add_argument("--jobspec", metavar="FILE", help='a job as a jobspec, "-" for stdin')
    where = cluster.add_where(parser)
    where.add_argument("--job", metavar="ID", help=SUPPRESS)  # its name in 0.1
    cluster.add_jobs(where)
    requested.add(parser)
    cluster.add_placement(parser, cluster.PLACEMENT)
    parser.add_argument("--json", action="store_true", help="print a line of JSON")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="also tell the rules and the order in which nodes were looked at",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.job is not None:
        if arguments.word is not None:
            raise Stop(f"--job {arguments.job:.40}: tells the shape and all else", USAGE)
        hint = f"--job {arguments.job:.40}: write explain {arguments.job:.40}"
        complain("treepool explain", f"{hint}; --job goes in the next version")
        arguments.word = arguments.job
    if (arguments.word is None) == (arguments.jobspec is None):
        one = "is needed (see treepool explain --help)" if arguments.word is None else "is enough"
        raise Stop(f"a JOBID, a SHAPE or --jobspec FILE {one}", USAGE)
    cluster.check_stdin(arguments, [*arguments.jobs, f"@{arguments.jobspec}"])
    is_instance = cluster.is_instance(arguments)
    given = [f"--{name}" for name in ("jobs", "down") if getattr(arguments, name)]
    given += [
        f"--{name.replace('_', '-')}"
        for name in cluster.PLACEMENT
        if getattr(arguments, name) is not None
    ]
    if is_instance and given:
        raise Stop(f"{given[0]}: the instance has its own: name another cluster by -R", USAGE)
    taken = None if is_instance else cluster.snapshot(arguments)
    if arguments.word is not None and _is_job(arguments, taken):
        if beside := [*given, *requested.are_given(arguments)]:
            raise Stop(f"{beside[0]}: job {arguments.word:.40} says all that it asks for", USAGE)
        return (
            explainlive.explain_job(arguments) if taken is None else _explain_job(arguments, taken)
        )
    name, spec = _spec(arguments)
    asked = requested.read(arguments, spec["resources"])
    if is_instance:
        return explainlive.explain_request(arguments, name, asked.into(spec))
    if asked.queue is not None:
        raise Stop("argument --queue: only a running instance has queues", USAGE)
    spec = asked.into(spec)
    system = spec["attributes"]["system"]
    how = system.get("constraints"), system.get("treepool"), system.get("duration", 0.0)
    try:
        told = _told(arguments, taken, name, spec["resources"], *how)
    except InvalidInput as e:
        problem = joboptions.named(str(e))
        word = arguments.word or ""
        raise Stop(f"{_place(arguments)}: {problem}{word and _meant(word)}") from None
    return _print(told, arguments)


def _is_job(arguments: Namespace, taken: Optional[Snapshot]) -> bool:
    """Whether the argument is a job of the instance or the snapshot; otherwise it is a shape."""
    if taken is None:
        if not cluster.is_instance(arguments):
            if arguments.job is not None:
                raise Stop("--job: only a running instance and a snapshot have jobs", USAGE)
            return False
        return arguments.job is not None or instance.is_job(arguments.word)
    names = {job.job for job in taken.running} | {job.traced.name for job in taken.pending}
    # No shape is without a slot: a word that is no job either is the misspelled name of one.
    return arguments.job is not None or arguments.word in names or "slot" not in arguments.word


def _place(arguments: Namespace) -> str:
    return "argument SHAPE" if arguments.jobspec is None else files.shown(arguments.jobspec)


def _spec(arguments: Namespace) -> tuple[str, dict[str, Any]]:
    """The jobspec that the command line gives, and what it is called; raises Stop."""
    if arguments.jobspec is None:
        try:
            resources = parse_shape(arguments.word)
        except InvalidShape as e:
            raise Stop(f"argument SHAPE: {e.line}{_meant(arguments.word)}") from None
        meant, kinds = instance.meant_job(arguments.word), joboptions.vertices(resources)
        if meant and not any(vertex["type"] == "slot" for vertex in kinds):
            raise Stop(f"argument SHAPE: there is no slot in it{meant}")
        return arguments.word, {"resources": resources, "attributes": {"system": {}}}
    spec = files.read_R(arguments.jobspec, "a jobspec")
    with files.naming(arguments.jobspec):
        jobspec.read(spec)
    return shape_of(spec) or files.shown(arguments.jobspec), spec


def _meant(shape: str) -> str:
    """What to say of *shape*, which is none, if it is something else; otherwise ""."""
    return mistaken(shape) or instance.meant_job(shape)


def _explain_job(arguments: Namespace, taken: Snapshot) -> int:
    """Explain a job of the snapshot; returns the exit status."""
    from treepool.view.explain import WAITS

    name, path = arguments.word, files.shown(arguments.snapshot)
    if any(job.job == name for job in taken.running):
        raise Stop(f"{path}: job {name:.40}: has its resources")
    jobs = {job.traced.name: job.traced for job in taken.pending}
    if name not in jobs:
        raise Stop(f"{path}: there is no job {name:.40}{did_you_mean(name, list(jobs))}")
    job = jobs[name]
    with files.naming(arguments.snapshot):
        try:
            resources = parse_shape(job.shape)
        except InvalidShape as e:
            raise Stop(f"{path}: {job.place}/shape: {e.line}") from None
        shown = f"{name}: {job.shape}"
        told = _told(arguments, taken, shown, resources, job.constraint, job.options)
    if told.is_allocated:
        told = attrs.evolve(told, verdict=WAITS, reason=_TURN)
    return _print(told, arguments)


def _told(
    arguments: Namespace,
    taken: Optional[Snapshot],
    name: str,
    resources: list[Any],
    constraints: Optional[Mapping[str, Any]],
    options: Optional[Mapping[str, Any]] = None,
    duration: float = 0.0,
) -> Explanation:
    """What *resources* get, on the cluster as *taken* or as the options say, and why."""
    from treepool.view.explain import explain

    pool = cluster.pool(arguments, taken)
    jobs, drained = _allocated(pool, arguments.jobs), 0
    if taken is not None:
        jobs, drained = {**taken.jobs, **jobs}, taken.drained
    pool.mark_down(idset.encode(cluster.nodes(pool, "--down", arguments.down)))
    return explain(pool, name, resources, constraints, jobs, options, drained, duration=duration)


def _print(told: Explanation, arguments: Namespace) -> int:
    """Print *told*; returns the exit status."""
    if arguments.json:
        from treepool.view.explainfacts import facts

        out_json({**cluster.named(arguments), **facts(told)})
    else:
        from treepool.view.explaintext import text

        out(*cluster.example(arguments))
        draw(lambda width: text(told, width, arguments.verbose))
    return DONE if told.is_allocated else NO


def _allocated(pool: Pool, words: list[str]) -> dict[int, Job]:
    """The jobs in *words*, each of which must get an allocation, by number."""
    from treepool.view.jobs import Job

    jobs = {}
    for number, answer in cluster.run_jobs(pool, words):
        if isinstance(answer.outcome, Refusal):
            raise Stop(f"job {number}: {answer.refused}")
        jobs[number] = Job.of(str(number), "", answer.outcome)
    return jobs
