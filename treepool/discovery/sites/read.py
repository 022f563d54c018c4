"""The fabric from a site's files: how a format is recognized; NVLink domains; HPE Cray host names.

==================  =============================================================================
Slurm               ``topology.conf`` and ``topology.yaml``, trees and blocks; NVIDIA's topograph
                    writes them, too. Leaf switches are called ``switch``, those above ``spine``,
                    ``superspine``, ``level3``, ...; blocks are called ``block``, and the larger
                    ones that ``BlockSizes`` names ``block36``, ...
table (CSV)         a line ``host,cell,switch`` with the localities, the highest first, then a line
                    for each host; an empty cell leaves that locality out
JSON                ``{"n0": {"cell": "c0", "switch": "s3"}, ...}``, or a list of Kubernetes nodes
                    with labels that say where they are, see ``labels.py``
``ibnetdiscover``   hosts by the names of their adapters; the rail that most of them have counts
``nvidia-smi -q``   a folder with the output of each host, ``HOST.txt``: NVLink domains and cliques
``cray``            no file: the names of the hosts, such as x1000c0s1b0n0
==================  =============================================================================
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Sequence

from treepool.discovery.sites import infiniband, labels, slurm
from treepool.discovery.sites.locations import Location, Site, listed
from treepool.discovery.slurmlines import File, alone
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.fabric import MAX_DOMAINS
from treepool.rfc.quote import amount

#: Most hosts that are written once more for a domain around theirs, in all such domains together.
_MAX_WRITTEN = 1 << 22


def read(
    text: str,
    hosts: Iterable[str],
    topology: str = "",
    rail: str = "",
    beside: Callable[[str], File] = alone,
) -> Site:
    """The locations of *hosts* in the *text* of a file of any format above.

    *topology* is the name of one of several topologies in the file; without it, they are merged.
    *rail* is the adapter that counts, and *beside* reads files that are included. Raises
    InvalidHardware.
    """
    site = Site(frozenset(hosts), topology=topology, rail=rail, beside=beside)
    for looks, read_into in _FORMATS:
        if re.search(looks, text, re.MULTILINE | re.IGNORECASE):
            if topology and read_into not in _SEVERAL:
                raise InvalidHardware("has no topologies with names to choose from")
            if rail and read_into is not infiniband.read:
                raise InvalidHardware("has no adapters to choose from")
            read_into(text, site)
            return site
    raise InvalidHardware(
        "neither Slurm's topology.conf or topology.yaml, nor a table, JSON or ibnetdiscover output"
    )


def fabric_of(site: Site, hosts: Iterable[str], ranks: int) -> tuple[dict[str, Any], list[str]]:
    """``scheduling.fabric`` for *hosts*, which have *ranks* (bitmask) in order; and warnings.

    Raises InvalidHardware if it has too many domains, or domains with too many hosts.
    """
    fabric: dict[str, Any] = {}
    members: dict[Location, list[int]] = {}
    alone = []
    for host, rank in zip(hosts, idset.iterate(ranks)):
        location = site.locations.get(host, ())
        if location:
            members.setdefault(location, []).append(rank)
        else:
            alone.append(host)
    domains: dict[Location, dict[str, Any]] = {(): fabric}
    for location in members:
        for depth in range(len(location)):
            if location[: depth + 1] not in domains:
                locality, name = location[depth]
                new = domains[location[: depth + 1]] = {"name": name}
                domains[location[:depth]].setdefault(locality, []).append(new)
        if len(domains) > MAX_DOMAINS:
            raise InvalidHardware(f"the hosts are in more than {MAX_DOMAINS} domains")
    inside = {location: list(own) for location, own in members.items()}
    written = 0
    for location, own in members.items():
        for depth in range(1, len(location)):
            if location[:depth] in inside:  # this domain has hosts of its own and nested domains
                written += len(own)
                if written > _MAX_WRITTEN:
                    what = "hosts in domains that have both hosts and domains inside"
                    raise InvalidHardware(f"more than {_MAX_WRITTEN} {what}, level by level")
                inside[location[:depth]] += own
    for location, those in inside.items():
        domains[location]["ranks"] = idset.encode_ids(sorted(those))
    warnings = list(site.warnings)
    if alone:
        warnings.append(f"hosts in no domain, which stand alone: {listed(alone)}")
    twice = [host for host in hosts if host in site.twice]
    if twice:
        warnings.append(
            f"hosts with more than one location, the first of which counts: {listed(twice)}"
        )
    return fabric, warnings


def told(site: Site, hosts: Sequence[str]) -> str:
    """How many of *hosts* the file places, and what was left out of it."""
    placed = sum(1 for host in hosts if site.locations.get(host))
    return "; ".join([f"{placed} of {amount(len(hosts), 'host')} of R placed", *site.left_out])


# -- output of tools, and names of hosts


def nvlink(texts: Iterable[tuple[str, str]], hosts: Iterable[str]) -> Site:
    """``nvidia-smi -q`` by host: *hosts* of the same NVLink cluster and clique are joined."""
    site = Site(frozenset(hosts))
    for host, text in texts:
        uuid = re.search(r"ClusterUUID\s*:\s*(\S+)", text)
        clique = re.search(r"CliqueId\s*:\s*(\d+)", text)
        if uuid and clique and re.search("[1-9a-f]", uuid[1], re.IGNORECASE) and uuid[1] != "N/A":
            site.put(host, (("nvl", f"{uuid[1]}.{clique[1]}"),))
    return site


_CRAY = re.compile(r"(x\d+)(c\d+)(s\d+)b\d+n\d+", re.ASCII)


def cray(hosts: Sequence[str]) -> Site:
    """The cabinet, chassis and blade in the names of HPE Cray *hosts*: x1000c0s1b0n0.

    HPE calls the position of a blade a slot. The locality is ``blade``, because a slot is something
    else in a jobspec.
    """
    site = Site(frozenset(hosts))
    for host in hosts:
        found = _CRAY.fullmatch(host)
        if found:
            cabinet, chassis, slot = found.groups()
            names = cabinet, cabinet + chassis, cabinet + chassis + slot
            site.put(host, tuple(zip(("cabinet", "chassis", "blade"), names)))
    return site


#: What a file of each format looks like.
_FORMATS: tuple[tuple[str, Callable[[str, Site], None]], ...] = (
    (r"\A\s*[{\[]", labels.read_json),
    (r"^[ \t]*(Switch|Block|Ring)Name\b|^[ \t]*BlockSizes\b|^[ \t]*include[ \t]", slurm.read_conf),
    (r"^- *topology:|^ +(tree|block):", slurm.read_yaml),
    (r'^Switch\s+\d+\s+"', infiniband.read),
    (r"\A[^\n]*,", labels.read_table),
)

#: What reads files that may have several topologies.
_SEVERAL = (slurm.read_yaml, labels.read_json)
