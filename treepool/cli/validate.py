"""Check a file against its RFC: the form, and the meaning, such as ids that two
sockets share. Prints every problem as "JSON POINTER: what
is wrong", or one line on what a good file has. Lines that start with "warning:"
say what is legal but probably not meant. The file is an R (RFC 20), with
or without a scheduling key (RFC 49); a scheduling key alone; a jobspec (RFC 14)
or the resource list of one; or test vectors. Its keys tell which.

examples:
  treepool validate R.json
  flux kvs get resource.R | treepool validate -
  jq .scheduling R.json | treepool validate --as key -

exit status:
  0 nothing is wrong, though there may be warnings; 1 something is; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, Callable

import attrs

from treepool.cli import files, vectors
from treepool.cli.screen import DONE, NO, Stop, out, printable
from treepool.cli.summary import of_key, of_R, of_resources
from treepool.errors import InvalidInput, Problem
from treepool.placement.nodes.inventory import Inventory
from treepool.rfc import jobcheck, jobspec, keycheck
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey


@attrs.frozen
class _Kind:
    """A kind of file: its name for people, its problems, and the summary of a valid file.

    ``warnings`` also applies to a file without problems.
    """

    name: str
    problems: Callable[[Any], list[Problem]]
    summary: Callable[[Any], str]
    warnings: Callable[[Any], list[str]] = lambda document: []


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("file", metavar="FILE", help='JSON, "-" for stdin')
    parser.add_argument(
        "--as", dest="kind", choices=tuple(_KINDS), help="what the file is (default: see above)"
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    document = files.read_json(arguments.file)
    name = files.shown(arguments.file)
    kind = _KINDS[arguments.kind or _recognise(document, name)]
    found = [Problem("", "is a JSON string")] if isinstance(document, str) else []
    found = found or kind.problems(document)
    for problem in found:
        out(printable(str(problem)))
    if found:
        return NO
    for warning in kind.warnings(document):
        out(printable(f"warning: {warning}"))
    out(printable(f"{name}: valid {kind.name}: {kind.summary(document)}"))
    return DONE


def _recognise(document: Any, name: str) -> str:
    """The name in _KINDS of the kind of file that *document* looks like."""
    if isinstance(document, list):
        return "resources"
    keys = document.keys() if isinstance(document, dict) else ()
    for key, kind in _SIGNS.items():
        if key in keys:
            return kind
    raise Stop(f"{name}: what is this? No key is one of {', '.join(_SIGNS)} (use --as)")


def _R_problems(document: Any) -> list[Problem]:
    found = ResourceSet.problems(document)
    if not found:
        try:
            Inventory.of(ResourceSet.read(document))
        except InvalidInput as e:
            found.append(Problem("/scheduling", str(e)))
    return found


def _R_warnings(document: Any) -> list[str]:
    return keycheck.warnings(ResourceSet.read(document))


def _vectors_summary(document: Any) -> str:
    return f"{len(document['vectors'])} steps on {of_R(document['cluster']['R'])}"


_KINDS = {
    "R": _Kind("R", _R_problems, of_R, _R_warnings),
    "key": _Kind("scheduling key", SchedulingKey.problems, of_key, keycheck.key_warnings),
    "vectors": _Kind("test vectors", vectors.problems, _vectors_summary),
    "jobspec": _Kind(
        "jobspec", jobcheck.problems, lambda d: of_resources(d["resources"]), jobcheck.warnings
    ),
    "resources": _Kind("resource list", jobspec.resource_problems, of_resources),
}

#: A key that only one kind of file has, and that kind.
_SIGNS = {
    "execution": "R",
    "writer": "key",
    "children": "key",
    "vectors": "vectors",
    "cluster": "vectors",
    "resources": "jobspec",
}
