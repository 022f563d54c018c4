"""The options of ``treepool show`` that choose nodes: by rank, host and domain above them."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Iterable, Optional

from treepool.cli import cluster
from treepool.cli.screen import USAGE, Stop
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean

#: Most domains that an error names.
_MOST_NAMED = 4


def define(parser: Any) -> None:
    """Add the options that choose nodes to *parser*."""
    group = parser.add_argument_group("nodes (those that fit all of these)")
    group.add_argument("--ranks", metavar="IDS", help="just these nodes, a box for each of them")
    group.add_argument("--hosts", metavar="HOSTS", help="likewise, by name: cray500, cray[5-9,12]")
    group.add_argument("--domain", metavar="NAME", help="likewise, all in a switch, rack, ...")


def chosen(arguments: Namespace, pool: Pool) -> Optional[Iterable[int]]:
    """The ranks of the nodes asked for, None if all are; raises Stop."""
    found = None
    if arguments.ranks is not None:
        found = cluster.ranks(pool, "--ranks", arguments.ranks)
    if arguments.hosts is not None:
        found = cluster.hosts(pool, "--hosts", arguments.hosts) & (-1 if found is None else found)
    if arguments.domain is not None:
        found = _domain(pool, arguments.domain) & (-1 if found is None else found)
    return None if found is None else idset.iterate(found)


def _domain(pool: Pool, text: str) -> int:
    """The ranks (bitmask) in the domain above the nodes called *text*: "x1" or "switch x1"."""
    fabric = pool.inventory.fabric
    names: dict[str, set[int]] = {}
    for number in range(1, len(fabric) if fabric is not None else 0):
        assert fabric is not None
        if fabric.locality[number]:
            for name in (fabric.name[number] or "", fabric.shown(number)):
                names.setdefault(name, set()).add(number)
    found = sorted(names.get(text, set()))
    if fabric is None or len(found) != 1 or not text:
        why = f"is no domain{did_you_mean(text, [name for name in names if name])}"
        if found and fabric is not None:
            each = []
            for number in found[:_MOST_NAMED]:
                ranks = idset.encode_ids(sorted(fabric.ranks_in(number)))
                each.append(f"{fabric.shown(number)} with ranks {ranks:.40}")
            each += [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
            why = f"is the name of {len(found)} domains: {', '.join(each)}"
        raise Stop(f"argument --domain: {shown(text)} {why}", USAGE)
    return idset.from_ids(fabric.ranks_in(found.pop()))
