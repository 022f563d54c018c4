"""The links between an AMD node's GPUs: ``rocm-smi --showtopo`` and ``amd-smi topology``.

Both print a table each for the weight, the hops and the type of the links between GPUs, which
``rocm-smi`` calls GPU0, GPU1, ... and ``amd-smi`` by their PCI bus ids. ``rocm-smi`` also tells the
NUMA node of each GPU, and ``amd-smi`` (``rocm-smi --shownodesbw``) bandwidths. ``amd-smi topology
--json`` has the same as JSON. See ROCm's documentation of rsmi_topo_get_link_weight: a weight is
the distance, 15 for a direct xGMI link and more for each further one.
"""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

from treepool.discovery.links import PCIE_GBPS, Pairs
from treepool.discovery.told import XGMI_GBPS, Told
from treepool.errors import InvalidHardware
from treepool.rfc.findings import Findings, Readers, plain_json, shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, Wire

#: Longest text accepted, in characters. 128 GPUs need 1 MiB, as JSON 4 MiB.
MAX_TEXT = 8 << 20

#: Weight of a direct xGMI link, and the largest weight of a path through one socket.
_DIRECT, _ONE_SOCKET = 15, 40

#: Tables by a word of their title.
_TITLES = {"weight": "weight", "link type": "link_type", "bandwidth": "bandwidth"}
_TITLES["numa bw"] = "bandwidth"

_TITLE = re.compile(r"[=\s]*([A-Za-z -]{3,40}?)(?: between two GPUs| TABLE:)[=\s]*", re.ASCII)
_DEVICE = re.compile(r"GPU(\d{1,3})|([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.ASCII)
_NUMA = re.compile(r"GPU ?\[?(\d{1,3})\]?\s*: \(Topology\) Numa Node: (\d{1,5})\s*", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)

_WHOLE = "; a table that a terminal has folded cannot be read: write it to a file with > FILE"


def read_topo(text: str) -> Told:
    """What the text of either tool says; raises InvalidHardware, with line or JSON pointer."""
    if len(text) > MAX_TEXT:
        raise InvalidHardware(f"amd-smi: more than {MAX_TEXT >> 20} MiB of text is no table")
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        return _of_json(text)
    return _of_text(text)


class _Cells:
    """What is known of the pairs of GPUs, by the name of a table."""

    def __init__(self) -> None:
        self.of: dict[str, dict[tuple[int, int], str]] = {}

    def told(self, numa: dict[int, int], pci: dict[int, str]) -> Told:
        pairs: Pairs = {}
        nominal = set()
        for (a, b), kind in self.of.get("link_type", {}).items():
            if a < b:
                weight = self.of.get("weight", {}).get((a, b), "")
                bandwidth = self.of.get("bandwidth", {}).get((a, b), "")
                wire, known = _wire(kind, weight, bandwidth)
                if wire is not None:
                    pairs[a, b] = wire
                if not known:
                    nominal.add((a, b))
        near = dict.fromkeys(sorted({*numa, *pci, *(i for pair in pairs for i in pair)}), 0)
        return Told("amd-smi", "amd", pairs, near, numa, pci, nominal=frozenset(nominal))


def _wire(kind: str, weight: str, bandwidth: str) -> tuple[Optional[Wire], bool]:
    """The link of this type, weight and bandwidth (MB/s), and whether its GB/s are known."""
    far = int(weight) if weight.isascii() and weight.isdigit() and len(weight) < 6 else 0
    if kind == "PCIE":
        return Wire("pcie", PCIE_GBPS["NODE" if far <= _ONE_SOCKET else "SYS"]), True
    if kind != "XGMI":
        return None, True
    match = _RANGE.fullmatch(bandwidth)
    if match and int(match[2]):
        return Wire("xgmi", min(int(match[2]) / 1000, MAX_GBPS)), True
    return Wire("xgmi", XGMI_GBPS * _DIRECT / max(far, _DIRECT)), False


# -- text


def _of_text(text: str) -> Told:
    cells = _Cells()
    numa: dict[int, int] = {}
    pci: dict[int, str] = {}
    table = ""
    header: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        where = f"amd-smi: line {number}"
        title, node = _TITLE.fullmatch(line), _NUMA.fullmatch(line)
        words = line.split()
        if title:
            table, header = _TITLES.get(title[1].strip().lower(), ""), []
        elif node:
            numa[_id(node[1], where)] = 1 << int(node[2])
        elif table and not header and words:
            header = _header(words, where, pci)
        elif table and header and words and _DEVICE.fullmatch(words[0]):
            if words[0] not in header or len(words) != len(header) + 1:
                raise InvalidHardware(
                    f"{where}: {shown(words[0])} begins no row of {len(header)} GPUs{_WHOLE}"
                )
            row = header.index(words[0])
            for column, word in enumerate(words[1:]):
                cells.of.setdefault(table, {})[row, column] = word
    if not cells.of.get("link_type"):
        raise InvalidHardware("amd-smi: line 1: there is no table of link types between GPUs")
    return cells.told(numa, pci)


def _header(words: Sequence[str], where: str, pci: dict[int, str]) -> list[str]:
    """The names of the columns; GPUs count in their order, which is that of their numbers."""
    for place, word in enumerate(words):
        match = _DEVICE.fullmatch(word)
        if match is None or (match[1] and int(match[1]) != place):
            raise InvalidHardware(f"{where}: {shown(word)} is not GPU {place}{_WHOLE}")
        if match[2]:
            pci[_id(str(place), where)] = word
    if len(set(words)) < len(words):
        raise InvalidHardware(f"{where}: two columns have one name")
    return list(words)


def _id(text: str, where: str) -> int:
    if int(text) >= MAX_GPUS:
        raise InvalidHardware(f"{where}: GPU {int(text)} is not among 0 to {MAX_GPUS - 1}")
    return int(text)


# -- JSON


def _of_json(text: str) -> Told:
    findings = Findings()
    cells = _Cells()
    pci: dict[int, str] = {}

    def word(value: object, at: str) -> str:
        if isinstance(value, (str, int)):
            return str(value)[:40]
        findings.note(at, "must be a text or a number")
        return ""

    def gpu(value: object, at: str) -> dict[str, Any]:
        found = findings.members(value, at, {**ends, "links": links}, required=("gpu", "links"))
        pci[found.get("gpu", 0)] = found.get("bdf", "")
        for link in found.get("links", ()):
            for table in ("weight", "link_type", "bandwidth"):
                pair = (found.get("gpu", 0), link.get("gpu", 0))
                cells.of.setdefault(table, {})[pair] = link.get(table, "")
        return found

    def links(value: object, at: str) -> list[dict[str, Any]]:
        readers: Readers = {**ends, "weight": word, "link_type": word, "bandwidth": word}
        return findings.items(
            value, at, lambda v, at: findings.members(v, at, readers, required=("gpu", "link_type"))
        )

    ends: Readers = {"gpu": lambda v, at: findings.integer(v, at, 0, MAX_GPUS - 1), "bdf": word}
    document = plain_json(text, InvalidHardware, "amd-smi")
    if isinstance(document, dict):  # newer versions name the list
        document = next((v for v in document.values() if isinstance(v, list)), document)
    findings.items(document, "", gpu, least=1)
    findings.check(InvalidHardware)
    return cells.told({}, {i: bus for i, bus in pci.items() if bus})
