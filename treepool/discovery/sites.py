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
from importlib import import_module
from typing import Any, Callable, Iterable, Mapping, Optional

import attrs

from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import document, fabric, hostlist, idset
from treepool.rfc.findings import shown

#: The domains that a host is in: locality and name, the highest first.
Path = tuple[tuple[str, str], ...]

#: What switches are called by the levels of switches below them.
_SWITCHES = ("switch", "spine", "superspine")

#: The labels that topograph gives Kubernetes nodes, the highest level first.
_LABELS = {
    "network.topology.nvidia.com/core": "superspine",
    "network.topology.nvidia.com/spine": "spine",
    "network.topology.nvidia.com/leaf": "switch",
    "network.topology.nvidia.com/accelerator": "nvl",
}

#: Longest list of hosts in a warning.
_MOST_SHOWN = 200


#: Most hosts and switches that the lists of a file name in all, levels of switches, characters of
#: YAML, of which a megabyte takes 20 seconds.
_MAX_HOSTS, _MAX_LEVELS, _MAX_YAML = 1 << 20, 64, 1 << 16


@attrs.define
class Site:
    """Where each host is, and the hosts that were given more than one place: the first counts."""

    places: dict[str, Path] = attrs.field(factory=dict)
    twice: dict[str, None] = attrs.field(factory=dict)

    def put(self, host: str, path: Path) -> None:
        """Note that *host* is in the domains of *path*, whose localities a key may have."""
        if len(path) > _MAX_LEVELS:
            raise InvalidHardware(f"host {shown(host)} is in more than {_MAX_LEVELS} domains")
        for name, _ in path:
            if name in fabric.RESERVED or not name:
                text = f"{shown(name)} cannot be the name of a locality"
                raise InvalidHardware(f"host {shown(host)}: {text}")
        if self.places.setdefault(host, path) != path:
            self.twice[host] = None


def read(text: str) -> Site:
    """The places in the *text* of a file of any format above. Raises InvalidHardware."""
    for looks, reader in _FORMATS:
        if re.search(looks, text, re.MULTILINE | re.IGNORECASE):
            return reader(text)
    raise InvalidHardware(
        "neither Slurm's topology.conf or topology.yaml, nor a table, JSON or ibnetdiscover output"
    )


def fabric_of(site: Site, hosts: Iterable[str], ranks: int) -> tuple[dict[str, Any], list[str]]:
    """``scheduling.fabric`` for *hosts*, which have *ranks* (bitmask) in order; and warnings."""
    found: dict[str, Any] = {}
    members: dict[Path, list[int]] = {}
    nowhere = []
    for host, rank in zip(hosts, idset.iterate(ranks)):
        path = site.places.get(host, ())
        if path:
            members.setdefault(path, []).append(rank)
        else:
            nowhere.append(host)
    domains: dict[Path, dict[str, Any]] = {(): found}
    for path in members:
        for depth in range(len(path)):
            if path[: depth + 1] not in domains:
                locality, name = path[depth]
                new = domains[path[: depth + 1]] = {"name": name}
                domains[path[:depth]].setdefault(locality, []).append(new)
    everything = {path: list(those) for path, those in members.items()}
    for path, those in members.items():
        for depth in range(1, len(path)):
            if path[:depth] in everything:  # hosts are in this domain, and in domains inside
                everything[path[:depth]] += those
    for path, those in everything.items():
        domains[path]["ranks"] = idset.encode_ids(sorted(those))
    warnings = []
    if nowhere:
        warnings.append(f"hosts in no domain, which stand alone: {_listed(nowhere)}")
    twice = [host for host in hosts if host in site.twice]
    if twice:
        warnings.append(
            f"hosts with more than one place, of which the first counts: {_listed(twice)}"
        )
    return found, warnings


def _listed(hosts: list[str]) -> str:
    text = hostlist.encode(hosts)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


@attrs.define
class _Hosts:
    """Reads the hostlists of a file, which have at most _MAX_HOSTS hosts in all."""

    count: int = 0

    def __call__(self, text: object, where: str) -> list[str]:
        """The hosts in the hostlist *text*."""
        if not isinstance(text, str):
            raise InvalidHardware(f"{where}: must be a list of hosts, not {shown(text)}")
        try:
            found = list(hostlist.decode(text))
        except InvalidHostlist as e:
            raise InvalidHardware(f"{where}: {e}") from None
        self.count += len(found)
        if self.count > _MAX_HOSTS:
            raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts and switches so far")
        return found


# -- Slurm


@attrs.define
class _Slurm:
    """The switches or blocks of Slurm, as they are read."""

    #: The switch that each switch or host is below, in the order read, and where that was said.
    above: dict[str, str] = attrs.field(factory=dict)
    nodes: list[tuple[str, str]] = attrs.field(factory=list)
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
        self.nodes += [(host, name) for host in hosts]

    def site(self) -> Site:
        """Where the hosts are."""
        site = Site()
        heights: dict[str, int] = {}
        for host, switch in self.nodes:
            path: list[tuple[str, str]] = []
            at: Optional[str] = switch
            while at is not None:
                if len(path) > len(self.switches):
                    raise InvalidHardware(f"switch {shown(at)} is below itself")
                if len(path) >= _MAX_LEVELS:
                    text = f"switch {shown(switch)} is below {_MAX_LEVELS} others, or more"
                    raise InvalidHardware(text)
                height = self._height(at, heights)
                called = _SWITCHES[height] if height < len(_SWITCHES) else f"level{height}"
                path.insert(0, (called, at))
                at = self.above.get(at)
            site.put(host, tuple(path))
        base = self.sizes[0] if self.sizes else 0
        for place, (block, hosts) in enumerate(self.blocks.items()):
            around = [
                (f"block{size}", str(place * base // size))
                for size in sorted(self.sizes, reverse=True)
                if size > base
            ]
            for host in hosts:
                site.put(host, (*around, ("block", block)))
        return site

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


def _slurm_conf(text: str) -> Site:
    """Slurm's topology.conf: lines of KEY=VALUE; # begins a comment."""
    slurm, hosts_of = _Slurm(), _Hosts()
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        where = f"line {number}"
        words = {
            key.lower(): value
            for word in line.partition("#")[0].split()
            for key, equals, value in (word.partition("="),)
            if equals
        }
        if "switchname" in words:
            children = hosts_of(words.get("switches", ""), where)
            slurm.switch(
                words["switchname"], children, hosts_of(words.get("nodes", ""), where), where
            )
        elif "blockname" in words:
            slurm.blocks.setdefault(words["blockname"], []).extend(
                hosts_of(words.get("nodes", ""), where)
            )
        elif "blocksizes" in words:
            slurm.sizes = _sizes(words["blocksizes"].split(","), where)
    return slurm.site()


def _sizes(values: Iterable[object], where: str) -> list[int]:
    texts = [_text(value) for value in values]
    if not all(re.fullmatch("[1-9][0-9]{0,6}", text) for text in texts):
        raise InvalidHardware(f"{where}: block sizes are numbers of nodes")
    return sorted(map(int, texts))


def _slurm_yaml(text: str) -> Site:
    """Slurm's topology.yaml: the default topology, or the first that has switches or blocks."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise InvalidHardware("YAML needs the Python package PyYAML") from None
    if len(text) > _MAX_YAML:
        raise InvalidHardware(f"more than {_MAX_YAML} characters of YAML")
    depth = 0
    for bracket in re.findall(r"[][{}]", text):  # PyYAML takes quadratic time for nested ones
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_LEVELS:
            raise InvalidHardware(f"no valid YAML: more than {_MAX_LEVELS} brackets nested")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InvalidHardware("YAML with aliases is not read")
        value = yaml.safe_load(text)
    except InvalidHardware:
        raise
    except Exception as e:  # PyYAML raises what it likes where a tag does not suit its value
        raise InvalidHardware(f"no valid YAML: {' '.join(str(e).split())[:200]}") from None
    listed = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    listed.sort(key=lambda one: one.get("cluster_default") is not True)
    for one in listed:
        slurm, hosts_of = _Slurm(), _Hosts()
        tree, block = one.get("tree"), one.get("block")
        name = shown(one.get("topology"))
        if isinstance(tree, dict):
            for item in _items(tree.get("switches"), f"topology {name}"):
                where = f"topology {name}, switch {shown(item.get('switch'))}"
                children = hosts_of(item.get("children", ""), where)
                hosts = hosts_of(item.get("nodes", ""), where)
                slurm.switch(_text(item.get("switch")), children, hosts, where)
        elif isinstance(block, dict):
            for item in _items(block.get("blocks"), f"topology {name}"):
                where = f"topology {name}, block {shown(item.get('block'))}"
                hosts = hosts_of(item.get("nodes", ""), where)
                slurm.blocks.setdefault(_text(item.get("block")), []).extend(hosts)
            sizes = block.get("block_sizes") or []
            slurm.sizes = _sizes(sizes if isinstance(sizes, list) else [sizes], f"topology {name}")
        if slurm.nodes or slurm.blocks:
            return slurm.site()
    raise InvalidHardware("no topology with switches or blocks")


def _text(value: object) -> str:
    """A name or number that YAML may have read as another type."""
    large = isinstance(value, int) and value.bit_length() > 64  # str() refuses the largest
    return shown(value) if large else str(value)


def _items(value: object, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidHardware(f"{where}: must have a list of switches or blocks")
    return value


# -- tables and labels


def _table(text: str) -> Site:
    """A line with ``host`` and the localities, and one for each host."""
    site, hosts_of = Site(), _Hosts()
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
            path = tuple((name, cell) for name, cell in cells if cell)
            for host in hosts_of(row[0].strip(), f"line {rows.line_num}"):
                site.put(host, path)
    except csv.Error as e:
        raise InvalidHardware(f"line {rows.line_num}: {e}") from None
    return site


def _labels(text: str) -> Site:
    """Labels of hosts in JSON."""
    value = document.load(text, InvalidHardware, "file of labels")
    site = Site()
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(items, list):
        for item in items:
            data = item.get("metadata") if isinstance(item, dict) else None
            labels = data.get("labels") if isinstance(data, dict) else None
            if isinstance(data, dict) and isinstance(labels, dict) and data.get("name"):
                path = ((_LABELS[name], str(labels[name])) for name in _LABELS if name in labels)
                site.put(str(data["name"]), tuple(path))
        return site
    if not isinstance(value, dict):
        raise InvalidHardware(f"must be an object of hosts, not {shown(value)}")
    for host, levels in value.items():
        if not isinstance(levels, dict) or not all(isinstance(v, str) for v in levels.values()):
            raise InvalidHardware(f"/{host:.60}: must be an object of localities and names")
        site.put(host, tuple((name, value) for name, value in levels.items() if value))
    return site


# -- what hardware says


def _infiniband(text: str) -> Site:
    """``ibnetdiscover``: ports of switches, with the names of the adapters at their other ends."""
    site = Site()
    switch = ""
    for line in text.splitlines():
        head = re.match(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"', line)
        if head:
            switch = head[2].split(";")[-1].split(":")[0].strip() or head[1]
        elif not line.strip() or line.startswith("Ca"):
            switch = ""
        port = re.match(r'\[\d+\][^"]*"H-[^"]+"\[\d+\].*#\s*"([^"\s]+)', line)
        if port and switch:
            site.places.setdefault(port[1], (("switch", switch),))
    return site


def nvlink(texts: Mapping[str, str]) -> Site:
    """``nvidia-smi -q`` by host: hosts of the same NVLink cluster and clique are joined."""
    site = Site()
    for host, text in texts.items():
        uuid = re.search(r"ClusterUUID\s*:\s*(\S+)", text)
        clique = re.search(r"CliqueId\s*:\s*(\d+)", text)
        if uuid and clique and re.search("[1-9a-f]", uuid[1], re.IGNORECASE) and uuid[1] != "N/A":
            site.put(host, (("nvl", f"{uuid[1]}.{clique[1]}"),))
    return site


_CRAY = re.compile(r"(x\d+)(c\d+)(s\d+)b\d+n\d+", re.ASCII)


def cray(hosts: Iterable[str]) -> Site:
    """The cabinet, chassis and blade in the names of HPE Cray *hosts*: x1000c0s1b0n0.

    HPE calls a blade's place a slot, which is something else in a jobspec.
    """
    site = Site()
    for host in hosts:
        found = _CRAY.fullmatch(host)
        if found:
            cabinet, chassis, slot = found.groups()
            names = cabinet, cabinet + chassis, cabinet + chassis + slot
            site.put(host, tuple(zip(("cabinet", "chassis", "blade"), names)))
    return site


#: What a file of each format looks like.
_FORMATS: tuple[tuple[str, Callable[[str], Site]], ...] = (
    (r"\A\s*[{\[]", _labels),
    (r"^[ \t]*(SwitchName|BlockName)=", _slurm_conf),
    (r"^- *topology:|^ +(tree|block):", _slurm_yaml),
    (r'^Switch\s+\d+\s+"', _infiniband),
    (r"\A[^\n]*,", _table),
)
