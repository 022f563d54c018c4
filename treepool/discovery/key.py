"""An R with its RFC 49 key, from topos, and warnings, such as cores not in R, or an odd host."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.discovery import properties
from treepool.discovery.levels import NodeTopo
from treepool.errors import InvalidHardware
from treepool.rfc import idset, scheduling
from treepool.rfc.links import Links, digest
from treepool.rfc.quote import amount
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries
from treepool.rfc.scheduling import WRITER, AllocatedIds, KeyEntry, SchedulingKey
from treepool.rfc.topo import read

_NUMBER_AT_END = re.compile(r"\d+$", re.ASCII)


@attrs.frozen
class Nodes:
    """Nodes that share one description: their ranks (bitmask) and the topo found."""

    ranks: int
    node: NodeTopo


@attrs.frozen
class Encoded:
    """An R with its key, the kinds of node in it, and warnings and counts of one line each.

    There is one kind for each distinct topo. ``kinds`` are ordered by their lowest ranks.
    """

    R: ResourceSet
    kinds: tuple[Nodes, ...]
    warnings: tuple[str, ...]
    #: What was understood of each file that was read, and what was left out.
    read: tuple[str, ...] = ()


def encode_new(
    nodes: Sequence[Nodes], hosts: Sequence[str], with_properties: bool = False
) -> Encoded:
    """An R of all cores and GPUs of *nodes*, whose ranks are disjoint; *hosts* in rank order."""
    entries = []
    for described in nodes:
        machine = described.node.machine
        cores = machine.cores & ~machine.system
        entries.append(RLiteEntry(described.ranks, cores, machine.gpu_ids))
    R = ResourceSet(merge_entries(entries), tuple(hosts), scheduling={"writer": WRITER})
    return encode_into(R, nodes, with_properties)


def encode_into(R: ResourceSet, nodes: Sequence[Nodes], with_properties: bool = False) -> Encoded:
    """*R* with the key of *nodes*; ranks that are not in R are left out.

    Ranks of R that *nodes* do not describe stay flat, or as the key in R describes them. Raises
    InvalidHardware if R has the key of another scheduler, which would be lost.
    """
    old = R.scheduling
    if old is not None and not scheduling.is_treepool(old):
        raise InvalidHardware(
            "R has a scheduling key of another scheduler, which would be lost: take it out first"
        )
    here = [attrs.evolve(n, ranks=n.ranks & R.mask) for n in nodes if n.ranks & R.mask]
    kinds = _merged(here)
    described = idset.union(kind.ranks for kind in kinds)
    known = R.key()  # in the ranks of R, as the children will be
    key: dict[str, Any] = known.to_dict() if known is not None else {"writer": WRITER}
    children = list(_entries(here, known))
    children += known.trim(R.mask & ~described).children if known is not None else ()
    children.sort(key=lambda entry: idset.lowest(entry.ranks))
    key["children"] = [entry.to_dict() for entry in children]
    tables, about_links = _links(here)
    warnings = [*about_links, *_disagreements(R, kinds), *_odd_hosts(R, kinds)]
    links = {**key.get("links", {}), **tables}
    if links:
        key["links"] = links
    found = [*R.properties.items()]
    for same in here if with_properties else ():
        found += ((name, same.ranks) for name in properties.of_machine(same.node.machine))
    new = attrs.evolve(R, scheduling=key, properties=idset.gathered(found))
    return Encoded(new, tuple(kinds), tuple(warnings))


def _merged(nodes: Sequence[Nodes]) -> list[Nodes]:
    """*nodes* by lowest rank, after merging those with equal topos."""
    names = [digest(described.node.topo) for described in nodes]
    first = {name: described.node for name, described in reversed([*zip(names, nodes)])}
    ranks_of = idset.gathered(zip(names, (described.ranks for described in nodes)))
    kinds = (Nodes(ranks, first[name]) for name, ranks in ranks_of.items())
    return sorted(kinds, key=lambda kind: idset.lowest(kind.ranks))


def _entries(nodes: Sequence[Nodes], known: Optional[SchedulingKey]) -> Iterator[KeyEntry]:
    """The entries of *nodes*, with what the key *known* says of an allocation's ids, if it holds.

    A broker that is bound to cores describes a node that has no others, and one that is kept from
    GPUs sees no others. The topo of its node then has the ids that R has.
    """
    topos: dict[str, dict[str, Any]] = {}
    found: list[tuple[tuple[str, Optional[AllocatedIds]], int]] = []
    for described in nodes:
        name, rest, machine = digest(described.node.topo), described.ranks, described.node.machine
        topos.setdefault(name, described.node.topo)
        for entry in known.children if known is not None else ():
            told, ranks = entry.allocated, entry.ranks & described.ranks
            if told is not None and told.cores & ~machine.cores:
                told = None
            elif told is not None and told.gpus & ~machine.gpu_ids:
                told = attrs.evolve(told, gpus=0)
            found.append(((name, told), ranks))
            rest &= ~ranks
        found.append(((name, None), rest))
    for (name, told), ranks in idset.gathered(found).items():
        if ranks:
            yield KeyEntry(ranks, topos[name], allocated=told)


# -- links


def _links(nodes: Sequence[Nodes]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The link tables of ``scheduling.links``, by the digest of their topo, and warnings.

    A table must be true of all nodes with its topo. Only the NICs may be those of most nodes,
    because a port may be down for a while.
    """
    by_topo: dict[str, dict[Links, int]] = {}
    for described in nodes:
        links = described.node.machine.links
        if links is not None and links != Links():
            same = by_topo.setdefault(digest(described.node.topo), {})
            same[links] = same.get(links, 0) | described.ranks
    tables, warnings = {}, []
    for name, found in by_topo.items():
        usual = max(found, key=lambda some: (idset.size(found[some]), -idset.lowest(found[some])))
        others = idset.union(ranks for links, ranks in found.items() if links != usual)
        if len({attrs.evolve(links, nics=()) for links in found}) > 1:
            warnings.append(
                f"{len(found)} kinds of links among nodes of one topo: their links are left out"
            )
            continue
        if others:
            few = idset.encode(others)
            warnings.append(f"ranks {few}: other NICs are near GPUs than on most of these nodes")
        tables[name] = usual.to_dict()
    return tables, warnings


# -- warnings


def _disagreements(R: ResourceSet, kinds: Sequence[Nodes]) -> list[str]:
    """A line for each set of cores or GPUs that only R has, or only the hardware."""
    found: list[tuple[tuple[str, str, str], int]] = []
    entry_of = {rank: entry for entry in R.entries for rank in idset.iterate(entry.ranks)}
    for kind in kinds:
        machine = kind.node.machine
        rest = kind.ranks
        while rest:
            entry = entry_of[idset.lowest(rest)]
            ranks = entry.ranks & kind.ranks
            rest &= ~ranks
            for what, in_r, there, system in (
                ("cores", entry.cores, machine.cores, machine.system),
                ("gpus", entry.gpus, machine.gpu_ids, 0),
            ):
                for more, verdict in (
                    (in_r & ~there, "in R but not in the hardware"),
                    (there & ~in_r & ~system, "in the hardware but not in R"),
                    (in_r & system, "in R but kept for the system"),
                ):
                    if more:
                        found.append(((what, idset.encode(more), verdict), ranks))
    return [
        f"ranks {idset.encode(ranks)}: {what} {ids} are {verdict}"
        for (what, ids, verdict), ranks in idset.gathered(found).items()
    ]


def _odd_hosts(R: ResourceSet, kinds: Sequence[Nodes]) -> list[str]:
    """A line about the hosts whose topo differs from that of most hosts with the same name prefix,
    or about all with that prefix if most have no topo in common.

    Such a node often has a different BIOS setting, such as the number of NUMA nodes.
    """
    if len(kinds) < 2 or not R.hosts:
        return []
    host_of = dict(zip(idset.iterate(R.mask), R.hosts))
    families: dict[str, dict[int, list[str]]] = {}
    for i, kind in enumerate(kinds):
        for rank in idset.iterate(kind.ranks):
            host = host_of[rank]
            prefix = _NUMBER_AT_END.sub("", host)
            families.setdefault(prefix, {}).setdefault(i, []).append(host)
    warnings = []
    for prefix, groups in families.items():
        usual = max(groups, key=lambda i: len(groups[i]))
        hosts = [host for group in groups.values() for host in group]
        if 2 * len(groups[usual]) <= len(hosts):
            warnings.append(f"{_hosts(hosts)} have {len(groups)} different topos: BIOS settings?")
            continue
        for i, odd in groups.items():
            if i != usual:
                warnings.append(
                    f"{_hosts(odd)} has {outline(kinds[i].node.topo)}, but most hosts called "
                    f"{prefix}N have {outline(kinds[usual].node.topo)}: another BIOS setting?"
                )
    return warnings


def _hosts(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def outline(topo: Mapping[str, Any]) -> str:
    """A topo in a few words: the numbers of domains of each locality, of cores, and of GPUs."""
    tree = read(topo)
    counts = Counter(inner.locality for inner in tree.walk())
    words = [f"{count} {name}" for name, count in counts.items()]
    for ids, what in ((tree.cores, "core"), (tree.gpus, "GPU")):
        number = idset.size(ids)
        if number or what == "core":
            words.append(amount(number, what))
    return ", ".join(words)
