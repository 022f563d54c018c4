"""Link tables as JSON: links of GPUs, their form (pairs, mesh), which NIC a GPU uses, distances.

The key holds the tables as ``scheduling.links``, an object whose keys are digests of topos
(``digest``). It is treepool's own addition to RFC 49, and other readers ignore it. It names no
ranks, so trimming and renumbering do not change it. A table is

    {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-3", "4-7"]}],
     "nics": [{"name": "hsi0", "gpus": "0", "path": "PIX"}],
     "devices": [{"model": "GH200", "memory": 96, "gpus": "0-7", "c2c": 450}],
     "distances": {"locality": "numa", "values": [[10, 12, 32], [12, 10, 32], [32, 32, 10]]}}

Each of its keys may be missing, and unknown keys are ignored. No pair of GPUs may be joined twice,
no GPU may have two models, and all NICs nearest to a GPU must be equally near.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import attrs

from treepool.errors import InvalidKey
from treepool.rfc import idset
from treepool.rfc.findings import Findings, Readers, plain_json, pointer_to, shown_ids
from treepool.rfc.idset import union

#: Types of fast link between GPUs: NVIDIA's, AMD's, and Intel's Xe Link.
FAST = ("nvlink", "xgmi", "xelink")

#: What a job asks for if any of these will do.
ANY_FAST = "fast"

#: All types of link.
TYPES = (*FAST, "pcie")

#: How near two PCI devices are, nearest first, in the terms of ``nvidia-smi topo`` and one more:
#: SOCKET is the path between NUMA nodes of one socket.
PATHS = ("PIX", "PXB", "PHB", "NODE", "SOCKET", "SYS")

#: GPU ids are below this. Today's largest node has 112: 16 GPUs with seven MIG slices each. A node
#: of partitioned MI300X has 64.
MAX_GPUS = 128

#: Fastest link, in GB/s, and largest GPU memory, in GiB: a thousand times those of today.
MAX_GBPS = 1_000_000
MAX_MEMORY = 1 << 20

#: Most memory domains that have distances, and the farthest; ACPI's distances are below 256.
MAX_DOMAINS = 256
MAX_DISTANCE = 1 << 16

#: Longest name of a NIC or model, in characters.
MAX_NAME = 128


@attrs.frozen
class Link:
    """All pairs within each of ``among`` (bitmasks of GPU ids) are joined by links of this type.

    ``type`` is one of TYPES; ``gbps`` is GB/s per direction between the two.
    """

    type: str
    gbps: float
    among: tuple[int, ...]


@attrs.frozen
class Nic:
    """A NIC, and the GPUs (bitmask) that have no nearer NIC. Other NICs may be as near.

    ``path`` is how near it is to them, one of PATHS.
    """

    name: str
    gpus: int
    path: str


@attrs.frozen
class Device:
    """The model and memory (GiB, 0 if unknown) of some GPUs (bitmask).

    ``c2c`` is the GB/s per direction of NVLink-C2C between each of them and its CPU, 0 without it.
    """

    model: str
    memory: int
    gpus: int
    c2c: float = 0.0


@attrs.frozen
class Distances:
    """How far the domains of a locality, by their lowest cores, are from each other's memory.

    ``values`` is a matrix as in ACPI's SLIT: 10 is local, and a larger number is farther.
    """

    locality: str
    values: tuple[tuple[int, ...], ...]


@attrs.frozen(order=True)
class Wire:
    """The link between one pair of GPUs: its type and its GB/s per direction."""

    type: str
    gbps: float


@attrs.frozen
class Links:
    """The links, NICs and GPU models of one kind of node. The link of any other pair is unknown."""

    links: tuple[Link, ...] = ()
    nics: tuple[Nic, ...] = ()
    devices: tuple[Device, ...] = ()
    #: None if all domains are as far from each other, or it is not known.
    distances: Optional[Distances] = None
    #: All GPUs named anywhere, as bitmask.
    gpus: int = attrs.field(init=False, repr=False, eq=False)

    @gpus.default
    def _all_gpus(self) -> int:
        named = [among for link in self.links for among in link.among]
        named += [nic.gpus for nic in self.nics] + [device.gpus for device in self.devices]
        return idset.union(named)

    @classmethod
    def from_matrix(
        cls,
        pairs: Mapping[tuple[int, int], Wire],
        nics: Iterable[Nic] = (),
        devices: Iterable[Device] = (),
    ) -> Links:
        """The table of the *pairs* of GPUs, each given once. The fastest links come first.

        Equal pairs give equal tables. GPUs that are all joined by the same link become one
        ``among``. The sets are chosen greedily: they contain each pair exactly once, and few sets
        are needed where links form groups.
        """
        graphs: dict[Wire, dict[int, int]] = {}
        for (a, b), wire in pairs.items():
            graph = graphs.setdefault(wire, {})
            graph[a] = graph.get(a, 0) | 1 << b
            graph[b] = graph.get(b, 0) | 1 << a
        ordered = sorted(graphs, key=lambda wire: (-wire.gbps, wire.type))
        links = tuple(Link(wire.type, wire.gbps, _cover(graphs[wire])) for wire in ordered)
        return cls(links, tuple(nics), tuple(devices))

    def pairs(self) -> dict[tuple[int, int], Wire]:
        """The link of each pair of GPUs that has one. The lower id comes first."""
        wires: dict[tuple[int, int], Wire] = {}
        for link in self.links:
            wire = Wire(link.type, link.gbps)
            for among in link.among:
                ids = list(idset.iterate(among))
                wires.update(((a, b), wire) for i, a in enumerate(ids) for b in ids[i + 1 :])
        return wires

    def nics_of(self, gpu: int) -> tuple[str, ...]:
        """The names of the NICs nearest to *gpu*, the one that it should use first.

        GPUs that share NICs begin with different ones, in turn, so that each NIC has its share.
        """
        near = [nic for nic in self.nics if nic.gpus >> gpu & 1]
        if not near:
            return ()
        sharing = near[0].gpus  # the GPUs near all of these NICs
        for nic in near:
            sharing &= nic.gpus
        first = idset.size(sharing & ((1 << gpu) - 1)) % len(near)
        return tuple(nic.name for nic in (*near[first:], *near[:first]))

    def renumbered(self, ids: Sequence[int]) -> Links:
        """The table in which GPU ids[i] is called i; GPUs that are not in *ids* are left out."""

        def moved(gpus: int) -> int:
            return idset.from_ids(
                new for new, old in enumerate(ids) if old >= 0 and gpus >> old & 1
            )

        links = (attrs.evolve(one, among=tuple(map(moved, one.among))) for one in self.links)
        return attrs.evolve(
            self,
            links=tuple(links),
            nics=tuple(attrs.evolve(nic, gpus=moved(nic.gpus)) for nic in self.nics),
            devices=tuple(attrs.evolve(one, gpus=moved(one.gpus)) for one in self.devices),
        )

    @property
    def kind(self) -> str:
        """The form of the graph of links: "all-to-all", "pairs", "mesh", "pcie" or "none".

        "all-to-all": more than two GPUs, and the same NVLink or xGMI between any two of them, with
        or without a switch, so all choices are equally good. "pairs": each GPU has such a link to
        at most one other. "mesh": any other graph of such links. "pcie": only PCIe is known.
        "none": no link is known.
        """
        pairs = self.pairs()
        fast = {pair: wire for pair, wire in pairs.items() if wire.type != "pcie"}
        if not fast:
            return "pcie" if pairs else "none"
        count = idset.size(self.gpus)
        if count > 2 and len(fast) == count * (count - 1) // 2 and len(set(fast.values())) == 1:
            return "all-to-all"
        partners = [gpu for pair in fast for gpu in pair]
        return "pairs" if len(set(partners)) == len(partners) else "mesh"

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON, without the keys that would be empty."""
        table: dict[str, Any] = {}
        if self.links:
            table["links"] = [
                {
                    "type": link.type,
                    "gbps": _plain(link.gbps),
                    "among": [idset.encode(among) for among in link.among],
                }
                for link in self.links
            ]
        if self.nics:
            table["nics"] = [
                {"name": nic.name, "gpus": idset.encode(nic.gpus), "path": nic.path}
                for nic in self.nics
            ]
        if self.devices:
            table["devices"] = [
                {"model": d.model, "memory": d.memory, "gpus": idset.encode(d.gpus)}
                | ({"c2c": _plain(d.c2c)} if d.c2c else {})
                for d in self.devices
            ]
        if self.distances:
            values = [list(row) for row in self.distances.values]
            table["distances"] = {"locality": self.distances.locality, "values": values}
        return table


def canonical(topo: Mapping[str, Any]) -> str:
    """Text that is equal for equal topos."""
    return json.dumps(topo, sort_keys=True, separators=(",", ":"))


def digest(topo: Mapping[str, Any]) -> str:
    """The name of a topo in ``scheduling.links``: the hex SHA-256 of its canonical text."""
    import hashlib  # here, as it loads OpenSSL, which takes 4 ms

    return hashlib.sha256(canonical(topo).encode("ascii")).hexdigest()


def _plain(amount: float) -> Union[int, float]:
    """A whole number without the ".0"."""
    return int(amount) if float(amount).is_integer() else amount


def _cover(graph: dict[int, int]) -> tuple[int, ...]:
    """Cliques that contain each edge of *graph* (neighbours as bitmask, by GPU) exactly once.

    A clique grows from the lowest GPU with an edge left, each time by the GPU that keeps the most
    candidates. Disjoint cliques are therefore found whole. 64 GPUs without a triangle take 0.1 s.
    *graph* is empty afterwards.
    """
    cliques: list[int] = []
    for gpu in sorted(graph):
        while graph[gpu]:
            clique, others = 1 << gpu, graph[gpu]
            while others:
                best = max(idset.iterate(others), key=lambda o: (idset.size(others & graph[o]), -o))
                clique |= 1 << best
                others &= graph[best]
            for member in idset.iterate(clique):
                graph[member] &= ~clique
            cliques.append(clique)
    return tuple(cliques)


#: Most tables in a key. Even a mixed cluster has fewer kinds of nodes.
MAX_TABLES = 1 << 14

_DIGEST = re.compile("[0-9a-f]{64}")


def read_links(table: Union[Mapping[str, Any], str]) -> Links:
    """The links in one table, a dict or JSON text.

    Raises InvalidKey with the first problem and its JSON pointer in the table.
    """
    findings = Findings()
    links = _Reader(findings).table(plain_json(table, InvalidKey, "link table"), "")
    findings.check(InvalidKey)
    return links


def read_tables(findings: Findings, value: object, at: str) -> dict[str, Links]:
    """The tables of ``scheduling.links`` *value* at JSON pointer *at*, by digest.

    Problems are noted in *findings*, and the result is then of no use.
    """
    if isinstance(value, dict) and len(value) > MAX_TABLES:
        findings.note(at, f"has more than {MAX_TABLES} tables")
        return {}
    tables = findings.values(value, at, lambda table, at: _Reader(findings).table(table, at))
    for name in tables:
        if not _DIGEST.fullmatch(name):
            findings.note(pointer_to(at, name), "is not the digest of a topo")
    return tables


class _Reader:
    """Reads one table, and keeps which GPUs are taken."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.joined: dict[int, int] = {}  # by GPU, the bitmask of those that a link joins it to
        self.with_nic: dict[str, int] = {}  # the bitmask of GPUs by the path to their NICs
        self.with_model = 0

    def table(self, value: object, at: str) -> Links:
        """table: '{' ("links" | "nics" | "devices") ':' array | "distances" ':' object, ... '}'"""
        items = self.findings.items
        readers: Readers = {
            "links": lambda v, at: items(v, at, self.link),
            "nics": lambda v, at: items(v, at, self.nic),
            "devices": lambda v, at: items(v, at, self.device),
        }
        members = self.findings.members(value, at, {**readers, "distances": self.distances})
        links, nics, devices = (tuple(members.get(what, ())) for what in readers)
        return Links(links, nics, devices, members.get("distances"))

    def distances(self, value: object, at: str) -> Distances:
        """A square matrix of distances between the domains of a locality."""
        findings = self.findings

        def rows(value: object, at: str) -> tuple[tuple[int, ...], ...]:
            if isinstance(value, list) and len(value) > MAX_DOMAINS:
                findings.note(at, f"has more than {MAX_DOMAINS} rows")
                return ()
            rows = findings.items(value, at, lambda v, at: findings.items(v, at, distance), 1)
            for i, row in enumerate(rows):
                if len(row) != len(rows):
                    findings.note(f"{at}/{i}", f"must have {len(rows)} numbers, not {len(row)}")
            return tuple(tuple(row) for row in rows)

        def distance(value: object, at: str) -> int:
            return findings.integer(value, at, 0, MAX_DISTANCE)

        readers: Readers = {"locality": self.name, "values": rows}
        members = findings.members(value, at, readers, required=readers)
        return Distances(members.get("locality", ""), members.get("values", ()))

    def link(self, value: object, at: str) -> Link:
        """One type of link, and the sets of GPUs within which it joins all pairs."""
        findings = self.findings
        readers: Readers = {
            "type": lambda v, at: findings.one_of(v, at, TYPES),
            "gbps": lambda v, at: findings.number(v, at, 0, MAX_GBPS),
            "among": lambda v, at: findings.items(v, at, self.among, least=1),
        }
        members = findings.members(value, at, readers, required=readers)
        return Link(
            members.get("type", ""), members.get("gbps", 0.0), tuple(members.get("among", ()))
        )

    def among(self, value: object, at: str) -> int:
        """A set of GPUs. None of its pairs may be joined already."""
        known = len(self.findings)
        gpus = self.gpus(value, at)
        if len(self.findings) > known:
            return 0
        if idset.size(gpus) < 2:
            self.findings.note(at, "must have at least two GPUs")
            return 0
        twice = 0
        for gpu in idset.iterate(gpus):
            joined = self.joined.get(gpu, 0)
            twice |= joined & gpus
            self.joined[gpu] = joined | gpus & ~(1 << gpu)
        if twice:
            self.findings.note(at, f"pairs among GPUs {shown_ids(twice)} are joined already")
        return gpus

    def nic(self, value: object, at: str) -> Nic:
        """A NIC, and the GPUs that have no nearer one."""
        readers: Readers = {
            "name": self.name,
            "gpus": self.gpus,
            "path": lambda v, at: self.findings.one_of(v, at, PATHS),
        }
        members = self.findings.members(value, at, readers, required=readers)
        gpus, path = members.get("gpus", 0), members.get("path", "")
        other = gpus & union(mask for word, mask in self.with_nic.items() if word != path)
        if other:
            message = f"GPUs {shown_ids(other)} have another path to a NIC in an earlier entry"
            self.findings.note(pointer_to(at, "gpus"), message)
        self.with_nic[path] = self.with_nic.get(path, 0) | gpus
        return Nic(members.get("name", ""), gpus, path)

    def device(self, value: object, at: str) -> Device:
        """The model and memory of some GPUs."""
        readers: Readers = {
            "model": self.name,
            "memory": lambda v, at: self.findings.integer(v, at, 0, MAX_MEMORY),
            "gpus": lambda v, at: self.gpus(v, at, self.with_model),
            "c2c": lambda v, at: self.findings.number(v, at, 0, MAX_GBPS),
        }
        members = self.findings.members(value, at, readers, required=("model", "memory", "gpus"))
        gpus = members.get("gpus", 0)
        self.with_model |= gpus
        c2c = members.get("c2c", 0.0)
        return Device(members.get("model", ""), members.get("memory", 0), gpus, c2c)

    def gpus(self, value: object, at: str, earlier: int = 0) -> int:
        """A set of GPUs, which may not have any of the *earlier* ones; 0 after a problem."""
        gpus = self.findings.idset(value, at)
        if gpus >> MAX_GPUS:
            message = f"GPU ids go up to {MAX_GPUS - 1}, not {gpus.bit_length() - 1}"
            self.findings.note(at, message)
            return 0
        self.findings.repeated(at, "GPUs", gpus & earlier)
        return gpus

    def name(self, value: object, at: str) -> str:
        """The name of a NIC, a model or a locality."""
        name = self.findings.string(value, at, least=1)
        if len(name) > MAX_NAME or not name.isprintable():
            self.findings.note(at, f"must be at most {MAX_NAME} printable characters")
        return name
