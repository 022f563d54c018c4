"""Print what jobs would get on an idle cluster, or of what is free in the running instance.
Each job gets some of what the jobs before it left free. A job is a shape (RFC 46).
A job that is refused does not stop those after it.

examples:
  treepool alloc --cluster a 'slot=2/[core=8;gpu=1]' 'slot=1/socket{x}'
      two slots of 8 cores and a near GPU, then a whole socket, on example cluster a
  flux treepool alloc 'slot=2/node{x}'
      of what is free in the instance
  treepool alloc --cluster b --json 'slot=2-9/node{x}'
      as many whole nodes as are free, two to nine, for a program to read
  treepool alloc -R R.json --locality required 'slot=1/[core=8;gpu=1]'
      on your own cluster; "flux kvs get resource.R" prints its R
  treepool alloc --snapshot now.json 'slot=2/node{x}'
      on what was free when a snapshot was taken
  flux treepool alloc --requires 'host:n[4-7]' 'slot=1/numa{x}'
      on one of these nodes
  flux submit --dry-run -N2 --within=switch ./solve | treepool alloc -R R.json --jobspec -
      with the line that you would submit
  treepool alloc --cluster a --print-R 'slot=1/node{x}' > job.json
      the R of the job, scheduling key included
  flux job info $JOBID R | treepool alloc -R - --subinstance
      the R with which a Flux instance inside this job starts

exit status:
  0 all were allocated; 1 not all, or R is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import json
from argparse import SUPPRESS, ArgumentParser, Namespace
from contextlib import suppress
from typing import Any, Iterator

import attrs

from treepool.cli import cluster, files, instance, requested
from treepool.cli.answers import (
    Answer,
    Refusal,
    allocate,
    allocate_jobspec,
    spec_of,
    tried,
)
from treepool.cli.requested import Asked
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, out, out_json, width
from treepool.errors import InvalidShape
from treepool.rfc.shape import parse_shape


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool alloc [-R FILE | --cluster a|b | --snapshot FILE] [options] SHAPE..."
    parser.add_argument("words", metavar="SHAPE", nargs="*", help="a job, as an RFC 46 shape")
    parser.add_argument(
        "--jobspec",
        metavar="FILE",
        action="append",
        default=[],
        help="a job as a jobspec, allocated after all shapes; repeatable",
    )
    cluster.add_where(parser)
    requested.add(parser)
    cluster.add_placement(parser, cluster.PLACEMENT)
    form = parser.add_argument_group("output").add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print a line of JSON for each job: shape, R_lite and nslots, or shape, error and "
        "message",
    )
    form.add_argument(
        "--print-R",
        dest="full_R",
        action="store_true",
        help="print the whole R of the last job that was allocated; it starts now if the job "
        "or R has an end, and ends with the first of them",
    )
    form.add_argument("--R", dest="old_R", action="store_true", help=SUPPRESS)  # its name in 0.1
    form.add_argument(
        "--subinstance",
        action="store_true",
        help="print the R of a Flux instance inside that job (RFC 49): ranks count from zero; "
        "without a SHAPE, inside the job whose R is given by -R",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.old_R:
        if any(map(files.is_file, arguments.words)):
            name = next(filter(files.is_file, arguments.words))
            raise Stop(f"argument --R: did you mean '-R {name}'? (--print-R prints an R)", USAGE)
        complain("treepool alloc", "--R is called --print-R now, and goes in the next version")
        arguments.full_R = True
    files.check_stdin(arguments.R_file, arguments.snapshot, *arguments.jobspec)
    if not arguments.words and not arguments.jobspec:
        if arguments.subinstance and arguments.R_file is not None:
            return _print_subinstance(files.read_R(arguments.R_file), arguments.R_file)
        raise Stop("a SHAPE or --jobspec FILE is needed (see treepool alloc --help)", USAGE)
    asked = requested.read(arguments, _vertices(arguments.words))
    jobspecs = [(files.shown(path), _jobspec(path)) for path in arguments.jobspec]
    asked = _in_queue(arguments, asked)
    R_only = arguments.full_R or arguments.subinstance
    found: list[Answer] = []
    for answer in _answers(arguments, asked, jobspecs, R_only or arguments.json):
        found.append(answer)
        if arguments.json:
            out_json({**cluster.named(arguments), "shape": answer.shape, **answer.facts})
        elif R_only and answer.refused:
            complain("treepool alloc", answer.refused)
    if R_only:
        given = [one.outcome for one in found if not isinstance(one.outcome, Refusal)]
        for last in given[-1:]:
            if arguments.subinstance:
                _print_subinstance(last.to_dict(), "the job")
            else:
                out(json.dumps(last.to_dict()))
    elif not arguments.json:
        out(*cluster.example(arguments))
        _print_table(found)
    return NO if any(answer.refused for answer in found) else DONE


def _print_subinstance(R: Any, name: str) -> int:
    """Print the R of an instance inside the job of *R*, which is in the file *name*."""
    from treepool.rfc.rset import subinstance

    with files.naming(name):
        out(json.dumps(subinstance(R)))
    return DONE


def _vertices(shapes: list[str]) -> list[Any]:
    """What *shapes* ask for, as far as they are shapes."""
    found: list[Any] = []
    for shape in shapes:
        with suppress(InvalidShape):
            found += parse_shape(shape)
    return found


def _in_queue(arguments: Namespace, asked: Asked) -> Asked:
    """*asked* with what its queue requires; raises Stop if there are no such queues."""
    if asked.queue is None:
        return asked
    if not cluster.is_instance(arguments):
        raise Stop("argument --queue: only a running instance has queues", USAGE)
    with instance.asking():
        from treepool.flux import client

        required = client.required_by(asked.queue)
    if not required:
        return asked
    given = [] if asked.constraints is None else [asked.constraints]
    return attrs.evolve(asked, constraints={"and": [{"properties": required}, *given]})


def _jobspec(path: str) -> Any:
    """The JSON value of a jobspec file; invalid JSON is refused in the same way as a bad shape."""
    try:
        return files.read_json(path)
    except Stop as e:
        if e.status == USAGE:
            raise
        return Refusal("invalid", str(e))


def _answers(
    arguments: Namespace, asked: Asked, jobspecs: list[tuple[str, Any]], with_R: bool
) -> Iterator[Answer]:
    """What each job gets of the cluster; of an instance as it is, its scheduler tells it."""
    shapes: list[str] = arguments.words
    how = asked.constraints, asked.options, asked.duration or 0.0
    specs = [spec_of(shape, *how) for shape in shapes]
    # A jobspec may have more than a question may: the environment of a job.
    if cluster.is_instance(arguments) and not jobspecs and not cluster.chosen(arguments):
        with instance.asking():
            told = tried(shapes, specs, with_R)
        if told is not None:
            yield from told
            return
    pool = cluster.pool(arguments)
    for jobid, (shape, spec) in enumerate(zip(shapes, specs), 1):
        yield allocate(pool, jobid, shape, spec)
    for jobid, (name, spec) in enumerate(jobspecs, len(shapes) + 1):
        if isinstance(spec, Refusal):
            yield Answer(name, spec)
        else:
            yield allocate_jobspec(pool, jobid, asked.into(spec), name)


def _print_table(found: list[Answer]) -> None:
    from treepool.cli.alloctable import table

    out(*table(found, width()))
    for number, answer in enumerate(found, 1):
        if isinstance(answer.outcome, Refusal) and answer.outcome.caret:
            shape, caret = answer.outcome.caret.split("\n")
            out("", f"{number}: {shape}", f"{' ' * len(f'{number}: ')}{caret}")
