"""Slurm's line format: slurm.conf, gres.conf, topology.conf and scontrol's output; keys of a line.

A line has pairs KEY=VALUE, and its first key says what it describes. The rules are Slurm's
(slurm.conf(5)): keys have no case; blanks may be around ``=``, and in a value in quotes; ``#``
begins a comment, also in a line that is continued; a backslash at the end of a line joins the next
one without a blank; ``Include FILE`` stands for the lines of that file. ``scontrol show node``
prints the same pairs in indented lines, and values with blanks without quotes.

A line that begins with a known key is read in full or refused with its number.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidHardware
from treepool.rfc.findings import shown
from treepool.rfc.quote import amount, did_you_mean

_NODE = (
    "BcastAddr Boards CoreSpecCount CoresPerSocket CPUs CPUSpecList CpuBind Feature Features Gres "
    "GresConf MemSpecLimit NodeAddr NodeHostname Parameters Port Procs RealMemory Reason "
    "RestrictedCoresPerGPU Sockets SocketsPerBoard State SuspendTime ThreadsPerCore TmpDisk "
    "Topology TRESWeights Weight"
)
_GRES = "AutoDetect Count CPUs Cores File Files Flags Link Links MultipleFiles Name Type"
_BLOCK = "Nodes BlockIndex BlockSize"

#: The keys that may follow each first key. ``scontrol show topology`` adds some of them.
KEYS: Mapping[str, frozenset[str]] = {
    first: frozenset(keys.lower().split())
    for first, keys in {
        "nodename": f"{_NODE} {_GRES}",
        "name": _GRES,
        "autodetect": _GRES,
        "schedulerparameters": "",
        "slurmdparameters": "",
        "clustername": "",
        "switchname": "Nodes Switches LinkSpeed Level",
        "blockname": _BLOCK,
        "aggregatedblock": _BLOCK,
        "blocksizes": "",
        "ringname": "Nodes RingSize",
    }.items()
}

#: Keys that only follow others. slurm.conf also has a line SuspendTime.
_INSIDE = frozenset().union(*KEYS.values()) - {*KEYS, "suspendtime"}

#: Keys that many others begin like.
_OF_MANY = {"schedulerparameters", "slurmdparameters"}

_PAIR = re.compile(
    r'([\w.]+)\s*[-*+/]?=(?:\s*"([^"]*)"(?=\s|$)|(\S+)|\s+(?![\w.]+\s*=)(\S+)|)', re.ASCII
)
_PRINTED = re.compile(r"([\w.]+)=()(\S*)()", re.ASCII)
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.IGNORECASE)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#")
_WORD, _BLANKS = re.compile(r"\S*"), re.compile(r"\s*")
_SCONTROL = re.compile(r"(?:^|\s)CPU(?:Alloc|Tot|Efctv)=", re.ASCII)

#: Most files that include others, lines whose first keys are compared, and messages and numbers.
_MOST_FILES, _MOST_COMPARED, _MOST_SHOWN = 64, 1000, 8


def alone(name: str) -> File:
    """Refuses to read another file."""
    raise InvalidHardware("is not followed: give one file with all lines")


@attrs.frozen
class File:
    """The text of a file, its name in messages, and what reads the file of an ``Include``."""

    text: str
    name: str = ""
    beside: Callable[[str], File] = alone


@attrs.frozen
class Line:
    """A line: where it is, its first key, and all its pairs, with keys in lower case."""

    where: str
    first: str
    pairs: Mapping[str, str]
    #: Whether scontrol printed it.
    printed: bool = False

    def get(self, *keys: str) -> str:
        """The value of the first of *keys* that the line has, "" without."""
        return next((self.pairs[key] for key in keys if key in self.pairs), "")

    def number(self, key: str, default: int = 0) -> int:
        """The number *key*; raises InvalidHardware if it is none."""
        text = self.pairs.get(key, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidHardware(f"{self.where}: {key} {shown(text)} is not a number")
        return int(text) if text else default


@attrs.define
class Lines:
    """Reads the lines of files that begin with one of the keys *kinds*.

    ``complete`` files have no other lines. Notes how many lines were refused, and why, and how many
    have other keys.
    """

    kinds: Sequence[str]
    complete: bool = False
    refusals: list[str] = attrs.field(factory=list)
    #: The values of the first keys of refused lines, without those of gres.conf.
    spoiled: dict[str, list[str]] = attrs.field(factory=dict)
    _refused: list[str] = attrs.field(factory=list, init=False)
    _others: int = attrs.field(default=0, init=False)
    _files: int = attrs.field(default=0, init=False)
    _cluster: str = attrs.field(default="", init=False)

    def read(self, file: File) -> Iterator[Line]:
        """The lines of *file*, and of the files that it includes."""
        printed = _SCONTROL.search(file.text) is not None
        for number, text in _records(file.text) if printed else _joined(file.text):
            where = f"{file.name}: line {number}" if file.name else f"line {number}"
            include = None if printed else _INCLUDE.match(text)
            try:
                if include:
                    yield from self.read(self._included(file, include[1]))
                elif text.strip():
                    line = self._line(text.rstrip(), where, printed)
                    if line is not None:
                        yield line
            except InvalidHardware as e:
                self.refuse(where, f"{where}: {e}")

    def refuse(self, where: str, why: str) -> None:
        """Count the line *where* as not understood."""
        self._refused.append(where.replace(": line ", " ").replace("line ", ""))
        if len(self.refusals) < _MOST_SHOWN:
            self.refusals.append(why)

    def left_out(self) -> list[str]:
        """What was left out, and where."""
        found = []
        if self._refused:
            listed = ", ".join(self._refused[:_MOST_SHOWN])
            more = len(self._refused) - _MOST_SHOWN
            found.append(
                f"{amount(len(self._refused), 'line')} not understood: {listed}"
                + (f" and {more} more" if more > 0 else "")
            )
        if self._others:
            found.append(f"{amount(self._others, 'line')} with other keys")
        return found

    def _included(self, file: File, name: str) -> File:
        self._files += 1
        if self._files > _MOST_FILES:
            raise InvalidHardware(f"more than {_MOST_FILES} files")
        if "%c" in name and not self._cluster:
            raise InvalidHardware(f"Include {shown(name)}: no ClusterName is above")
        try:
            return file.beside(name.replace("%c", self._cluster))
        except InvalidHardware as e:
            raise InvalidHardware(f"Include {shown(name)}: {e}") from None

    def _line(self, text: str, where: str, printed: bool) -> Optional[Line]:
        """The line *text*; None if it has another key. Raises InvalidHardware without *where*."""
        pairs: dict[str, str] = {}
        first, fault, at, form = "", "", 0, _PRINTED if printed else _PAIR
        while at < len(text):
            at = _end(_BLANKS, text, at)
            match = form.match(text, at)
            if match is None and not (fault or (printed and first)):
                fault = f"{shown(text[at : _end(_WORD, text, at)])} is not KEY=VALUE"
            if match is None:
                at = _end(_WORD, text, at) if first else len(text)
            else:
                key = match[1].lower()
                if not first:
                    first = key
                    if not self._takes(key):
                        return None
                elif not (printed or fault or key in KEYS[first]):
                    hint = did_you_mean(key, sorted(KEYS[first]))
                    fault = f"{shown(match[1])} is no key of {first}{hint}"
                value = match[2] or match[3] or match[4] or ""
                if not (printed and key in pairs):  # a reason or comment may have any text
                    pairs[key] = value
                at = match.end()
        if fault:
            if first and "name" not in pairs:
                self.spoiled.setdefault(first, []).append(pairs[first])
            raise InvalidHardware(fault)
        if first == "clustername":
            self._cluster = pairs[first].lower()
            return None
        return Line(where, first, pairs, printed)

    def _takes(self, key: str) -> bool:
        """Whether a line that begins with *key* counts; raises InvalidHardware if it cannot be."""
        if key in self.kinds or key == "clustername":
            return True
        hint = ""
        if self._others < _MOST_COMPARED and (self.complete or key not in KEYS):
            hint = did_you_mean(key, set(self.kinds) - _OF_MANY)
        if hint or key in _INSIDE or key == "include" or (self.complete and key not in KEYS):
            raise InvalidHardware(f"{shown(key)} does not begin a line{hint}")
        self._others += 1
        return False


def _end(form: re.Pattern[str], text: str, at: int) -> int:
    match = form.match(text, at)
    return match.end() if match else at


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file and their numbers, joined where they are continued, without comments."""
    parts: list[str] = []
    begun = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            begun = number
            if line in ("", "\r"):
                continue
        comment = _COMMENT.search(line)
        plain = (line[: comment.end() - 1] if comment else line).rstrip()
        continued = (len(plain) - len(plain.rstrip("\\"))) % 2
        parts.append(plain[:-1] if continued else plain)
        if not continued:
            yield begun, re.sub(r"\\(.?)", r"\1", "".join(parts))
            parts = []
    if parts:
        yield begun, "".join(parts)


def _records(text: str) -> Iterator[tuple[int, str]]:
    """What scontrol prints of each node, in one line or several."""
    parts: list[str] = []
    begun = 1
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#") or not line.strip():
            continue
        if parts and not line[0].isspace():
            yield begun, " ".join(parts)
            parts = []
        if not parts:
            begun = number
        parts.append(line)
    if parts:
        yield begun, " ".join(parts)
