"""Locations of hosts in CSV, JSON and Kubernetes' nodes: which columns and labels are known.

Kubernetes' nodes (``kubectl get nodes -o json``, or with ``topologies.kueue.x-k8s.io``) have labels
that say where they are: the levels of Kueue's ``Topology`` objects, if the file has any; otherwise
those of topograph, of 1.0 and of before, and NVIDIA's NVLink clique.
"""

from __future__ import annotations

import csv
import re
from typing import Any, Iterator, Mapping, Optional, Sequence

from treepool.discovery.sites.locations import HostLists, Location, Site, put_merged, switch_at
from treepool.errors import InvalidHardware
from treepool.rfc import document
from treepool.rfc.findings import pointer_to, shown

#: What the column of hosts may be called.
_HOST = ("host", "hostname", "node", "nodename")

#: The labels of topograph before 1.0, by their localities. Leaf was called block, core datacenter.
_BEFORE = "network.topology.nvidia.com/"
_OLDER = {
    **dict.fromkeys((_BEFORE + "core", _BEFORE + "datacenter"), "superspine"),
    _BEFORE + "spine": "spine",
    **dict.fromkeys((_BEFORE + "leaf", _BEFORE + "block"), "switch"),
}

#: Labels for a node's NVLink domain: of topograph, and of NVIDIA's GPU operator.
_NVLINK = (
    ("accelerator.topograph.run/domain", "nvl"),
    (_BEFORE + "accelerator", "nvl"),
    ("nvidia.com/gpu.clique", "nvl"),
)
_INSIDE_NVLINK = "accelerator.topograph.run/sub-domain"

#: topograph 1.0: tier 0 is the nearest to the node.
_TIER = re.compile(r"fabric\.topograph\.run/tier-(\d{1,2})", re.ASCII)

#: The label that each node has for itself.
_ITSELF = "kubernetes.io/hostname"

#: Most labels in a message.
_MOST = 8


def read_table(text: str, site: Site) -> None:
    """CSV: a line with ``host`` and the localities, and one for each host."""
    hosts_of = HostLists(site.hosts)
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        names = [name.strip() for name in next(rows)]
        if names[0].lower() not in _HOST:
            raise InvalidHardware(
                f"line 1: must name the columns, host first, not {shown(names[0])}: "
                "for example host,rack,switch"
            )
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


def read_json(text: str, site: Site) -> None:
    """JSON: localities and names by host, or Kubernetes' objects."""
    value = document.load(text, InvalidHardware, "file of labels")
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(items, list):
        _kubernetes([item for item in items if isinstance(item, dict)], site)
        return
    if not isinstance(value, dict):
        raise InvalidHardware(f"must be an object of hosts, not {shown(value)}")
    for host, levels in value.items():
        if not isinstance(levels, dict) or not all(isinstance(v, str) for v in levels.values()):
            at = pointer_to("", host)
            raise InvalidHardware(f"{at}: must be an object of localities and names")
        site.put(host, tuple((name, value) for name, value in levels.items() if value))


def _kubernetes(items: Sequence[Mapping[str, Any]], site: Site) -> None:
    nodes = {
        str(_in(item, "metadata").get("name")): _in(_in(item, "metadata"), "labels")
        for item in items
        if item.get("kind") in (None, "Node") and _in(item, "metadata").get("name")
    }
    by_name = {
        str(_in(item, "metadata").get("name")): list(_levels(item))
        for item in items
        if item.get("kind") == "Topology"
    }
    if site.topology and site.topology not in by_name:
        names = ", ".join(map(shown, by_name)) or "none"
        raise InvalidHardware(f"no topology {shown(site.topology)}; there are: {names}")
    if by_name:
        wanted = {site.topology: by_name[site.topology]} if site.topology else by_name
        chains = {name: _chain(nodes, levels, site) for name, levels in wanted.items()}
    else:
        chains = {"fabric": _switches(nodes, site), "accelerator": _nvlinks(nodes, site)}
    if nodes and not any(any(one.locations.values()) for one in chains.values()):
        labels = sorted({label for node in nodes.values() for label in node} - {_ITSELF})
        more = f" and {len(labels) - _MOST} more" if len(labels) > _MOST else ""
        there = ", ".join(map(shown, labels[:_MOST])) + more if labels else "none"
        raise InvalidHardware(
            "no node of R has a label that says where it is, of topograph, nvidia.com/gpu.clique "
            f"or a level of a Topology object; there are: {there}"
        )
    put_merged(site, chains)


def _in(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object called *name* in *item*, an empty one if there is none."""
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _levels(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The labels of a Kueue Topology object, the highest first, and what they are called here."""
    levels = _in(item, "spec").get("levels")
    for level in levels if isinstance(levels, list) else ():
        label = level.get("nodeLabel") if isinstance(level, dict) else None
        if isinstance(label, str) and label != _ITSELF:
            yield label, _locality(label)


def _locality(label: str) -> str:
    known: Optional[str] = _OLDER.get(label) or dict(_NVLINK).get(label)
    tier = _TIER.fullmatch(label)
    if tier:
        known = switch_at(int(tier[1]))
    name = label.rpartition("/")[2]
    return known or (name[len("topology-") :] if name.startswith("topology-") else name)


def _chain(
    nodes: Mapping[str, Mapping[str, Any]], levels: Sequence[tuple[str, str]], site: Site
) -> Site:
    """The locations that the labels of *levels*, the highest first, give."""
    one = Site(site.hosts)
    for host, labels in nodes.items():
        named = [(locality, str(labels[name])) for name, locality in levels if labels.get(name)]
        one.put(host, _once(named))
    return one


def _once(location: Sequence[tuple[str, str]]) -> Location:
    """*location* with the first of each locality."""
    first: dict[str, str] = {}
    for locality, name in location:
        first.setdefault(locality, name)
    return tuple(first.items())


def _switches(nodes: Mapping[str, Mapping[str, Any]], site: Site) -> Site:
    tiers = {
        int(match[1]): label
        for labels in nodes.values()
        for label in labels
        if (match := _TIER.fullmatch(label))
    }
    levels = [(tiers[tier], switch_at(tier)) for tier in sorted(tiers, reverse=True)]
    return _chain(nodes, levels or list(_OLDER.items()), site)


def _nvlinks(nodes: Mapping[str, Mapping[str, Any]], site: Site) -> Site:
    return _chain(nodes, [*_NVLINK, (_INSIDE_NVLINK, "nvl-part")], site)
