"""The fabric from a site's files: which switches, racks or blocks each host is in.

==================  =============================================================================
Slurm               ``topology.conf`` and ``topology.yaml``, trees and blocks; NVIDIA's topograph
                    writes them, too. Leaf switches are called ``switch``, those above ``spine``,
                    ``superspine``, ``level3``, ...; blocks are called ``block``, and the larger
                    ones that ``BlockSizes`` names ``block36``, ...
table (CSV)         a line ``host,cell,switch`` with the localities, the highest first, then a line
                    for each host; an empty cell leaves that locality out
JSON                ``{"n0": {"cell": "c0", "switch": "s3"}, ...}``, or a list of Kubernetes nodes
                    with the labels of topograph (``network.topology.nvidia.com/leaf``, ...)
``ibnetdiscover``   hosts by the names of their adapters; the switch of the first one is the leaf
``nvidia-smi -q``   a folder with the output of each host, ``HOST.txt``: NVLink domains and cliques
``cray``            no file: the names of the hosts, such as x1000c0s1b0n0
==================  =============================================================================
"""

from __future__ import annotations

import csv
import re
from typing import Any, Callable, Iterable, Sequence

from treepool.discovery.sites import slurm
from treepool.discovery.sites.locations import HostLists, Location, Site
from treepool.errors import InvalidHardware
from treepool.rfc import document, hostlist, idset
from treepool.rfc.fabric import MAX_DOMAINS
from treepool.rfc.findings import pointer_to, shown
from treepool.rfc.quote import shortened

#: The labels that topograph gives Kubernetes nodes, the highest level first.
_LABELS = {
    "network.topology.nvidia.com/core": "superspine",
    "network.topology.nvidia.com/spine": "spine",
    "network.topology.nvidia.com/leaf": "switch",
    "network.topology.nvidia.com/accelerator": "nvl",
}

#: Most hosts that are written once more for a domain around theirs, in all such domains together.
_MAX_WRITTEN = 1 << 22

#: Longest list of hosts in a warning.
_MOST_SHOWN = 200


def read(text: str, hosts: Iterable[str]) -> Site:
    """The locations of *hosts* in the *text* of a file of any format above.

    Raises InvalidHardware.
    """
    site = Site(frozenset(hosts))
    for looks, read_into in _FORMATS:
        if re.search(looks, text, re.MULTILINE | re.IGNORECASE):
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
    warnings = []
    if alone:
        warnings.append(f"hosts in no domain, which stand alone: {_listed(alone)}")
    twice = [host for host in hosts if host in site.twice]
    if twice:
        warnings.append(
            f"hosts with more than one location, the first of which counts: {_listed(twice)}"
        )
    return fabric, warnings


def _listed(hosts: list[str]) -> str:
    return shortened(hostlist.encode(hosts), _MOST_SHOWN)


# -- tables and labels


def _table(text: str, site: Site) -> None:
    """A line with ``host`` and the localities, and one for each host."""
    hosts_of = HostLists(site.hosts)
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        names = [name.strip() for name in next(rows)]
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise InvalidHardware(
                    f"line {rows.line_num}: {len(row)} columns, the first line has {len(names)}"
                )
            cells = zip(names[1:], map(str.strip, row[1:]))
            location = tuple((name, cell) for name, cell in cells if cell)
            for host in hosts_of.names(row[0].strip(), f"line {rows.line_num}"):
                site.put(host, location)
    except csv.Error as e:
        raise InvalidHardware(f"line {rows.line_num}: {e}") from None


def _labels(text: str, site: Site) -> None:
    """Labels of hosts in JSON."""
    value = document.load(text, InvalidHardware, "file of labels")
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(items, list):
        for item in items:
            data = item.get("metadata") if isinstance(item, dict) else None
            labels = data.get("labels") if isinstance(data, dict) else None
            if isinstance(data, dict) and isinstance(labels, dict) and data.get("name"):
                found = ((_LABELS[name], str(labels[name])) for name in _LABELS if name in labels)
                site.put(str(data["name"]), tuple(found))
        return
    if not isinstance(value, dict):
        raise InvalidHardware(f"must be an object of hosts, not {shown(value)}")
    for host, levels in value.items():
        if not isinstance(levels, dict) or not all(isinstance(v, str) for v in levels.values()):
            at = pointer_to("", host)
            raise InvalidHardware(f"{at}: must be an object of localities and names")
        site.put(host, tuple((name, value) for name, value in levels.items() if value))


# -- output of tools, and names of hosts


def _infiniband(text: str, site: Site) -> None:
    """``ibnetdiscover``: ports of switches, with the names of the adapters at their other ends."""
    switch = ""
    for line in text.splitlines():
        head = re.match(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"', line)
        if head:
            switch = head[2].split(";")[-1].split(":")[0].strip() or head[1]
        elif not line.strip() or line.startswith("Ca"):
            switch = ""
        port = re.match(r'\[\d+\][^"]*"H-[^"]+"\[\d+\].*#\s*"([^"\s]+)', line)
        if port and switch and port[1] not in site.locations:
            site.put(port[1], (("switch", switch),))


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
    (r"\A\s*[{\[]", _labels),
    (r"^[ \t]*(SwitchName|BlockName)=", slurm.read_conf),
    (r"^- *topology:|^ +(tree|block):", slurm.read_yaml),
    (r'^Switch\s+\d+\s+"', _infiniband),
    (r"\A[^\n]*,", _table),
)
