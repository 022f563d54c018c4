"""The hardware of nodes as Slurm knows it: slurm.conf, gres.conf and ``scontrol show node``.

A site that comes from Slurm may have nothing else. The lines ``NodeName=`` of slurm.conf, or what
``scontrol show node`` prints (also with ``-o``), have sockets, cores, memory and what the system
keeps of them. What they leave out has Slurm's default. ``gres.conf`` has the cores near each GPU
(``Cores=``), its number (``File=/dev/nvidia[0-3]``) and the NVLinks to the others (``Links=``).
Cores are numbered socket by socket, as in Slurm and hwloc. hwloc knows more: NUMA domains, PCIe,
NICs.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Container, Iterable, Optional, Sequence

import attrs

from treepool.discovery import slurmhosts
from treepool.discovery.linking import XELINK_LANE_GBPS, XGMI_GBPS, Pairs
from treepool.discovery.machine import Gpu, Machine, Region, gib
from treepool.discovery.reports.mig import memory_of, profile_in
from treepool.discovery.reports.report import assumed, per_nvlink
from treepool.discovery.slurmlines import File, Line, Lines
from treepool.errors import InvalidHardware, InvalidHostlist, InvalidIdset
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.links import MAX_GBPS, MAX_GPUS, MAX_NAME, Device, Links, Wire
from treepool.rfc.quote import amount

#: Longest texts accepted, in characters, together; 11,000 nodes of scontrol need 14 MiB.
MAX_TEXT = 64 << 20

#: Most hosts in all lists of the files together, and most cores of a node.
_MAX_HOSTS, _MAX_CORES = 1 << 20, 1 << 13

_GPUS = re.compile(
    r"(?:^|,)gpu(?::(?!\d+[(,]|\d+$|no_consume)([^:,()]+))?(?::no_consume)?(?::(\d{1,3}))?(?=[(,]|$)",
    re.ASCII | re.IGNORECASE,
)
_PARENT, _AT_END = re.compile(r"/nvidia(\d+)", re.ASCII), re.compile(r"(\d+)$", re.ASCII)
_COUNT = re.compile(r"(\d{1,9})([kmgtp]?)", re.ASCII | re.IGNORECASE)

#: Keys of slurm.conf with parameters, and what each of them makes a socket of Slurm.
_PARAMETERS = ("schedulerparameters", "slurmdparameters")
_SOCKETS = {"numa_node_as_socket": "numa", "l3cache_as_socket": "l3"}

#: The type of the links of ``Links=`` and the GB/s of one, by vendor.
_LINKS = {"amd": ("xgmi", XGMI_GBPS), "intel": ("xelink", XELINK_LANE_GBPS)}

#: Words in the type of a GPU, in AutoDetect or Flags, or in a file that only one driver makes.
_VENDORS = tuple(
    (vendor, re.compile(form, re.ASCII | re.IGNORECASE))
    for vendor, form in (
        ("amd", r"amd|rsmi|radeon|instinct|kfd|(?<![a-z\d])(mi\d{2,3}|w[67]\d00|gfx\d)"),
        ("intel", r"intel|oneapi|ponte|(?<![a-z\d])(pvc|arc|flex|max_?1\d\d0)"),
        (
            "nvidia",
            r"nvidia|nvml|tesla|geforce|quadro|titan|[rg]tx|(?<![a-z\d])(g?[bh][123]00|gb10|v100"
            r"|a(2|10|16|30|40|100|800|[2456]\d00)|h(20|800)|l(4|20|40)|[kmpt]\d{1,3})"
            r"(?![.\d])",
        ),
    )
)


@attrs.frozen
class Slurm:
    """The machines of nodes, and the hosts of each; what was understood; refused lines."""

    machines: list[tuple[tuple[str, ...], Machine]]
    told: str
    warnings: tuple[str, ...]


@attrs.frozen
class _Node:
    """Sockets, cores of each, threads of these, MiB, the cores that the system keeps (bitmask).

    ``kind`` is what Slurm's sockets are, ``gpus`` has the type of each GPU of ``Gres=``.
    """

    kind: str
    sockets: int
    each: int
    threads: int
    memory: int
    system: int
    gpus: tuple[str, ...]
    notes: tuple[str, ...]
    where: str = attrs.field(eq=False)


@attrs.frozen
class _Listed:
    """A GPU of gres.conf: the number in its file's name, its type, the cores near it, its links.

    ``part`` is true of a MIG instance. Its number is that of its GPU.
    """

    number: int
    kind: str
    cores: int
    links: tuple[int, ...]
    vendor: str
    part: bool


@attrs.frozen
class _Gres:
    """A line of gres.conf: its GPUs, and whether it leaves them to Slurm."""

    gpus: tuple[_Listed, ...]
    autodetect: Optional[bool]
    where: str = attrs.field(eq=False)


@attrs.define
class _Gpus:
    """The GPUs that the lines of gres.conf so far give a node, by the numbers of their files."""

    #: The second number is not 0 for MIG instances alone.
    listed: dict[tuple[int, int], _Listed] = attrs.field(factory=dict)
    autodetect: bool = False

    def add(self, line: _Gres) -> None:
        """Add what another *line* says."""
        if line.autodetect is not None:
            self.autodetect = line.autodetect
        for gpu in line.gpus:
            if len(self.listed) >= MAX_GPUS:
                raise InvalidHardware(f"{line.where}: more than {MAX_GPUS} GPUs")
            count = len(self.listed)
            place = gpu.number if gpu.number >= 0 else count
            self.listed[place, count + 1 if gpu.part else 0] = gpu

    def with_lines(self, lines: Iterable[_Gres]) -> _Gpus:
        """These, and what more *lines* say."""
        both = _Gpus(self.listed.copy(), self.autodetect)
        for line in lines:
            both.add(line)
        return both


def read(files: Sequence[File], wanted: Container[str] = ()) -> Slurm:
    """The machines in *files*, each of any form.

    Equal hosts share one machine. Nodes that are there in future alone count if they are *wanted*.
    Raises InvalidHardware, with the file and line where it can.
    """
    if sum(len(file.text) for file in files) > MAX_TEXT:
        raise InvalidHardware(f"more than {MAX_TEXT >> 20} MiB of text")
    lines = Lines(("nodename", "name", "autodetect", *_PARAMETERS))
    cluster = _Cluster(wanted)
    for line in (line for file in files for line in lines.read(file)):
        try:
            cluster.add(line)
        except InvalidHardware as e:
            lines.refuse(line.where, str(e))
    spoiled = lines.spoiled.get("nodename", [])
    if any(name.upper() == "DEFAULT" for name in spoiled):  # what other nodes have is not known
        raise InvalidHardware(f"NodeName=DEFAULT: {'; '.join(lines.refusals)}")
    for names in spoiled:
        with suppress(InvalidHardware):
            cluster.lost += len(_hosts(names, ""))
    nodes: dict[str, _Node] = {}
    known: dict[int, Optional[_Node]] = {}
    for name, line in cluster.nodes.items():
        if id(line) not in known:
            known[id(line)] = None
            try:
                known[id(line)] = _node(line, cluster.parameters)
            except InvalidHardware as e:
                lines.refuse(line.where, str(e))
        node = known[id(line)]
        if node is not None:
            nodes[name] = node
    if not nodes and lines.refusals:
        raise InvalidHardware(lines.refusals[0])
    if not nodes:
        raise InvalidHardware("no node: no line NodeName= as in slurm.conf or scontrol show node")
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, node in nodes.items():
        kind = node, tuple(map(id, cluster.gres.get(name, ())))
        alike.setdefault(kind, []).append(name)
    machines = []
    some_have = any(node.gpus for node in nodes.values())
    for hosts in alike.values():
        node = nodes[hosts[0]]
        # A line without NodeName is of the nodes that have GPUs in slurm.conf.
        common = cluster.of_all if node.gpus or not some_have else _Gpus()
        gpus = common.with_lines(cluster.gres.get(hosts[0], ()))
        machines.append((tuple(hosts), _machine(node, gpus, hosts[0])))
    named = len(cluster.nodes) + cluster.future + cluster.lost
    told = [f"{len(nodes)} of {amount(named, 'node')}"]
    told += [f"{cluster.future} with State=FUTURE left out"] * bool(cluster.future)
    strangers = len(cluster.gres.keys() - cluster.nodes.keys())
    told += [f"{strangers} of gres.conf alone left out"] * bool(strangers)
    told += [f"{cluster.twice} named twice, the first line counts"] * bool(cluster.twice)
    return Slurm(machines, "; ".join([*told, *lines.left_out()]), tuple(lines.refusals))


@attrs.define
class _Cluster:
    """What the lines so far say of nodes, and of the GPUs of all of them or of some."""

    wanted: Container[str]
    nodes: dict[str, Line] = attrs.field(factory=dict)
    defaults: dict[str, str] = attrs.field(factory=dict)
    of_all: _Gpus = attrs.field(factory=_Gpus)
    gres: dict[str, list[_Gres]] = attrs.field(factory=dict)
    #: The words of SchedulerParameters and SlurmdParameters.
    parameters: set[str] = attrs.field(factory=set)
    future: int = 0
    #: Nodes of lines that were refused.
    lost: int = 0
    twice: int = 0
    count: int = 0
    #: Equal lines of gres.conf are one object.
    once: dict[_Gres, _Gres] = attrs.field(factory=dict)

    def add(self, line: Line) -> None:
        """Add another *line*; raises InvalidHardware."""
        if line.first in _PARAMETERS:
            self.parameters.update(line.pairs[line.first].lower().split(","))
            return
        name = line.pairs.get("nodename", "")
        names = _hosts(name, line.where) if name else []
        self.count += len(names)
        if self.count > _MAX_HOSTS:
            raise InvalidHardware(f"{line.where}: more than {_MAX_HOSTS} hosts so far")
        if "name" in line.pairs or "autodetect" in line.pairs:
            gres = _gres(line)
            if line.first == "nodename":
                gres = self.once.setdefault(gres, gres)
                for host in names:
                    self.gres.setdefault(host, []).append(gres)
            else:
                self.of_all.add(gres)
            return
        if not names:
            raise InvalidHardware(f"{line.where}: NodeName has no name")
        if name.upper() == "DEFAULT":
            self.defaults.update(line.pairs)
            return
        if not line.printed:
            line = attrs.evolve(line, pairs={**self.defaults, **line.pairs})
        future = line.get("state").upper().startswith("FUTURE")
        for host in names:
            if future and host not in self.wanted:
                self.future += 1
            elif self.nodes.setdefault(host, line) is not line:
                self.twice += 1


def _hosts(text: str, where: str) -> list[str]:
    try:
        return slurmhosts.decode(text)
    except InvalidHostlist as e:
        raise InvalidHardware(f"{where}: {e}") from None


def _node(line: Line, parameters: set[str]) -> _Node:
    """The node of a *line*, with Slurm's defaults: one board, socket, core and thread, or CPUs."""
    each, threads = (max(line.number(k, 1), 1) for k in ("corespersocket", "threadspercore"))
    cpus = line.number("cputot") or line.number("cpus") or line.number("procs")
    boards, sockets = max(line.number("boards", 1), 1), line.number("sockets")
    if "socketsperboard" in line.pairs:
        sockets = boards * max(line.number("socketsperboard"), 1)
    elif not sockets:
        sockets = boards if not cpus or cpus % (each * threads) else cpus // (each * threads)
    cores, notes = sockets * each, []
    if not 0 < cores <= _MAX_CORES:
        raise InvalidHardware(
            f"{line.where}: {sockets} sockets of {each} cores are not 1 to {_MAX_CORES} cores"
        )
    if cpus not in (0, sockets, cores, cores * threads):
        what = f"{sockets} sockets of {each} cores of {threads} threads"
        notes.append(f"CPUs={cpus} do not fit {what}, which Slurm takes")
    share = 1 if 0 < cpus <= cores else threads  # CPUs of a core, as Slurm counts them
    if "cpuspeclist" in line.pairs:
        listed = _cores(line.pairs["cpuspeclist"], "CPUSpecList", line.where)
        system = idset.from_ids(cpu // share for cpu in idset.iterate(listed))
    else:
        spare = (cpus - line.number("cpuefctv", cpus)) // share if line.printed else 0
        number = min(line.number("corespeccount") or max(spare, 0), cores)
        first = 0 if "spec_cores_first" in parameters else cores - number
        places = range(first, first + number)  # core 0 of each socket, then core 1 of each, ...
        system = idset.from_ids(place % sockets * each + place // sockets for place in places)
    if system >= (1 << cores) - 1:
        raise InvalidHardware(f"{line.where}: the system has all {cores} cores, or others")
    words = {*parameters, *line.get("parameters").lower().split(",")}
    kind = next((of for word, of in _SOCKETS.items() if word in words), "socket")
    if each == 1 and sockets > 1:
        notes.append(f"{sockets} sockets of one core each, as Slurm counts CPUs, are no localities")
        sockets, each = 1, sockets
    kept, memory = line.number("memspeclimit"), line.number("realmemory")
    if 0 < kept < memory:
        notes.append(f"{kept} MiB of memory are kept for the system, and are not in the key")
    gpus = [kind for kind, n in _GPUS.findall(line.get("gres")) for _ in range(int(n or 1))]
    if len(gpus) > MAX_GPUS:
        raise InvalidHardware(f"{line.where}: more than {MAX_GPUS} GPUs")
    return _Node(
        kind,
        sockets,
        each,
        threads,
        memory - kept if kept < memory else memory,
        system,
        tuple(gpus),
        tuple(notes),
        line.where,
    )


def _machine(node: _Node, gres: _Gpus, host: str) -> Machine:
    cores = [((1 << node.each) - 1) << node.each * i for i in range(node.sockets)]
    notes, doubts = list(node.notes), dict[str, None]()
    listed = []
    for _, gpu in sorted(gres.listed.items(), key=lambda item: item[0]):
        near = _cores_of_cpus(gpu.cores, cores, node.threads)
        if near != gpu.cores:
            told = "the node has no such cores"
            if near:
                told = f"these are CPUs as Linux counts them, of cores {idset.encode(near)}"
            doubts[f"Cores={idset.encode(gpu.cores)} of gres.conf: {told}"] = None
        if not gpu.kind or not node.gpus or any(_alike(gpu.kind, kind) for kind in node.gpus):
            listed.append(attrs.evolve(gpu, cores=near))
        else:
            notes.append(f"a GPU of type {shown(gpu.kind)} in gres.conf is not in Gres=: left out")
    notes = list(dict.fromkeys(notes))
    if node.system:
        notes.append(f"cores {idset.encode(node.system)} are kept for the system, and are not in R")
    if gres.autodetect and not any(one.cores for one in listed):
        notes.append("gres.conf has AutoDetect: it says neither the cores nor the links of GPUs")
    memory = (node.memory << 20) // node.sockets
    if node.kind == "l3":
        regions = [Region("node", idset.union(cores), node.memory << 20)]
    else:
        regions = _areas(cores, listed, memory)
    regions = [*(Region(node.kind, mask) for mask in cores), *regions]
    gpus, links, warnings = _gpus(node, listed)
    return Machine(
        host,
        idset.union(cores),
        tuple(regions),
        system=node.system,
        gpus=gpus,
        links=links,
        assumed=assumed((links or Links()).pairs(), gpus),
        notes=tuple(notes),
        warnings=(*doubts, *warnings),
    )


def _alike(a: str, b: str) -> bool:
    """Whether two types of GPUs may be the same: Slurm takes a part of what it detects."""
    return a.lower() in b.lower() or b.lower() in a.lower()


def _cores_of_cpus(cpus: int, sockets: Sequence[int], threads: int) -> int:
    """The cores of *cpus* (bitmask), which are cores unless there are too many; 0 if not known."""
    cores = idset.union(sockets)
    if not cpus & ~cores:
        return cpus
    number = idset.size(cores)
    near = idset.from_ids(cpu % number for cpu in idset.iterate(cpus))
    inside = any(not near & ~socket for socket in sockets)
    all_threads = idset.size(near) * threads == idset.size(cpus)
    return near if inside and all_threads and not cpus >> number * threads else 0


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


def _gres(line: Line) -> _Gres:
    """A line of gres.conf."""
    autodetect = line.get("autodetect").lower() != "off" if "autodetect" in line.pairs else None
    if line.pairs.get("name", "").lower() != "gpu":
        return _Gres((), autodetect, line.where)
    files, parts = line.get("file", "files"), line.get("multiplefiles")
    names = [parts] if parts else _hosts(files, line.where) if files else []
    count = _COUNT.fullmatch(line.get("count") or str(len(names) or 1))
    number = int(count[1]) << 10 * " kmgtp".index(count[2].lower() or " ") if count else 0
    if number > MAX_GPUS or len(names) > MAX_GPUS:
        raise InvalidHardware(f"{line.where}: more than {MAX_GPUS} GPUs")
    if count is None or number != (len(names) or number):
        raise InvalidHardware(f"{line.where}: Count={shown(line.get('count'))} are not its files")
    cores = _cores(line.get("cores", "cpus"), "Cores", line.where)
    links = tuple(
        int(word) if re.fullmatch(r"-?\d{1,3}", word, re.ASCII) else 0
        for word in line.get("links", "link").split(",", MAX_GPUS)[:MAX_GPUS]
        if word
    )
    kind, hints = line.get("type"), (line.get("flags"), line.get("autodetect"))
    part = bool(parts or profile_in(kind)[1])
    gpus = []
    for name in names or [""] * number:
        match = (_PARENT if part else _AT_END).search(name)
        own = int(match[1][:6]) if match else -1
        gpus.append(_Listed(own, kind, cores, links, vendor_of(kind, name, *hints), part))
    return _Gres(tuple(gpus), autodetect, line.where)


def vendor_of(*texts: str) -> str:
    """Who makes a GPU, by the first of *texts* that tells: its type, its file; "" if none does."""
    found = (vendor for text in texts for vendor, form in _VENDORS if form.search(text))
    return next(found, "")


def _cores(text: str, key: str, where: str) -> int:
    try:
        mask = idset.decode(text)
    except InvalidIdset:
        raise InvalidHardware(f"{where}: {key}={shown(text)} is not a list of cores") from None
    if mask >> _MAX_CORES:
        raise InvalidHardware(f"{where}: {key}={shown(text)} are above core {_MAX_CORES - 1}")
    return mask


def _gpus(
    node: _Node, listed: Sequence[_Listed]
) -> tuple[tuple[Gpu, ...], Optional[Links], list[str]]:
    """The GPUs of a node, their links, and a warning if gres.conf has another number of them."""
    promised, warnings = node.gpus, []
    if listed and promised and len(listed) != len(promised):
        warnings = [f"gres.conf has {len(listed)} GPUs, the node {len(promised)}: it is not used"]
        listed = []
    has_files = bool(listed)
    if not listed:
        listed = [_Listed(-1, kind, 0, (), vendor_of(kind), False) for kind in promised]
    gpus: dict[int, Gpu] = {}  # by their places in gres.conf, as Links= counts
    for place, one in enumerate(listed):
        model, profile = profile_in(one.kind)
        if one.part and not profile:
            continue
        vendor = "nvidia" if profile else one.vendor
        gpu = Gpu(len(gpus), vendor, model, memory_of(profile), one.cores, profile=profile)
        gpus[place] = attrs.evolve(gpu, number=one.number) if profile else gpu
    if len(gpus) < len(listed):
        what = f"{amount(len(listed) - len(gpus), 'MIG instance')} left out"
        warnings.append(f"{what}: the type says no profile, as in a100_1g.5gb")
    pairs: Pairs = {}
    for i, a in gpus.items():
        for j, number in enumerate(listed[i].links[: len(listed)]):
            b = gpus.get(j, a)
            if a is not b and number > 0 and not (a.profile or b.profile):
                kind, each = _LINKS.get(a.vendor, ("nvlink", per_nvlink(a.model)))
                pairs[min(a.id, b.id), max(a.id, b.id)] = Wire(kind, min(number * each, MAX_GBPS))
    named = [(f"{gpu.model} {gpu.profile}".strip(), gpu) for gpu in gpus.values()]
    kinds = idset.gathered(
        ((name, gib(gpu.memory)), 1 << gpu.id)
        for name, gpu in named
        if name and len(name) <= MAX_NAME and name.isprintable()
    )
    devices = [Device(name, memory, mask) for (name, memory), mask in kinds.items()]
    table = Links.from_matrix(pairs, devices=devices) if has_files else None
    return tuple(gpus.values()), table, warnings
