"""Print what jobs would get on an idle cluster, or on what is free in a snapshot.
Each job gets some of what the jobs before it left free. A job is a shape (RFC 46).
A job that is refused does not stop those after it.

examples:
  treepool alloc 'slot=2/[core=8;gpu=1]' 'slot=1/socket{x}'
      two slots of 8 cores and a near GPU, then a whole socket, on cluster a
  treepool alloc --cluster b --json 'slot=2-9/node{x}'
      as many whole nodes as are free, two to nine, for a program to read
  treepool alloc -R R.json --locality required 'slot=1/[core=8;gpu=1]'
      on your own cluster; "flux kvs get resource.R" prints its R
  treepool alloc --snapshot now.json 'slot=2/node{x}'
      on what was free when a snapshot was taken
  treepool alloc --constraint '{"ranks": ["4-7"]}' 'slot=1/numa{x}'
      on one of the nodes that satisfy a constraint (RFC 31)
  treepool alloc --option level=socket --option same=driver 'node=2/slot/core=40'
      as with "flux submit -S treepool.level=socket -S treepool.same=driver"
  treepool alloc --R 'slot=1/node{x}' > job.json
      the R of the job, scheduling key included

exit status:
  0 all were allocated; 1 not all, or R is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Any, Iterator, Optional

from treepool.cli import cluster, files
from treepool.cli.answers import Answer, Refusal, allocate_jobspec, allocate_shape
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, out, out_json, width
from treepool.errors import InvalidInput
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import document
from treepool.rfc.findings import shown


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
    how = cluster.add_placement(parser)
    how.add_argument("--constraint", metavar="JSON", help="which nodes the shapes may use (RFC 31)")
    how.add_argument(
        "--option",
        "--wish",  # its name in 0.1
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the jobs that are shapes, as in attributes.system.treepool of a "
        "jobspec; repeatable",
    )
    form = parser.add_argument_group("output").add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print a line of JSON for each job: shape, R_lite and nslots, or shape, error and "
        "message",
    )
    form.add_argument(
        "--R",
        dest="full_R",
        action="store_true",
        help="print the whole R of the last job that was allocated; it starts now if the job "
        "or R has an end, and ends with the first of them",
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if not arguments.words and not arguments.jobspec:
        raise Stop("a SHAPE or --jobspec FILE is needed (see treepool alloc --help)", USAGE)
    files.check_stdin(arguments.R_file, arguments.snapshot, *arguments.jobspec)
    constraints = cluster.constraints(arguments.constraint)
    options = _options(arguments.option)
    jobspecs = [(files.shown(path), _jobspec(path)) for path in arguments.jobspec]
    found: list[Answer] = []
    for answer in _answers(
        cluster.pool(arguments), arguments.words, constraints, options, jobspecs
    ):
        found.append(answer)
        if arguments.json:
            out_json({"shape": answer.shape, **answer.facts})
        elif arguments.full_R and answer.refused:
            complain("treepool alloc", answer.refused)
    if arguments.full_R:
        given = [one.outcome for one in found if isinstance(one.outcome, Allocation)]
        for last in given[-1:]:
            out(json.dumps(last.to_dict()))
    elif not arguments.json:
        _print_table(found)
    return NO if any(answer.refused for answer in found) else DONE


def _jobspec(path: str) -> Any:
    """The JSON value of a jobspec file; invalid JSON is refused in the same way as a bad shape."""
    try:
        return files.read_json(path)
    except Stop as e:
        if e.status == USAGE:
            raise
        return Refusal("invalid", str(e))


def _options(given: list[str]) -> dict[str, Any]:
    """The job options given by ``--option``; a value that is not valid JSON is text."""
    options: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not name or not equals:
            raise Stop(f"argument --option: {shown(one)} is not NAME=VALUE", USAGE)
        if name in options:
            raise Stop(f"argument --option: {shown(name)} is given twice", USAGE)
        try:
            options[name] = document.load(text, InvalidInput, "argument --option")
        except InvalidInput:
            options[name] = text
    return options


def _answers(
    pool: Pool,
    shapes: list[str],
    constraints: Optional[dict[str, Any]],
    options: dict[str, Any],
    jobspecs: list[tuple[str, Any]],
) -> Iterator[Answer]:
    for jobid, shape in enumerate(shapes, 1):
        yield allocate_shape(pool, jobid, shape, constraints, options)
    for jobid, (name, spec) in enumerate(jobspecs, len(shapes) + 1):
        if isinstance(spec, Refusal):
            yield Answer(name, spec)
        else:
            yield allocate_jobspec(pool, jobid, spec, name)


def _print_table(found: list[Answer]) -> None:
    from treepool.cli.alloctable import table

    out(*table(found, width()))
    for number, answer in enumerate(found, 1):
        if isinstance(answer.outcome, Refusal) and answer.outcome.caret:
            shape, caret = answer.outcome.caret.split("\n")
            out("", f"{number}: {shape}", f"{' ' * len(f'{number}: ')}{caret}")
