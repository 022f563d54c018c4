"""The hardware of nodes as Slurm knows it: ``scontrol show node``, and ``gres.conf``.

A site that comes from Slurm may have nothing else. ``scontrol show node`` (also with ``-o``), or
the lines ``NodeName=`` of slurm.conf, have sockets, cores and memory. ``gres.conf`` has the cores
near each GPU (``Cores=``), its number (``File=/dev/nvidia[0-3]``) and the NVLinks to the others
(``Links=``). Cores are numbered socket by socket, as in Slurm and hwloc. hwloc knows more: NUMA
domains, PCIe, NICs.
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.discovery import slurmhosts
from treepool.discovery.linking import XGMI_GBPS, Pairs
from treepool.discovery.machine import Gpu, Machine, Region, gib
from treepool.discovery.reports.report import per_nvlink
from treepool.errors import InvalidHardware, InvalidHostlist, InvalidIdset
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, MAX_NAME, Device, Links, Wire

#: Longest texts accepted, in characters, together; 11,000 nodes of scontrol need 14 MiB.
MAX_TEXT = 64 << 20

#: Most hosts in all lists of the files together, and most cores of a node.
_MAX_HOSTS, _MAX_CORES = 1 << 20, 1 << 13

_PAIR = re.compile(r"(\w+)=(\S*)")
_GPUS = re.compile(r"gpu(?::([^:,()]+?))?:(\d{1,3})(?:\(|,|$)", re.ASCII)
_AT_END = re.compile(r"(\d+)$", re.ASCII)

#: A word in the name of a GPU's file, and who makes such GPUs.
_VENDORS = (("nvidia", "nvidia"), ("renderD", "amd"))

#: What a record has, by the keys of Slurm in lower case.
_Record = Mapping[str, str]


@attrs.frozen
class _Listed:
    """A GPU of gres.conf: the number in its file's name, its type, the cores near it, its links."""

    number: Optional[int]
    kind: str
    cores: int
    links: tuple[int, ...]
    vendor: str


@attrs.frozen
class _Gres:
    """A line of gres.conf: its GPUs, the cores near them, and whether it leaves them to Slurm."""

    gpus: tuple[_Listed, ...]
    autodetect: bool
    cores: int
    near: str
    where: str = attrs.field(eq=False)


@attrs.define
class _Gpus:
    """The GPUs that the lines of gres.conf so far give a node, by the numbers of their files."""

    listed: dict[int, _Listed] = attrs.field(factory=dict)
    autodetect: bool = False
    #: The line that names the highest core.
    highest: Optional[_Gres] = None

    def add(self, line: _Gres) -> None:
        """Add what another *line* says."""
        self.autodetect |= line.autodetect
        if self.highest is None or self.highest.cores < line.cores:
            self.highest = line
        for gpu in line.gpus:
            if len(self.listed) >= MAX_GPUS:
                raise InvalidHardware(f"{line.where}: more than {MAX_GPUS} GPUs")
            self.listed[len(self.listed) if gpu.number is None else gpu.number] = gpu

    def with_lines(self, lines: Iterable[_Gres]) -> _Gpus:
        """These, and what more *lines* say."""
        both = _Gpus(self.listed.copy(), self.autodetect, self.highest)
        for line in lines:
            both.add(line)
        return both


def read(texts: Sequence[str]) -> list[tuple[tuple[str, ...], Machine]]:
    """The machines in *texts*, each of either form, and the hosts that each describes.

    Equal hosts share one machine. Raises InvalidHardware, with the file and line where it can.
    """
    if sum(map(len, texts)) > MAX_TEXT:
        raise InvalidHardware(f"more than {MAX_TEXT >> 20} MiB of text")
    nodes: dict[str, _Record] = {}
    of_all, gres = _Gpus(), dict[str, list[_Gres]]()  # what lines say of all hosts, and by host
    once: dict[_Gres, _Gres] = {}  # equal lines are one object
    count = 0
    for text in texts:
        for where, record in _records(text):
            names = _hosts(record["nodename"], where) if record.get("nodename") else [""]
            count += len(names)
            if count > _MAX_HOSTS:
                raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts so far")
            if record.get("name", "").lower() == "gpu" or "autodetect" in record:
                line = _gres(record, where)
                if names == [""]:
                    of_all.add(line)
                else:
                    line = once.setdefault(line, line)
                    for name in names:
                        gres.setdefault(name, []).append(line)
            elif "corespersocket" in record:
                node: _Record = {**record, "where": where}
                nodes.update((name, node) for name in names)
    if not nodes:
        raise InvalidHardware("no node with CoresPerSocket=, as scontrol show node prints")
    alike: dict[tuple[object, ...], list[str]] = {}
    told: dict[int, object] = {}
    first: dict[tuple[object, ...], tuple[_Record, Sequence[_Gres]]] = {}
    for name, node in nodes.items():
        if id(node) not in told:
            told[id(node)] = _told(node)
        mine = gres.get(name, ())
        kind = told[id(node)], tuple(map(id, mine))
        alike.setdefault(kind, []).append(name)
        first.setdefault(kind, (node, mine))
    return [
        (tuple(hosts), _machine(node, of_all.with_lines(mine), hosts[0]))
        for hosts, (node, mine) in ((hosts, first[kind]) for kind, hosts in alike.items())
    ]


#: The keys of a node that count, and its memory in GiB.
_KEYS = ("sockets", "boards", "socketsperboard", "corespersocket", "gres")


def _told(node: _Record) -> tuple[object, ...]:
    memory = gib(_number(node, "realmemory") << 20)
    return *(node.get(key, "") for key in _KEYS), memory


def _records(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each line with KEY=VALUE, and the indented lines after it; # begins a comment."""
    where, held = "", ""
    for number, line in enumerate(text.replace("\\\n", " ").split("\n"), 1):
        plain = line if " OS=" in line else line.partition("#")[0]  # OS=Linux 5.14 #1 SMP
        if plain[:1].isspace() and held:
            held += " " + plain.strip()
            continue
        if held.strip():
            yield where, _pairs(held)
        where, held = f"line {number}", plain
    if held.strip():
        yield where, _pairs(held)


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for match in _PAIR.finditer(text):
        pairs.setdefault(match[1].lower(), match[2])
    return pairs


def _hosts(text: str, where: str) -> list[str]:
    try:
        return slurmhosts.decode(text)
    except InvalidHostlist as e:
        raise InvalidHardware(f"{where}: {e}") from None


def _number(record: _Record, key: str, default: int = 0) -> int:
    text = record.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidHardware(f"{record['where']}: {key} {shown(text)} is not a number")
    return int(text)


def _machine(node: _Record, gres: _Gpus, host: str) -> Machine:
    sockets = _number(node, "sockets") or _number(node, "boards", 1) * _number(
        node, "socketsperboard", 1
    )
    each = _number(node, "corespersocket")
    if not 0 < sockets * each <= _MAX_CORES:
        raise InvalidHardware(
            f"{node['where']}: {sockets} sockets of {each} cores are not 1 to {_MAX_CORES} cores"
        )
    cores = [((1 << each) - 1) << each * i for i in range(sockets)]
    listed = [gpu for _, gpu in sorted(gres.listed.items())]
    line = gres.highest
    if line is not None and line.cores >> sockets * each:
        what = f"Cores={shown(line.near)}: the node has {sockets * each} cores"
        raise InvalidHardware(f"{line.where}: {what}")
    notes = []
    if gres.autodetect and not any(one.cores for one in listed):
        notes.append("gres.conf has AutoDetect: it says neither the cores nor the links of GPUs")
    regions = [Region("socket", mask) for mask in cores]
    memory = (_number(node, "realmemory") << 20) // sockets
    regions += _areas(cores, listed, memory)
    gpus, links, warnings = _gpus(node, listed)
    return Machine(
        host,
        idset.union(cores),
        tuple(regions),
        gpus=gpus,
        links=links,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _areas(sockets: Sequence[int], gpus: Sequence[_Listed], memory: int) -> list[Region]:
    """The regions that the cores near GPUs tell: NUMA domains, where these divide the node evenly.

    *memory* is that of a socket. Where nothing is told, a socket counts as one NUMA domain.
    """
    whole = [Region("numa", mask, memory) for mask in sockets]
    told = {gpu.cores for gpu in gpus if gpu.cores} - set(sockets)
    inside = [mask for mask in told if any(not mask & ~socket for socket in sockets)]
    inside.sort(key=idset.lowest)
    if not inside or any(a & b for i, a in enumerate(inside) for b in inside[:i]):
        return whole
    sizes = {idset.size(mask) for mask in inside}
    if len(sizes) == 1 and idset.union(inside) == idset.union(sockets):
        share = memory * len(sockets) // len(inside)
        return [Region("numa", mask, share) for mask in inside]
    return [*whole, *(Region("group", mask) for mask in inside)]


def _gres(record: _Record, where: str) -> _Gres:
    """A line of gres.conf."""
    autodetect = "autodetect" in record
    if record.get("name", "").lower() != "gpu":
        return _Gres((), autodetect, 0, "", where)
    files, near = record.get("file", ""), record.get("cores") or record.get("cpus", "")
    number = 0 if files else _number({**record, "where": where}, "count", 1)
    names = _hosts(files, where) if files else [""] * min(number, MAX_GPUS + 1)
    if len(names) > MAX_GPUS:
        raise InvalidHardware(f"{where}: more than {MAX_GPUS} GPUs")
    cores = _cores(near, where)
    links = tuple(
        int(word) if re.fullmatch(r"-?\d{1,3}", word, re.ASCII) else 0
        for word in record.get("links", "").split(",", MAX_GPUS)[:MAX_GPUS]
        if word
    )
    gpus = []
    for name in names:
        match = _AT_END.search(name)
        own = int(match[1][:6]) if match else None
        vendor = next((v for word, v in _VENDORS if word in name), "")
        gpus.append(_Listed(own, record.get("type", ""), cores, links, vendor))
    return _Gres(tuple(gpus), autodetect, cores, near, where)


def _cores(text: str, where: str) -> int:
    try:
        mask = idset.decode(text)
    except InvalidIdset:
        raise InvalidHardware(f"{where}: Cores={shown(text)} is not a list of cores") from None
    if mask >> _MAX_CORES:
        raise InvalidHardware(f"{where}: Cores={shown(text)} are above core {_MAX_CORES - 1}")
    return mask


def _gpus(
    node: _Record, listed: Sequence[_Listed]
) -> tuple[tuple[Gpu, ...], Optional[Links], list[str]]:
    """The GPUs of a node, their links, and a warning if gres.conf has another number of them."""
    promised = [kind for kind, n in _GPUS.findall(node.get("gres", "")) for _ in range(int(n))]
    if len(promised) > MAX_GPUS:
        raise InvalidHardware(f"{node['where']}: more than {MAX_GPUS} GPUs")
    warnings = []
    if listed and promised and len(listed) != len(promised):
        warnings = [f"gres.conf has {len(listed)} GPUs, the node {len(promised)}: it is not used"]
        listed = []
    if not listed:
        return tuple(Gpu(i, model=kind) for i, kind in enumerate(promised)), None, warnings
    pairs: Pairs = {}
    for i, one in enumerate(listed):
        for j, number in enumerate(one.links[: len(listed)]):
            if i != j and number > 0:
                amd = one.vendor == "amd"
                each = XGMI_GBPS if amd else per_nvlink(one.kind)
                wire = Wire("xgmi" if amd else "nvlink", min(number * each, MAX_GBPS))
                pairs[min(i, j), max(i, j)] = wire
    gpus = tuple(Gpu(i, one.vendor, one.kind, cores=one.cores) for i, one in enumerate(listed))
    kinds = dict.fromkeys(one.kind for one in listed if one.kind)
    devices = [
        Device(kind, 0, idset.from_ids(gpu.id for gpu in gpus if gpu.model == kind))
        for kind in kinds
        if len(kind) <= MAX_NAME and kind.isprintable()
    ]
    return gpus, Links.from_matrix(pairs, devices=devices), warnings
