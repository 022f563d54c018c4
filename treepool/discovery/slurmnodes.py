"""The hardware of nodes as Slurm knows it: ``scontrol show node``, and ``gres.conf``.

A site that comes from Slurm may have nothing else. ``scontrol show node`` (also with ``-o``), or
the lines ``NodeName=`` of slurm.conf, have sockets, cores and memory. ``gres.conf`` has the cores
near each GPU (``Cores=``), its number (``File=/dev/nvidia[0-3]``) and the NVLinks to the others
(``Links=``). Cores are numbered socket by socket, as in Slurm and hwloc. hwloc knows more: NUMA
domains, PCIe, NICs.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Sequence

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
    """A GPU of gres.conf: the number of its file, its type, the cores near it, its links."""

    number: int
    kind: str
    cores: int
    links: tuple[int, ...]
    vendor: str


def read(texts: Sequence[str]) -> list[tuple[tuple[str, ...], Machine]]:
    """The machines in *texts*, each of either form, and the hosts that each describes.

    Equal hosts share one machine. Raises InvalidHardware, with the file and line where it can.
    """
    if sum(map(len, texts)) > MAX_TEXT:
        raise InvalidHardware(f"more than {MAX_TEXT >> 20} MiB of text")
    nodes: dict[str, _Record] = {}
    gres: dict[str, list[_Record]] = {}
    record: _Record
    count = 0
    for text in texts:
        for where, record in _records(text):
            names = _hosts(record["nodename"], where) if record.get("nodename") else [""]
            count += len(names)
            if count > _MAX_HOSTS:
                raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts so far")
            for name in names:
                if record.get("name", "").lower() == "gpu" or "autodetect" in record:
                    gres.setdefault(name, []).append({**record, "where": where})
                elif "corespersocket" in record:
                    nodes[name] = {**record, "where": where}
    if not nodes:
        raise InvalidHardware("no node with CoresPerSocket=, as scontrol show node prints")
    alike: dict[tuple[object, ...], list[str]] = {}
    first: dict[tuple[object, ...], tuple[_Record, Sequence[_Record]]] = {}
    for name, record in nodes.items():
        mine = [*gres.get("", ()), *gres.get(name, ())]
        told = tuple(record.get(key, "") for key in _KEYS), gib(_number(record, "realmemory") << 20)
        kind = told, tuple(id(one) for one in gres.get("", ())), _plain(gres.get(name, ()))
        alike.setdefault(kind, []).append(name)
        first.setdefault(kind, (record, mine))
    return [(tuple(hosts), _machine(*first[kind], hosts[0])) for kind, hosts in alike.items()]


#: The keys of a node that count, and its memory in GiB.
_KEYS = ("sockets", "boards", "socketsperboard", "corespersocket", "gres")


def _plain(records: Sequence[_Record]) -> tuple[object, ...]:
    ignored = ("nodename", "where")
    return tuple(
        tuple(sorted((k, v) for k, v in one.items() if k not in ignored)) for one in records
    )


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


def _machine(node: _Record, gres: Sequence[_Record], host: str) -> Machine:
    sockets = _number(node, "sockets") or _number(node, "boards", 1) * _number(
        node, "socketsperboard", 1
    )
    each = _number(node, "corespersocket")
    if not 0 < sockets * each <= _MAX_CORES:
        raise InvalidHardware(
            f"{node['where']}: {sockets} sockets of {each} cores are not 1 to {_MAX_CORES} cores"
        )
    cores = [((1 << each) - 1) << each * i for i in range(sockets)]
    listed = _listed(gres, sockets * each)
    notes = []
    if any("autodetect" in one for one in gres) and not any(one.cores for one in listed):
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


def _listed(gres: Sequence[_Record], cores: int) -> list[_Listed]:
    """The GPUs of *gres*, by the numbers of their files."""
    listed: dict[int, _Listed] = {}
    for record in gres:
        if record.get("name", "").lower() != "gpu":
            continue
        where, files = record["where"], record.get("file", "")
        names = _hosts(files, where) if files else [""] * _number(record, "count", 1)
        near = _cores(record.get("cores") or record.get("cpus", ""), cores, where)
        links = tuple(
            int(word) if re.fullmatch(r"-?\d{1,3}", word, re.ASCII) else 0
            for word in record.get("links", "").split(",")
            if word
        )
        for name in names:
            match = _AT_END.search(name)
            number = int(match[1][:6]) if match else len(listed)
            if len(listed) >= MAX_GPUS:
                raise InvalidHardware(f"{where}: more than {MAX_GPUS} GPUs")
            vendor = next((v for word, v in _VENDORS if word in name), "")
            listed[number] = _Listed(number, record.get("type", ""), near, links, vendor)
    return [listed[number] for number in sorted(listed)]


def _cores(text: str, cores: int, where: str) -> int:
    if not text:
        return 0
    try:
        mask = idset.decode(text)
    except InvalidIdset:
        raise InvalidHardware(f"{where}: Cores={shown(text)} is not a list of cores") from None
    if mask >> cores:
        raise InvalidHardware(f"{where}: Cores={shown(text)}: the node has {cores} cores")
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
