"""Link tables from JSON: reads and checks ``scheduling.links`` of a key.

    {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-3", "4-7"]}],
     "nics": [{"name": "hsi0", "gpus": "0", "path": "PIX"}],
     "devices": [{"model": "A100", "memory": 80, "gpus": "0-7"}],
     "distances": {"locality": "numa", "values": [[10, 12, 32], [12, 10, 32], [32, 32, 10]]}}

is a table. Each of its keys may be missing, and unknown keys are ignored. No pair of GPUs may be
joined twice, no GPU may have two models, and all NICs nearest to a GPU must be equally near.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Union

from treepool.errors import InvalidKey
from treepool.rfc import idset
from treepool.rfc.findings import Findings, Readers, plain_json, pointer_to, shown_ids
from treepool.rfc.idset import union
from treepool.rfc.links import (
    MAX_DISTANCE,
    MAX_DOMAINS,
    MAX_GBPS,
    MAX_GPUS,
    MAX_MEMORY,
    MAX_NAME,
    PATHS,
    TYPES,
    Device,
    Distances,
    Link,
    Links,
    Nic,
)

#: Most tables in a key. Even a mixed cluster has fewer kinds of nodes.
MAX_TABLES = 1 << 14

_DIGEST = re.compile("[0-9a-f]{64}")


def read(table: Union[Mapping[str, Any], str]) -> Links:
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
        found = self.findings.members(value, at, {**readers, "distances": self.distances})
        links, nics, devices = (tuple(found.get(what, ())) for what in readers)
        return Links(links, nics, devices, found.get("distances"))

    def distances(self, value: object, at: str) -> Distances:
        """A square matrix of distances between the domains of a locality."""
        findings = self.findings

        def rows(value: object, at: str) -> tuple[tuple[int, ...], ...]:
            if isinstance(value, list) and len(value) > MAX_DOMAINS:
                findings.note(at, f"has more than {MAX_DOMAINS} rows")
                return ()
            found = findings.items(value, at, lambda v, at: findings.items(v, at, distance), 1)
            for i, row in enumerate(found):
                if len(row) != len(found):
                    findings.note(f"{at}/{i}", f"must have {len(found)} numbers, not {len(row)}")
            return tuple(tuple(row) for row in found)

        def distance(value: object, at: str) -> int:
            return findings.integer(value, at, 0, MAX_DISTANCE)

        readers: Readers = {"locality": self.name, "values": rows}
        found = findings.members(value, at, readers, required=readers)
        return Distances(found.get("locality", ""), found.get("values", ()))

    def link(self, value: object, at: str) -> Link:
        """One type of link, and the sets of GPUs within which it joins all pairs."""
        findings = self.findings
        readers: Readers = {
            "type": lambda v, at: findings.one_of(v, at, TYPES),
            "gbps": lambda v, at: findings.number(v, at, 0, MAX_GBPS),
            "among": lambda v, at: findings.items(v, at, self.among, least=1),
        }
        found = findings.members(value, at, readers, required=readers)
        return Link(found.get("type", ""), found.get("gbps", 0.0), tuple(found.get("among", ())))

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
        found = self.findings.members(value, at, readers, required=readers)
        gpus, path = found.get("gpus", 0), found.get("path", "")
        other = gpus & union(mask for word, mask in self.with_nic.items() if word != path)
        if other:
            message = f"GPUs {shown_ids(other)} have another path to a NIC in an earlier entry"
            self.findings.note(pointer_to(at, "gpus"), message)
        self.with_nic[path] = self.with_nic.get(path, 0) | gpus
        return Nic(found.get("name", ""), gpus, path)

    def device(self, value: object, at: str) -> Device:
        """The model and memory of some GPUs."""
        readers: Readers = {
            "model": self.name,
            "memory": lambda v, at: self.findings.integer(v, at, 0, MAX_MEMORY),
            "gpus": lambda v, at: self.gpus(v, at, self.with_model),
        }
        found = self.findings.members(value, at, readers, required=readers)
        self.with_model |= found.get("gpus", 0)
        return Device(found.get("model", ""), found.get("memory", 0), found.get("gpus", 0))

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
