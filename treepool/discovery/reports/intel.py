"""The text of ``xpu-smi topology -m``: the links between the tiles of an Intel node's GPUs.

A table with a row and a column for each tile, divided by bars, and the CPUs near each:

             GPU 0/0|GPU 0/1|GPU 1/0|GPU 1/1|CPU Affinity
    GPU 0/0 |S      |MDF    |XL*    |XL16   |0-23,48-71

A GPU without tiles is ``GPU 0``. S: itself. MDF: two tiles of one GPU. XL#: as many lanes of Xe
Link. XL*: through another tile, so these have no link of their own. Other words are paths on PCIe.
"""

from __future__ import annotations

import re
from typing import Optional

from treepool.discovery.linking import PCIE_GBPS, TILES_GBPS, XELINK_LANE_GBPS, Pairs
from treepool.discovery.reports.report import ToolReport
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, Wire

#: Longest text accepted, in characters. 128 tiles need 130 KiB.
MAX_TEXT = 1 << 20

_TOOL = "xpu-smi"
_GPU = re.compile(r"GPU (\d{1,3})(?:/(\d{1,2}))?", re.ASCII)
_LANES = re.compile(r"XL(\d{1,4})", re.ASCII)
_AFFINITY = "CPU Affinity"


def read_topo(text: str) -> ToolReport:
    """The report in the text, tiles in its order; raises InvalidHardware, with the line."""
    if len(text) > MAX_TEXT:
        raise InvalidHardware(f"{_TOOL}: more than {MAX_TEXT >> 20} MiB of text is not a table")
    names: list[str] = []
    near: dict[int, int] = {}
    pairs: Pairs = {}
    routed: set[tuple[int, int]] = set()
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.strip().split("|")]
        where = f"{_TOOL}: line {number}"
        if not names:
            if len(cells) > 1 and _GPU.fullmatch(cells[0]) and cells[-1] == _AFFINITY:
                names = _header(cells[:-1], where)
        elif cells[0] in names and len(cells) > 1:
            row = names.index(cells[0])
            if len(cells) != len(names) + 2 or row in near:
                raise InvalidHardware(f"{where}: not the only row of {cells[0]} in this table")
            near[row] = _cpus(cells[-1], where)
            for column, word in enumerate(cells[1:-1]):
                pair = min(row, column), max(row, column)
                wire = _wire(word, where) if row != column else None
                if word == "XL*":
                    routed.add(pair)
                elif wire is not None and (pair not in pairs or wire.gbps < pairs[pair].gbps):
                    pairs[pair] = wire
        elif line.strip() and len(near) < len(names):
            raise InvalidHardware(f"{where}: {shown(cells[0])} is not a GPU of this table")
    if not names or len(near) < len(names):
        raise InvalidHardware(f"{_TOOL}: line 1: there is no table with a row for each GPU")
    for pair in routed:
        pairs.pop(pair, None)
    return ToolReport(_TOOL, "intel", pairs, near, routed=frozenset(routed))


def _header(cells: list[str], where: str) -> list[str]:
    """The names of the columns, which are tiles in the order of their ids."""
    for cell in cells:
        if not _GPU.fullmatch(cell):
            raise InvalidHardware(f"{where}: {shown(cell)} is not the name of a GPU")
    if len(set(cells)) < len(cells) or len(cells) > MAX_GPUS:
        raise InvalidHardware(f"{where}: a GPU has two columns, or there are over {MAX_GPUS}")
    return cells


def _wire(word: str, where: str) -> Optional[Wire]:
    lanes = _LANES.fullmatch(word)
    if lanes:
        return Wire("xelink", min(int(lanes[1]) * XELINK_LANE_GBPS, MAX_GBPS))
    if word == "MDF":
        return Wire("xelink", TILES_GBPS)
    if word in PCIE_GBPS:
        return Wire("pcie", PCIE_GBPS[word])
    if word in ("XL*", "N/A", ""):
        return None
    raise InvalidHardware(f"{where}: {shown(word)} is not a path between two GPUs")


def _cpus(text: str, where: str) -> int:
    """The bitmask of a list of CPUs such as 0-23,48-71; 0 if it is not known."""
    try:
        return idset.decode(text) if text and text[0].isdigit() else 0
    except ValueError:
        raise InvalidHardware(f"{where}: {shown(text)} is not a list of CPUs") from None
