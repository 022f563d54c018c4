"""Slurm's ``topology.conf`` and ``topology.yaml``: the switches and blocks of each host."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Iterable, Mapping, Optional

import attrs

from treepool.discovery import slurmhosts
from treepool.discovery.sites.locations import HostLists, Location, Site, put_merged, switch_at
from treepool.discovery.slurmlines import File, Lines
from treepool.errors import InvalidHardware
from treepool.rfc import topo
from treepool.rfc.findings import shown
from treepool.rfc.quote import printable, shortened

#: Slurm's kinds of topology that are no trees.
_NO_TREES = ("flat", "ring", "torus3d")

#: The first keys of lines; AggregatedBlock is printed by scontrol alone.
_FIRST = ("switchname", "blockname", "blocksizes", "aggregatedblock", "ringname")

#: Most characters of YAML. PyYAML takes 20 seconds for a megabyte.
_MAX_YAML = 1 << 16

#: Most brackets nested in YAML.
_MAX_BRACKETS = 64


@attrs.define
class _Topology:
    """The switches or blocks of Slurm, in the order in which they are read."""

    #: The switch above each switch that has one.
    above: dict[str, str] = attrs.field(factory=dict)
    #: The hosts below each switch.
    nodes: dict[str, list[str]] = attrs.field(factory=dict)
    #: The switches below each switch, the hosts of each block, and the block sizes.
    switches: dict[str, list[str]] = attrs.field(factory=dict)
    blocks: dict[str, list[str]] = attrs.field(factory=dict)
    sizes: list[int] = attrs.field(factory=list)

    def switch(self, name: str, children: list[str], hosts: list[str], where: str) -> None:
        """Add a switch with switches or *hosts* below it."""
        if name in self.switches:
            raise InvalidHardware(f"{where}: a second switch {shown(name)}")
        self.switches[name] = children
        for child in children:
            if self.above.setdefault(child, name) != name:
                raise InvalidHardware(
                    f"{where}: switch {shown(child)} is below {shown(self.above[child])}, too"
                )
        self.nodes[name] = hosts

    def put_into(self, site: Site) -> None:
        """Tell *site* where the hosts are."""
        heights: dict[str, int] = {}
        domains: dict[str, tuple[str, str]] = {}  # of each switch: those below share it
        # scontrol prints the hosts of a switch again with all switches above it, and those first.
        for switch in sorted(self.nodes, key=lambda name: self._height(name, heights)):
            hosts = self.nodes[switch]
            location = self._location(switch, heights, domains) if hosts else ()
            for host in hosts:
                site.put(host, location)
        base = self.sizes[0] if self.sizes else 0
        for place, (block, hosts) in enumerate(self.blocks.items()):
            around = [
                (f"block{size}", str(place * base // size))
                for size in sorted(self.sizes, reverse=True)
                if size > base
            ]
            inside = (*around, ("block", block))
            for host in hosts:
                site.put(host, inside)

    def _location(
        self, switch: str, heights: dict[str, int], domains: dict[str, tuple[str, str]]
    ) -> Location:
        """Where the hosts of *switch* are. *heights* and *domains* are filled for the next one."""
        location: list[tuple[str, str]] = []
        at: Optional[str] = switch
        while at is not None:
            if len(location) > len(self.switches):
                raise InvalidHardware(f"switch {shown(at)} is below itself")
            if len(location) >= topo.MAX_LEVELS:
                text = f"switch {shown(switch)} is below {topo.MAX_LEVELS} others, or more"
                raise InvalidHardware(text)
            called = switch_at(self._height(at, heights))
            location.insert(0, domains.setdefault(at, (called, at)))
            at = self.above.get(at)
        return tuple(location)

    def _height(self, switch: str, known: dict[str, int]) -> int:
        """How many levels of switches are below *switch*."""
        if switch in known:
            return known[switch]
        order, seen = [switch], {switch}
        for one in order:
            new = [child for child in self.switches.get(one, ()) if child not in seen]
            order += new
            seen.update(new)
        for one in reversed(order):
            below = [known.get(child, 0) + 1 for child in self.switches.get(one, ())]
            known[one] = max(below, default=0)
        return known[switch]


def read_conf(text: str, site: Site) -> None:
    """Slurm's topology.conf, and what ``scontrol show topology`` prints."""
    topology, hosts_of = _Topology(), HostLists(site.hosts, slurmhosts.decode)
    lines = Lines(_FIRST, complete=True)
    rings: list[str] = []
    for line in lines.read(File(text, beside=site.beside)):
        name = line.pairs[line.first]
        try:
            hosts = hosts_of(line.get("nodes"), line.where)
            children = hosts_of.names(line.get("switches"), line.where)
            size = line.get("blocksize", "blocksizes")
            sizes = _sizes(size.split(","), line.where) if size else []
        except InvalidHardware as e:
            lines.refuse(line.where, str(e))
            continue
        topology.sizes = sorted({*topology.sizes, *sizes})
        if line.first == "switchname":
            topology.switch(name, children, hosts, line.where)
        elif line.first == "blockname":
            topology.blocks.setdefault(name, []).extend(hosts)
        elif line.first == "ringname":
            rings.append(f"ring {shown(name)} has no domains, and is left out")
    understood = topology.nodes or topology.blocks
    if not understood and (lines.refusals or rings):
        raise InvalidHardware([*lines.refusals, *rings][0])
    site.warnings += lines.refusals + rings
    site.left_out += lines.left_out()
    topology.put_into(site)


def _sizes(values: Iterable[object], where: str) -> list[int]:
    texts = [_text(value) for value in values]
    if not all(re.fullmatch("[1-9][0-9]{0,6}", text) for text in texts):
        raise InvalidHardware(f"{where}: block sizes are numbers of nodes")
    return sorted(map(int, texts))


def _load_yaml(text: str) -> object:
    """The value of YAML, which is refused if it could take too long or too much memory."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise InvalidHardware("YAML needs the Python package PyYAML") from None
    if len(text) > _MAX_YAML:
        raise InvalidHardware(f"more than {_MAX_YAML} characters of YAML")
    depth = 0
    for bracket in re.findall(r"[][{}]", text):  # PyYAML takes quadratic time for nested ones
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_BRACKETS:
            raise InvalidHardware(f"not valid YAML: more than {_MAX_BRACKETS} brackets nested")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InvalidHardware("YAML with aliases is not read")
        return yaml.safe_load(text)
    except InvalidHardware:
        raise
    except Exception as e:  # PyYAML raises any exception if a tag does not fit its value
        told = printable(" ".join(str(e).split()))  # it quotes the text
        raise InvalidHardware(f"not valid YAML: {shortened(told, 200)}") from None


def read_yaml(text: str, site: Site) -> None:
    """Slurm's topology.yaml: the topology of that name, or all of them, the default first."""
    value = _load_yaml(text)
    listed = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    listed.sort(key=lambda one: one.get("cluster_default") is not True)
    names = [_text(one.get("topology")) for one in listed]
    if site.topology and site.topology not in names:
        there = ", ".join(map(shown, names)) or "none"
        raise InvalidHardware(f"no topology {shown(site.topology)}; there are: {there}")
    sites: dict[str, Site] = {}
    hosts_of = HostLists(site.hosts, slurmhosts.decode)
    for name, one in zip(names, listed):
        if site.topology in ("", name):
            what = next((kind for kind in _NO_TREES if kind in one), "")
            if what and site.topology:
                raise InvalidHardware(f"topology {shown(name)} is {what}, which has no domains")
            if what:
                site.warnings.append(f"topology {shown(name)} is {what}, and is left out")
                continue
            topology = _of_yaml(one, shown(name), hosts_of)
            if topology.nodes or topology.blocks:
                sites[name] = Site(site.hosts)
                topology.put_into(sites[name])
    if not sites:
        left = f": {'; '.join(site.warnings)}" if site.warnings else ""
        raise InvalidHardware(f"no topology with switches or blocks{left}")
    put_merged(site, sites)


def _of_yaml(one: Mapping[str, Any], name: str, hosts_of: HostLists) -> _Topology:
    """The switches or blocks of one topology, which is called *name* in messages."""
    topology, tree, block = _Topology(), one.get("tree"), one.get("block")
    if isinstance(tree, dict):
        for item in _items(tree.get("switches"), f"topology {name}"):
            where = f"topology {name}, switch {shown(item.get('switch'))}"
            children = hosts_of.names(item.get("children", ""), where)
            hosts = hosts_of(item.get("nodes", ""), where)
            topology.switch(_text(item.get("switch")), children, hosts, where)
    elif isinstance(block, dict):
        for item in _items(block.get("blocks"), f"topology {name}"):
            where = f"topology {name}, block {shown(item.get('block'))}"
            hosts = hosts_of(item.get("nodes", ""), where)
            topology.blocks.setdefault(_text(item.get("block")), []).extend(hosts)
        sizes = block.get("block_sizes") or []
        topology.sizes = _sizes(sizes if isinstance(sizes, list) else [sizes], f"topology {name}")
    return topology


def _text(value: object) -> str:
    """A name or number, which YAML may have read as another type."""
    large = isinstance(value, int) and value.bit_length() > 64  # str() refuses the largest
    return shown(value) if large else str(value)


def _items(value: object, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidHardware(f"{where}: must have a list of switches or blocks")
    return value
