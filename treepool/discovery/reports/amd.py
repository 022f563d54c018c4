"""The links between an AMD node's GPUs: ``rocm-smi --showtopo`` and ``amd-smi topology``.

Both tools print three tables: the weights, the hops and the types of the links between GPUs.
``rocm-smi`` calls the GPUs GPU0, GPU1, ..., and ``amd-smi`` names them by their PCI bus ids.
``rocm-smi`` also prints the NUMA node of each GPU; ``amd-smi`` and ``rocm-smi --shownodesbw`` also
print bandwidths. ``amd-smi topology --json`` has the same as JSON. A weight is a distance: 15 for a
direct xGMI link, and as much for each further link (see ROCm's documentation of
rsmi_topo_get_link_weight). The tools print one hop for every pair that xGMI joins, and 0-0 as the
bandwidth of those without a link of their own. GPUs that any of the columns puts two links apart,
or more, have no link of their own, whatever the others say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, DefaultDict, Sequence

from treepool.discovery.linking import PCIE_GBPS, XGMI_GBPS, Pairs
from treepool.discovery.reports.report import ToolReport
from treepool.errors import InvalidHardware
from treepool.rfc.findings import Findings, Readers, plain_json, shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, Wire

#: Longest text accepted, in characters. 128 GPUs need 1 MiB, as JSON 4 MiB.
MAX_TEXT = 8 << 20

#: Weight of a direct xGMI link, and the largest weight of a path through one socket.
_DIRECT, _ONE_SOCKET = 15, 40

#: The cells of each table, by pairs of GPUs.
_Cells = DefaultDict[str, dict[tuple[int, int], str]]

#: The names of tables, by their titles.
_TITLES = {"weight": "weight", "hops": "num_hops", "link type": "link_type"}
_TITLES.update({"bandwidth": "bandwidth", "numa bw": "bandwidth"})

_TABLES = tuple(dict.fromkeys(_TITLES.values()))

_TITLE = re.compile(
    r"[=\s]*([A-Za-z][A-Za-z -]{2,39}?)(?: between two GPUs| TABLE:)[=\s]*", re.ASCII
)
_WORD = re.compile(r"\S+")
_DEVICE = re.compile(r"GPU(\d{1,3})|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.ASCII)
_NUMA = re.compile(r"GPU ?\[?(\d{1,3})\]?\s*: \(Topology\) Numa Node: (\d{1,5})\s*", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)

#: A line that is added to the text, so that the last table ends like the others.
_END = "END TABLE:"

_WHOLE = "; a table that a terminal has folded cannot be read: write it to a file with > FILE"


def read_topo(text: str) -> ToolReport:
    """The report in the text of either tool; raises InvalidHardware, with line or JSON pointer."""
    if len(text) > MAX_TEXT:
        raise InvalidHardware(f"amd-smi: more than {MAX_TEXT >> 20} MiB of text is not a table")
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        return _of_json(text)
    return _of_text(text)


def _report(cells: _Cells, numa: dict[int, int], pci: dict[int, str]) -> ToolReport:
    """The report that the tables make. If two rows differ on a link, the slower one counts."""
    pairs: Pairs = {}
    nominal: set[tuple[int, int]] = set()
    routed: set[tuple[int, int]] = set()
    kinds = cells["link_type"]
    has_rates = any(map(_most, cells["bandwidth"].values()))
    for (a, b), kind in kinds.items():
        weight, hops, mbps = (cells[t].get((a, b), "") for t in ("weight", "num_hops", "bandwidth"))
        pair, far = (min(a, b), max(a, b)), _number(weight)
        if a == b or kind not in ("PCIE", "XGMI"):
            continue
        unlinked = has_rates and mbps == "0-0"
        if kind == "XGMI" and (unlinked or max(_number(hops), round(far / _DIRECT)) > 1):
            routed.add(pair)
            continue
        wire, known = Wire("pcie", PCIE_GBPS["NODE" if far <= _ONE_SOCKET else "SYS"]), True
        if kind == "XGMI":
            wire, known = _xgmi(mbps)
        if pair not in pairs or wire.gbps < pairs[pair].gbps:
            pairs[pair] = wire
            (nominal.discard if known else nominal.add)(pair)
    for pair in routed:
        pairs.pop(pair, None)
    near = dict.fromkeys(sorted({*numa, *pci, *(i for pair in kinds for i in pair)}), 0)
    return ToolReport(
        "amd-smi",
        "amd",
        pairs,
        near,
        numa,
        {i: bus for i, bus in pci.items() if bus},
        nominal=frozenset(nominal & pairs.keys()),
        routed=frozenset(routed),
    )


def _xgmi(bandwidth: str) -> tuple[Wire, bool]:
    """The direct link of this bandwidth (MB/s), and whether its GB/s are known."""
    most = _most(bandwidth)
    return Wire("xgmi", min(most / 1000, MAX_GBPS) if most else XGMI_GBPS), most > 0


def _most(bandwidth: str) -> int:
    """The larger number of a bandwidth such as 50000-200000; 0 if it is none."""
    match = _RANGE.fullmatch(bandwidth)
    return int(match[2]) if match else 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


# -- text


def _of_text(text: str) -> ToolReport:
    cells: _Cells = defaultdict(dict)
    numa: dict[int, int] = {}
    names: list[str] = []
    columns: list[int] = []  # where the columns begin in the header above
    begun = 0  # the line of the first header
    table, headed = "", False
    for number, line in enumerate([*text.split("\n"), _END], 1):
        where = f"amd-smi: line {number}"
        title, node = _TITLE.fullmatch(line), _NUMA.fullmatch(line)
        words = line.split()
        if title:
            if headed and (lost := [i for i in range(len(names)) if (i, 0) not in cells[table]]):
                raise InvalidHardware(
                    f"{where}: the table ends without a row of {names[lost[0]]}{_WHOLE}"
                )
            table, headed = _TITLES.get(title[1].strip().lower(), ""), False
        elif node:
            numa[_id(int(node[1]), where)] = 1 << int(node[2])
        elif table and not headed and words:
            if not names:
                names, begun = _header(words, where), number
            elif words != names:
                raise InvalidHardware(f"{where}: the columns are not those of line {begun}")
            headed, columns = True, [word.start() for word in _WORD.finditer(line)]
        elif headed and words and _DEVICE.fullmatch(words[0]):
            if len(words) <= len(names):  # a cell that fills its column touches the next one
                words = _cut(line, columns)
            if words[0] not in names or len(words) != len(names) + 1:
                raise InvalidHardware(
                    f"{where}: {shown(words[0])} does not begin a row of {len(names)} GPUs{_WHOLE}"
                )
            row = names.index(words[0])
            if (row, 0) in cells[table]:
                raise InvalidHardware(f"{where}: {words[0]} has a row already")
            cells[table].update(((row, column), word) for column, word in enumerate(words[1:]))
    if not cells["link_type"]:
        raise InvalidHardware("amd-smi: line 1: there is no table of link types between GPUs")
    return _report(cells, numa, {i: name for i, name in enumerate(names) if ":" in name})


def _cut(line: str, columns: Sequence[int]) -> list[str]:
    """The cells of a row, cut where the *columns* begin; its name is before the first."""
    ends = zip((0, *columns), (*columns, len(line)))
    return [cell for first, last in ends if (cell := line[first:last].strip())]


def _header(words: Sequence[str], where: str) -> list[str]:
    """The names of the columns, which are the GPUs in the order of their ids."""
    for place, word in enumerate(words):
        match = _DEVICE.fullmatch(word)
        if match is None or (match[1] and int(match[1]) != place):
            raise InvalidHardware(f"{where}: {shown(word)} is not GPU {place}{_WHOLE}")
        _id(place, where)
    if len(set(words)) < len(words):
        raise InvalidHardware(f"{where}: two columns have one name")
    return list(words)


def _id(number: int, where: str) -> int:
    if number >= MAX_GPUS:
        raise InvalidHardware(f"{where}: GPU {number} is not among 0 to {MAX_GPUS - 1}")
    return number


# -- JSON


def _of_json(text: str) -> ToolReport:
    findings = Findings()
    cells: _Cells = defaultdict(dict)
    pci: dict[int, str] = {}

    def word(value: object, at: str) -> str:
        if isinstance(value, (str, int)):
            return str(value)[:40]
        findings.note(at, "must be a text or a number")
        return ""

    def gpu(value: object, at: str) -> dict[str, Any]:
        found = findings.members(value, at, {**ends, "links": links}, required=("gpu", "links"))
        number = found.get("gpu", -1)
        if number in pci:
            findings.note(at, f"GPU {number} is there already")
        pci[number] = found.get("bdf", "")
        for link in found.get("links", ()):
            for table in _TABLES:
                cells[table][number, link.get("gpu", 0)] = link.get(table, "")
        return found

    def links(value: object, at: str) -> list[dict[str, Any]]:
        readers: Readers = {**ends, **dict.fromkeys(_TABLES, word)}
        return findings.items(
            value, at, lambda v, at: findings.members(v, at, readers, required=("gpu", "link_type"))
        )

    ends: Readers = {"gpu": lambda v, at: findings.integer(v, at, 0, MAX_GPUS - 1), "bdf": word}
    document = plain_json(text, InvalidHardware, "amd-smi")
    if isinstance(document, dict):  # newer versions name the list
        document = next((v for v in document.values() if isinstance(v, list)), document)
    findings.items(document, "", gpu, least=1)
    findings.check(InvalidHardware)
    return _report(cells, {}, pci)
