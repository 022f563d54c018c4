"""The link table: what connects the GPUs of one kind of node, the NICs nearest to each, and how far
its memory domains are from each other.

The key holds the tables as ``scheduling.links``, an object whose keys are digests of topos
(``digest``). It is treepool's own addition to RFC 49, and other readers ignore it. It names no
ranks, so trimming and renumbering do not change it. ``linktable.py`` reads it.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import attrs

from treepool.rfc import idset

#: Types of link; the first two are between GPUs alone.
TYPES = ("nvlink", "xgmi", "pcie")

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

    ``type`` is "nvlink", "xgmi" or "pcie"; ``gbps`` is GB/s per direction between the two.
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
    """The model and memory (GiB, 0 if unknown) of some GPUs (bitmask)."""

    model: str
    memory: int
    gpus: int


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
        found: dict[tuple[int, int], Wire] = {}
        for link in self.links:
            wire = Wire(link.type, link.gbps)
            for among in link.among:
                ids = list(idset.iterate(among))
                found.update(((a, b), wire) for i, a in enumerate(ids) for b in ids[i + 1 :])
        return found

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
    found: list[int] = []
    for gpu in sorted(graph):
        while graph[gpu]:
            clique, others = 1 << gpu, graph[gpu]
            while others:
                best = max(idset.iterate(others), key=lambda o: (idset.size(others & graph[o]), -o))
                clique |= 1 << best
                others &= graph[best]
            for member in idset.iterate(clique):
                graph[member] &= ~clique
            found.append(clique)
    return tuple(found)
