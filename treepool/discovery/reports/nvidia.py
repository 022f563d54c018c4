"""The text of ``nvidia-smi topo -m``: links of NVIDIA GPUs, NVSwitches, CPUs and NICs near them.

The command prints a table with a row and a column for each GPU and NIC, and columns with the CPUs
and NUMA nodes near each GPU. A legend follows, and, if NICs are called NIC0, NIC1, ..., their
names. Drivers differ in the columns they print, in the use of tabs or blanks between them, and in
terminal escapes that underline the header. This module reads all of these variants, and is
therefore long.
"""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence, Union

import attrs

from treepool.discovery.linking import PCIE_GBPS, Pairs
from treepool.discovery.reports.report import NVLINK_GBPS, ToolReport
from treepool.errors import InvalidHardware
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, MAX_NAME, PATHS, Wire

#: Longest text accepted, in characters. 16 GPUs and 64 NICs need 64 KiB.
MAX_TEXT = 1 << 20

#: Longest line of the table, in characters: five times what 1,000 NICs need.
MAX_LINE = 1 << 15

#: Most NVLinks of one GPU. If it would take more to join a GPU to all others directly, they are
#: joined through switches.
MAX_NVLINKS = 18

#: Numbers of CPUs and NUMA nodes are below this. Linux has at most 8,192 CPUs.
MAX_CPUS = 1 << 16

#: Older words for a path: one switch on a board of two GPUs, and a path between sockets.
_OLDER = {"PSB": "PIX", "SOC": "SYS"}

#: Words for values that the driver does not know.
_UNKNOWN = ("N/A", "UNK", "-")

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_WORD = re.compile(r"\S+")
_GPU = re.compile(r"GPU(0|[1-9][0-9]{0,3})", re.ASCII)
_NIC = re.compile(r"NIC[0-9]{1,4}", re.ASCII)
_NVLINKS = re.compile(r"NV([0-9]{1,3})", re.ASCII)
_NIC_NAME = re.compile(r"\s*NIC[0-9]{1,4}:\s+\S", re.ASCII)
_TOOL = "nvidia-smi"
_WHOLE = "; a table that a terminal has folded cannot be read: nvidia-smi topo -m > FILE"

_NUMBERS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)

#: The columns after the devices: the words of their names, longest first.
_TAILS = (
    ("GPU", "NUMA", "ID"),
    ("CPU", "Affinity"),
    ("NUMA", "Affinity"),
    ("NUMA",),
)


@attrs.frozen
class _Word:
    """A word of the text, with its line and column, counted from 1."""

    text: str
    line: int
    column: int

    def error(self, message: str) -> InvalidHardware:
        return _error(self.line, self.column, f"{shown(self.text)} {message}")


def read_topo(text: Union[str, bytes]) -> ToolReport:
    """Read the text that ``nvidia-smi topo -m`` prints on a node.

    GPU ids are NVML's, as in the text. NV# is an NVLink of # times NVLINK_GBPS: the text does not
    give the version. GPUs without NVLink are joined by PCIe with nominal GB/s
    (``links.PCIE_GBPS``). "No devices were found" means a node without GPUs. Raises
    InvalidHardware, with line and column.
    """
    lines = _lines(text)
    start = next((number for number, line in enumerate(lines, 1) if _is_header(line)), 0)
    if not start:
        if any(line.split(None, 2)[:2] == ["No", "devices"] for line in lines):
            return ToolReport(_TOOL, "nvidia")
        raise _error(1, 1, "no line has column names such as GPU0")
    _refuse_pcie_only(lines)
    header = _words(lines, start)
    names, tails = _columns(header)
    rows = _rows(lines, start, names)
    ids = {name: int(name[3:]) for name in names if _GPU.fullmatch(name)}
    for name, gpu in ids.items():
        if gpu >= MAX_GPUS:
            raise header[names.index(name)].error(f"is not among GPU0 to GPU{MAX_GPUS - 1}")
        if name not in rows:
            raise _error(len(lines), 1, f"the text ends without a row of {name}{_WHOLE}")
    notes: list[str] = []
    pairs = _pairs(names, ids, rows, notes)
    nics = [place for place, name in enumerate(names) if name not in ids]
    titles = _nic_names(lines)
    tails_of = {ids[name]: _tail(lines, rows[name], len(names), tails) for name in ids}
    return ToolReport(
        _TOOL,
        "nvidia",
        pairs,
        near={gpu: values.get("CPU Affinity", 0) for gpu, values in tails_of.items()},
        numa={
            gpu: values.get("NUMA Affinity", 0) or values.get("NUMA", 0)
            for gpu, values in tails_of.items()
        },
        nics=[titles.get(names[nic], names[nic]) for nic in nics],
        paths={ids[name]: [_path(rows[name][1 + nic]) for nic in nics] for name in ids},
        nvswitch=_is_switched(pairs, len(ids)),
        notes=tuple(notes),
    )


def _refuse_pcie_only(lines: Sequence[str]) -> None:
    """Raise InvalidHardware for the table of option ``-mp``, whose legend knows no NVLink."""
    begin = next((n for n, line in enumerate(lines) if line.strip() == "Legend:"), len(lines))
    words = {line.split()[0] for line in lines[begin:] if " = " in line}
    if "SYS" in words and "NV#" not in words:
        message = "the table leaves NVLink out (-mp): use that of nvidia-smi topo -m"
        raise _error(begin + 1, 1, message)


def _is_switched(pairs: Pairs, gpus: int) -> bool:
    """Whether switches join the GPUs: all are joined, with more NVLinks than a GPU has."""
    links = [wire.gbps / NVLINK_GBPS for wire in pairs.values() if wire.type == "nvlink"]
    all_joined = gpus > 1 and len(links) == gpus * (gpus - 1) // 2
    return all_joined and min(links) * (gpus - 1) > MAX_NVLINKS


def _lines(text: Union[str, bytes]) -> list[str]:
    """The lines, without terminal escapes."""
    if len(text) > MAX_TEXT:
        raise _error(1, 1, f"more than {MAX_TEXT >> 20} MiB of text is not a table of one node")
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    # Only \n ends a line; a form feed or a lone \r inside a line is a blank.
    return _ESCAPE.sub("", plain.lstrip("\ufeff")).split("\n")


def _words(lines: Sequence[str], number: int) -> list[_Word]:
    """The words of the line of that number, counted from 1."""
    if len(lines[number - 1]) > MAX_LINE:
        raise _error(number, MAX_LINE, "the line is too long for a table of one node")
    found = _WORD.finditer(lines[number - 1])
    return [_Word(match.group(), number, match.start() + 1) for match in found]


def _is_header(line: str) -> bool:
    """Whether a line names columns: it begins like a row, but its second word is also a name."""
    first, second = [*line.split(None, 2)[:2], "", ""][:2]
    if not (_GPU.fullmatch(first) or _NIC.fullmatch(first)):
        return False
    return not (second == "X" or second in _UNKNOWN or _is_path(second))


def _columns(header: Sequence[_Word]) -> tuple[list[str], list[tuple[str, int]]]:
    """The names of the devices; the names of the columns after them, and where they begin."""
    words = [word.text for word in header]
    names: list[str] = []
    place = 0
    while place < len(words) and not _tail_at(words, place):
        word = header[place]
        if len(word.text) > MAX_NAME or not word.text.isprintable():
            raise word.error("is not the name of a device")
        names.append(word.text)
        place += 1
    if len(set(names)) < len(names):
        twice = next(w for i, w in enumerate(header) if w.text in words[:i])
        raise twice.error("has a column already")
    tails: list[tuple[str, int]] = []
    while place < len(words):
        tail = _tail_at(words, place)
        if not tail:
            raise header[place].error(f"is not a column that comes after the devices{_WHOLE}")
        tails.append((" ".join(tail), header[place].column))
        place += len(tail)
    return names, tails


def _tail_at(words: Sequence[str], place: int) -> tuple[str, ...]:
    """The words of the column of _TAILS whose name begins at *place*, () if there is none."""
    return next((t for t in _TAILS if tuple(words[place : place + len(t)]) == t), ())


def _rows(lines: Sequence[str], start: int, names: Sequence[str]) -> dict[str, list[_Word]]:
    """The row of each device that has one, up to the legend; each has a word per device.

    *start* is the number of the line before.
    """
    known = set(names)
    rows: dict[str, list[_Word]] = {}
    for number, line in enumerate(lines[start:], start + 1):
        name = "".join(line.split(None, 1)[:1])
        if name == "Legend:" or len(rows) == len(names):
            break
        words = _words(lines, number)
        if not words:
            continue
        if name not in known:
            raise words[0].error(f"is not a column of this table{_WHOLE}")
        if name in rows:
            raise words[0].error("has a row already")
        if len(words) <= len(names):
            row = f"a row of {len(words) - 1} words, not {len(names)} or more"
            raise words[-1].error(f"ends {row}{_WHOLE}")
        rows[name] = words
    return rows


def _pairs(
    names: Sequence[str], ids: Mapping[str, int], rows: Mapping[str, list[_Word]], notes: list[str]
) -> Pairs:
    """The link between each pair of GPUs; if the two rows differ, the slower link counts."""
    at = {name: place for place, name in enumerate(names, 1)}
    found: Pairs = {}
    ordered = sorted(ids, key=lambda name: ids[name])
    for i, a in enumerate(ordered):
        if rows[a][at[a]].text != "X":
            raise rows[a][at[a]].error(f"must be X, because its row and column are both {a}")
        for b in ordered[i + 1 :]:
            there, back = _wire(rows[a][at[b]]), _wire(rows[b][at[a]])
            known = [wire for wire in (there, back) if wire is not None]
            if there != back:
                words = f"{rows[a][at[b]].text} one way and {rows[b][at[a]].text} the other"
                notes.append(f"{a} and {b} are joined by {words}: the slower counts")
            if known:
                found[ids[a], ids[b]] = min(known, key=lambda wire: wire.gbps)
    return found


def _wire(word: _Word) -> Optional[Wire]:
    """The link that the word for a pair of GPUs means, None if the driver does not know it."""
    match = _NVLINKS.fullmatch(word.text)
    if match:
        if int(match.group(1)) == 0:
            raise word.error("is not a number of NVLinks")
        return Wire("nvlink", min(int(match.group(1)) * NVLINK_GBPS, MAX_GBPS))
    path = _path(word)
    return Wire("pcie", PCIE_GBPS[path]) if path else None


def _is_path(text: str) -> bool:
    return bool(_OLDER.get(text, text) in PATHS or _NVLINKS.fullmatch(text))


def _path(word: _Word) -> str:
    """The path that a word means, in current words; "" if the driver does not know it."""
    path = _OLDER.get(word.text, word.text)
    if path in PATHS:
        return path
    if word.text in _UNKNOWN:
        return ""
    raise word.error("is not a path between two devices")


def _tail(
    lines: Sequence[str], row: Sequence[_Word], devices: int, tails: Sequence[tuple[str, int]]
) -> dict[str, int]:
    """The bitmasks in the columns *tails* of a row, which come after those of its *devices*.

    The first of these columns, the CPU affinity, may be empty. If tabs divide the row, its cell is
    then empty; otherwise no word begins below its name. The other columns are read in order,
    because their cells are not aligned with the header.
    """
    words = row[devices + 1 :]
    if len(words) > len(tails):
        raise words[len(tails)].error(f"is after the last column{_WHOLE}")
    names = [name for name, _ in tails]
    if words and len(words) < len(names):
        cells = lines[row[0].line - 1].split("\t")[devices + 1 :]
        if cells:
            empty = not cells[0].strip()
        else:
            empty = words[0].column > tails[0][1]
        names = names[1:] if empty else names
    return dict(zip(names, map(_numbers, words)))


def _numbers(word: _Word) -> int:
    """The bitmask of a list such as 0-3,8, in any order; 0 if the list is not known."""
    if word.text in _UNKNOWN:
        return 0
    mask = 0
    for item in set(word.text.split(",")):
        match = _NUMBERS.fullmatch(item)
        if match is None:
            raise word.error("is not a list of numbers such as 0-3,8")
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        if last < first or last >= MAX_CPUS:
            raise word.error(f"has {item}, which does not ascend or is above {MAX_CPUS - 1}")
        mask |= (1 << (last + 1)) - (1 << first)
    return mask


def _nic_names(lines: Sequence[str]) -> dict[str, str]:
    """The names of NIC0, NIC1, ... from lines such as "NIC0: mlx5_0" at the end of the text."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if _NIC_NAME.match(line):
            key, title = _words(lines, number)[:2]
            if len(title.text) > MAX_NAME or not title.text.isprintable():
                raise title.error("is not the name of a NIC")
            found.setdefault(key.text[:-1], title.text)
    return found


def _error(line: int, column: int, message: str) -> InvalidHardware:
    return InvalidHardware(f"nvidia-smi: line {line} column {column}: {message}")
