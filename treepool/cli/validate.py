"""Check a file: its form, and its meaning, such as ids that two sockets share.
Print each problem as "JSON POINTER: what is wrong", or, if there is none, one line
on what the file has. A line that starts with "warning:" names something that is
legal but probably not meant.

The file is an R (RFC 20) with or without a scheduling key, a scheduling key alone
(RFC 49), a jobspec or the resources of one (RFC 14), test vectors, a snapshot, or a
configuration of Flux in TOML: a file, several, or a directory of them, which Flux puts
together. Its keys, or the end of its name, tell which,
unless --as does.

examples:
  treepool validate R.json
  flux kvs get resource.R | treepool validate -
  jq .scheduling R.json | treepool validate --as key -
  treepool validate /etc/flux/system/conf.d
      before a restart: with a mistake in it, Flux does not start
  flux R parse-config /etc/flux/system/conf.d | treepool validate -
      the R and the key of the next start
  treepool validate --json R.json | jq -r '.problems[].pointer'

exit status:
  0 nothing is wrong, though there may be warnings; 1 something is; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from itertools import islice
from os.path import isdir
from typing import Any, Callable, Mapping, Sequence

import attrs

from treepool.cli import configuration, files, vectors
from treepool.cli.screen import DONE, NO, USAGE, Stop, out, out_json
from treepool.errors import InvalidInput, Problem
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NodeType
from treepool.placement.request import job_options
from treepool.rfc import idset, jobcheck, jobspec, keycheck
from treepool.rfc.findings import MAX_PROBLEMS, Findings, limited
from treepool.rfc.quote import amount
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import FLUXION, SchedulingKey
from treepool.rfc.shape import format_shape
from treepool.rfc.topo import read
from treepool.view import snapshot

#: Most kinds of nodes that are described; the others are only counted.
MAX_KINDS = 4


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
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="+",
        help='JSON or TOML, "-" for stdin; or a configuration in a directory or in several files',
    )
    parser.add_argument(
        "--as", dest="kind", choices=tuple(_KINDS), help="what the file is (default: its keys tell)"
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    file = " ".join(arguments.file)
    name = files.shown(file)
    whole = len(arguments.file) > 1 or isdir(file)
    is_toml = whole or file.endswith(configuration.SUFFIX)
    kind_name = arguments.kind or ("configuration" if is_toml else None)
    parts: dict[str, Any] = {}
    if whole:
        if kind_name != "configuration":
            raise Stop(f"argument --as: {kind_name}: is one file", USAGE)
        parts = configuration.read_all(arguments.file)
        document = configuration.merged(parts.values())
    elif kind_name == "configuration":
        document = configuration.read(file)
    else:
        document = files.read_json(file)
        kind_name = kind_name or _recognise(document, name)
    kind = _KINDS[kind_name]
    found = [Problem("", "is a JSON string")] if isinstance(document, str) else []
    found = found or [configuration.placed(one, parts) for one in kind.problems(document)]
    warnings = [] if found else kind.warnings(document)
    summary = None if found else kind.summary(document)
    if arguments.json:
        fact = {"file": file, "kind": kind_name, "valid": not found, "summary": summary}
        out_json({**fact, "problems": found, "warnings": warnings})
        return NO if found else DONE
    for problem in found:
        out(str(problem))
    for warning in warnings:
        out(f"warning: {warning}")
    if summary is not None:
        out(f"{name}: valid {kind.name}: {summary}")
    return NO if found else DONE


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
            found.append(Problem.of(e))
    return found


def _R_warnings(document: Any) -> list[str]:
    return keycheck.warnings(ResourceSet.read(document), strays=True)


def _jobspec_problems(document: Any) -> list[Problem]:
    """The problems of a jobspec, and of treepool's own options in it."""
    found = jobcheck.problems(document)
    options = jobspec.read_into(Findings(), document).options
    for name, value in islice(options.items(), MAX_PROBLEMS):
        try:
            job_options.check(name, value)
        except InvalidInput as e:
            found.append(Problem.of(e))
    return limited(found)


# -- what a valid file has, in one line


def _of_R(R: Mapping[str, Any]) -> str:
    """The contents of a valid *R*, as treepool reads it."""
    inventory = Inventory.of(ResourceSet.read(R))
    kinds = [(idset.size(ranks), _of_type(t)) for t, ranks in inventory.node_types.items()]
    text = amount(idset.size(inventory.ranks), "node")
    text += f": {_kinds(kinds)}" if kinds else ""
    if inventory.key is None:
        scheduling = inventory.resource_set.scheduling
        if scheduling is None:
            return f"{text}; no scheduling key"
        return f"{text}; the scheduling key is for {scheduling.get('writer', FLUXION)}, not us"
    return text


def _of_key(key: Mapping[str, Any]) -> str:
    """The contents of the topos in a valid scheduling *key*."""
    entries = SchedulingKey.read(key).children
    if not entries:
        return "all nodes are flat"
    kinds = [(idset.size(entry.ranks), _of_topo(entry.topo)) for entry in entries]
    return f"{amount(sum(size for size, _ in kinds), 'rank')}: {_kinds(kinds)}"


def _of_resources(resources: list[dict[str, Any]]) -> str:
    """A valid resource list as an equivalent shape."""
    try:
        return format_shape(resources)
    except InvalidInput:  # such as a slot without a label, which occurs in flux-core's tests
        return "no shape can say what it asks for"


def _kinds(kinds: Sequence[tuple[int, str]]) -> str:
    shown = [f"{count} x [{text}]" for count, text in kinds[:MAX_KINDS]]
    if len(kinds) > MAX_KINDS:
        shown.append(f"{len(kinds) - MAX_KINDS} more kinds")
    return ", ".join(shown)


def _of_type(node_type: NodeType) -> str:
    root = node_type.root
    localities = Counter(domain.name for domain in root.walk() if domain is not root)
    return _described(root.cores, root.gpus, localities)


def _of_topo(topo: Mapping[str, Any]) -> str:
    tree = read(topo)
    return _described(tree.cores, tree.gpus, Counter(inner.locality for inner in tree.walk()))


def _described(cores: int, gpus: int, localities: Mapping[str, int]) -> str:
    parts = [amount(idset.size(cores), "core")]
    if gpus:
        parts.append(amount(idset.size(gpus), "GPU"))
    parts += [f"{count} {name}" for name, count in localities.items()]
    return ", ".join(parts)


def _of_vectors(document: Any) -> str:
    return f"{len(document['vectors'])} steps on {_of_R(document['cluster']['R'])}"


#: The kinds of file by their names for ``--as``.
_KINDS = {
    "R": _Kind("R", _R_problems, _of_R, _R_warnings),
    "key": _Kind("scheduling key", SchedulingKey.problems, _of_key, keycheck.key_warnings),
    "vectors": _Kind("test vectors", vectors.problems, _of_vectors),
    "jobspec": _Kind(
        "jobspec", _jobspec_problems, lambda d: _of_resources(d["resources"]), jobcheck.warnings
    ),
    "resources": _Kind("resource list", jobspec.resource_problems, _of_resources),
    "snapshot": _Kind("snapshot", snapshot.problems, lambda d: snapshot.read(d).summary),
    "configuration": _Kind(
        "configuration", configuration.problems, configuration.summary, configuration.warnings
    ),
}

#: A key that only one kind of file has, and that kind.
_SIGNS = {
    "execution": "R",
    "writer": "key",
    "children": "key",
    "vectors": "vectors",
    "cluster": "vectors",
    "resources": "jobspec",
    "pending": "snapshot",
}
