"""The cores of a sysfs tree, and their ids: hwloc's logical core indexes.

hwloc orders cores by a walk down the tree of everything that holds some: packages, NUMA nodes,
dies, clusters, caches of any level. Children of one parent are ordered by their lowest PU number.
So a core is before another if, at the first level at which they are in different sets, its set has
the lower lowest PU. Where PUs are restricted to some, hwloc orders by the lowest that remains.

hwloc may also put NUMA nodes into groups by their distances. That is not done here: it changes the
order of cores only where PU numbers alternate between groups but not within them.
"""

from __future__ import annotations

from pathlib import Path
from typing import AbstractSet, Hashable, Iterable, Mapping, Optional, Sequence

import attrs

from treepool.discovery import sysfs_files as files
from treepool.errors import InvalidHardware
from treepool.rfc import idset

#: CPU numbers read; Linux on the largest machines has 8192.
MAX_CPUS = 1 << 14

#: Indexes of caches looked at per CPU, as hwloc does.
_CACHES = range(10)


def usable_pus(cpu: Path, allowed: Optional[AbstractSet[int]], notes: list[str]) -> int:
    """The bitmask of PUs that are online and, if *allowed* is given, allowed.

    *cpu* is /sys/devices/system/cpu. Adds to *notes* how many are not. Raises InvalidHardware if
    there is none.
    """
    present = files.numbers(cpu, "cpu", MAX_CPUS)
    if not present:
        raise InvalidHardware(f"{cpu}: no CPU is to be found there")
    online = files.read_list(cpu / "online")
    if online is None:
        # The first CPU often has no such file, as it cannot be taken offline.
        online = idset.from_ids(n for n in present if files.read_int(cpu / f"cpu{n}/online") != 0)
    usable = idset.from_ids(present) & online
    if not usable:
        raise InvalidHardware(f"{cpu}: no CPU is online")
    if allowed is not None:
        usable &= idset.from_ids(n for n in allowed if 0 <= n < MAX_CPUS)
        if not usable:
            raise InvalidHardware(f"{cpu}: no CPU that is online may be used")
    if idset.size(usable) < len(present):
        left_out = len(present) - idset.size(usable)
        notes.append(f"{left_out} CPUs are offline or not allowed, and are left out")
    return usable


@attrs.frozen
class Thread:
    """What sysfs tells of one PU. Ids that are not told are -1."""

    number: int
    package: int
    die: int
    core: int
    #: Bitmask of the PUs of the same core; 0 if not told.
    siblings: int


def read_threads(cpu: Path, usable: int) -> dict[int, Thread]:
    """The *usable* PUs, by number."""
    return {n: _thread(cpu / f"cpu{n}/topology", n, usable) for n in idset.iterate(usable)}


def _thread(topology: Path, number: int, usable: int) -> Thread:
    siblings = files.read_list(topology / "core_cpus_list")
    if siblings is None:  # the name before Linux 5.3
        siblings = files.read_list(topology / "thread_siblings_list")
    return Thread(
        number,
        _id(topology / "physical_package_id"),
        _id(topology / "die_id"),
        _id(topology / "core_id"),
        (siblings or 0) & usable,
    )


def _id(path: Path) -> int:
    found = files.read_int(path)
    return -1 if found is None or found < 0 else found


def find_cores(threads: Mapping[int, Thread]) -> list[tuple[int, ...]]:
    """The PUs of each core, cores ascending by their lowest PU.

    Siblings are one core unless their core ids differ: an AMD module of two cores that share a
    floating point unit is told as siblings, and is two. Without siblings the ids decide, and
    without these a PU is a core.
    """
    same_id: dict[int, int] = {}
    same_place: dict[tuple[int, int, int], int] = {}
    for thread in threads.values():
        bit = 1 << thread.number
        same_id[thread.core] = same_id.get(thread.core, 0) | bit
        if not thread.siblings and thread.core >= 0:
            place = (thread.package, thread.die, thread.core)
            same_place[place] = same_place.get(place, 0) | bit
    cores: list[tuple[int, ...]] = []
    taken = 0
    for number, thread in sorted(threads.items()):
        if taken >> number & 1:
            continue
        if thread.siblings:
            together = thread.siblings & same_id[thread.core]
        else:
            together = same_place.get((thread.package, thread.die, thread.core), 0)
        # A core may not take the PUs of one before it, whatever the files say.
        pus = (together | 1 << number) & ~taken
        taken |= pus
        cores.append(tuple(idset.iterate(pus)))
    return cores


class Nest:
    """Sets of cores that nest or are disjoint, by kind; a set that breaks this is refused.

    Cores are numbered here by their place in *cores*, which ascend by their lowest PU. A core
    is in a set of PUs if its lowest PU is, so that no set splits a core.
    """

    def __init__(self, cores: Sequence[tuple[int, ...]]) -> None:
        self._cores = cores
        self._by_pu = {pus[0]: core for core, pus in enumerate(cores)}
        self._lowest = idset.from_ids(self._by_pu)
        self._levels: list[_Level] = []

    def add(self, kind: str, sets: Iterable[int]) -> list[bool]:
        """Put in *sets* (bitmasks of PUs) of a new kind; for each, whether it is in now.

        Of equal sets the first is put in. A set without cores is refused.
        """
        level = _Level(kind)
        taken = 0
        accepted = []
        for pus in sets:
            lowest = pus & self._lowest
            # Sets that overlap are refused here, so a core is looked at once per kind.
            fits = bool(lowest) and not lowest & taken
            if fits:
                members = [self._by_pu[pu] for pu in idset.iterate(lowest)]
                taken |= lowest
                fits = all(other.nests(members) for other in self._levels)
                if fits:
                    level.put(members)
            accepted.append(fits)
        self._levels.append(level)
        return accepted

    def order(self) -> list[int]:
        """The cores in hwloc's logical order."""
        above: list[list[tuple[int, int]]] = [[] for _ in self._cores]
        for level in self._levels:
            for members in level.sets:
                for core in members:
                    above[core].append((-len(members), members[0]))
        paths = [[first for _, first in sorted(sets)] for sets in above]
        return sorted(range(len(self._cores)), key=lambda core: (*paths[core], core))

    def sets(self) -> list[tuple[str, list[int]]]:
        """Every set that is in, with its kind, in the order in which they were put in."""
        return [(level.kind, members) for level in self._levels for members in level.sets]


class _Level:
    """Disjoint sets of cores of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sets: list[list[int]] = []
        self._of: dict[int, int] = {}

    def put(self, members: list[int]) -> None:
        self._of.update((core, len(self.sets)) for core in members)
        self.sets.append(members)

    def nests(self, members: list[int]) -> bool:
        """Whether *members* are inside one set, or are whole sets and cores of none."""
        inside = [self._of.get(core) for core in members]
        found = set(inside) - {None}
        if not found or (len(found) == 1 and None not in inside):
            return True
        whole = sum(len(self.sets[n]) for n in found if n is not None)
        return whole + inside.count(None) == len(members)


def package_sets(
    threads: Mapping[int, Thread], cores: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[int]]:
    """The PUs of each package, and those of each die of a package with more than one.

    Every core is in one package: those of which none is told share one.
    """
    packages: dict[Hashable, list[int]] = {}
    dies: dict[tuple[int, int], list[int]] = {}
    for pus in cores:
        thread = threads[pus[0]]
        packages.setdefault(thread.package, []).extend(pus)
        if thread.die >= 0:
            dies.setdefault((thread.package, thread.die), []).extend(pus)
    whole = {idset.from_ids(pus) for pus in packages.values()}
    found = (idset.from_ids(pus) for pus in dies.values())
    return (
        [idset.from_ids(pus) for pus in packages.values()],
        [pus for pus in found if pus not in whole],
    )


def cache_sets(cpu: Path, cores: Sequence[tuple[int, ...]], usable: int) -> dict[int, list[int]]:
    """The PUs that share each cache, by the cache's level; caches of instructions do not count.

    Level 0 is a cluster of cores, which is none, but orders cores as one does.
    """
    levels: dict[int, dict[int, None]] = {}
    for pus in cores:
        folder = cpu / f"cpu{pus[0]}"
        cluster = files.read_list(folder / "topology/cluster_cpus_list")
        if cluster is not None:
            levels.setdefault(0, {})[cluster & usable] = None
        for i in _CACHES:
            cache = folder / f"cache/index{i}"
            level = files.read_int(cache / "level")
            if level is None or not 1 <= level <= 5:
                continue
            shared = files.read_list(cache / "shared_cpu_list")
            if shared is not None and files.read_text(cache / "type") != "Instruction":
                levels.setdefault(level, {})[shared & usable] = None
    return {level: list(sets) for level, sets in levels.items()}
