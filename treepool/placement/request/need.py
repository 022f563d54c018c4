"""Needs: what a slot, a domain or a node must give; when a link meets a demand (``gpu_link``)."""

from __future__ import annotations

from typing import Iterator, Optional

import attrs

from treepool.rfc.count import Count
from treepool.rfc.links import ANY_FAST, FAST

#: The name of the part that represents task slots; every other name is a locality.
SLOT = "slot"


@attrs.frozen(cache_hash=True)
class Demand:
    """What a link between any two GPUs of a slot must have: at least ``gbps`` GB/s, this type."""

    gbps: float = 0.0
    type: str = ""

    def met_by(self, gbps: float, type: str) -> bool:
        """Whether a link of *gbps* and *type* meets the demand."""
        fast = self.type == ANY_FAST and type in FAST
        return gbps >= self.gbps and (fast or self.type in ("", type))


@attrs.frozen(cache_hash=True)
class Need:
    """What is taken together: an amount from one domain, and parts with their own localities.

    ``cores`` and ``gpus`` are numbers. With ``fair_share``, the GPUs come with their share of the
    cores of the domain they sit in, at least ``cores`` (1). ``memory`` and ``storage`` (bytes) are
    what the domain, or the node, must have; they are not consumed. With ``allow_cxl``, CXL memory
    counts for ``memory``.

    ``demand`` and ``gpu_memory`` (bytes) apply to the GPUs of this need. Each GPU has at least that
    much memory. Any two GPUs of one slot, in whatever parts, are linked as the demand says. For a
    whole domain they apply to all of its GPUs.

    ``with_core`` is set on the need of a slot to which only whole domains can bring a core: one of
    them must. Every slot needs a core, and so does every node of a job (RFC 20).
    """

    cores: int = 0
    gpus: int = 0
    fair_share: bool = False
    memory: int = 0
    storage: int = 0
    parts: tuple[Part, ...] = ()
    allow_cxl: bool = False
    demand: Optional[Demand] = None
    gpu_memory: int = 0
    with_core: bool = False
    #: Whether this need or a part in it demands links or memory of GPUs.
    has_gpu_demand: bool = attrs.field(init=False, eq=False)

    @has_gpu_demand.default
    def _demands_of_gpus(self) -> bool:
        inside = any(part.need.has_gpu_demand for part in self.parts)
        return self.demand is not None or self.gpu_memory > 0 or inside

    @property
    def takes_amount(self) -> bool:
        """True if the need asks for cores or GPUs in addition to its parts."""
        return bool(self.cores or self.gpus)


@attrs.frozen(cache_hash=True)
class Part:
    """``count`` slots, or that many distinct domains of locality ``name``, each giving ``need``.

    A ``whole`` domain is taken entirely; ``need`` is then the least it must have. ``with_core``
    says that these domains are all that a slot takes, so that one of them must have a core.
    """

    name: str
    count: Count
    whole: bool
    need: Need
    with_core: bool = False

    @property
    def nslots(self) -> int:
        """The number of task slots in the part, with every count at its minimum."""
        inside = sum(part.nslots for part in self.need.parts)
        return self.count.minimum * (1 if self.name == SLOT else inside)


#: More than a node has of anything. Shortfalls are measured from this number.
MANY = 1 << 24


#: The name of a level of groups of nodes.
SEGMENT = "segment"


@attrs.frozen(cache_hash=True)
class Level:
    """``count`` distinct domains of a locality above the nodes, or that many slots or segments.

    Slots and segments are ``groups``: they may share domains. A site may call a locality
    ``segment``, so the name does not tell them apart. Of a ``whole`` domain all nodes are taken.
    """

    name: str
    count: Count
    whole: bool = False
    groups: bool = False


@attrs.frozen(cache_hash=True)
class Ask:
    """What a request wants of a single node; the key under which states remember their fit.

    A node hosts ``group``: with ``fill`` up to its largest count, otherwise one of its valid
    counts. ``whole`` takes the entire node, which must be idle. A node with fewer free cores than
    ``min_cores`` or fewer free GPUs than ``min_gpus`` cannot serve the ask. These two numbers alone
    rule out most states.

    With ``counted``, some count on or above the slot is a range that each node, or domain, meets
    independently: nodes that can give more come first. With ``searched``, arithmetic does not
    decide what fits; a search (place.py) may be necessary, and it may give up. With ``beside``, a
    search may be necessary on nodes with MIG domains: a slot takes an amount beside its domains.
    With ``exact``, the first unit takes just ``min_cores`` and ``min_gpus``.

    An ask without GPUs may not have ``spare`` cores near each GPU of the node, see nodes/kept.py.
    """

    group: Part
    fill: bool
    whole: bool
    locality: str
    spare: int = 0
    min_cores: int = attrs.field(init=False, eq=False)
    min_gpus: int = attrs.field(init=False, eq=False)
    counted: bool = attrs.field(init=False, eq=False)
    searched: bool = attrs.field(init=False, eq=False)
    beside: bool = attrs.field(init=False, eq=False)
    exact: bool = attrs.field(init=False, eq=False)

    @min_cores.default
    def _min_cores(self) -> int:
        return max(1, self._least[0])

    @min_gpus.default
    def _min_gpus(self) -> int:
        return self._least[1]

    @counted.default
    def _counted(self) -> bool:
        above = list(_down_to_slot(self.group))
        return not all(part.count.fixed for part in (above[1:] if self.fill else above))

    @searched.default
    def _searched(self) -> bool:
        return not decided(slot_of(self.group).need, self.locality == "required")

    @beside.default
    def _beside(self) -> bool:
        need = slot_of(self.group).need
        return need.takes_amount and bool(need.parts)

    @exact.default
    def _exact(self) -> bool:
        need, fixed = self.group.need, self.fill or self.group.count.fixed
        takes = fixed and not self.group.whole and least(need)[0] > 0
        return takes and not (self.whole or need.parts or need.fair_share)

    @property
    def _least(self) -> tuple[int, int]:
        """The fewest cores and GPUs of what a node gives at least."""
        units = 1 if self.fill else self.group.count.minimum
        ncores, ngpus = (0, 0) if self.group.whole else least(self.group.need)
        return units * ncores, units * ngpus

    def shortfall(self, units: int, nslots: int) -> int:
        """How far *units* with *nslots* slots in total fall short of MANY; less is better.

        Counts have priority over everything else, the outermost count first (RFC 14: the largest
        valid count).
        """
        if not self.counted:
            return 0
        return MANY - nslots if self.fill else (MANY - units) * MANY + MANY - nslots


def _down_to_slot(part: Part) -> Iterator[Part]:
    """*part* and the parts inside it, down to the slot."""
    while True:
        yield part
        if part.name == SLOT:
            return
        (part,) = part.need.parts


def slot_of(group: Part) -> Part:
    """The slots in *group*, or *group* itself."""
    return list(_down_to_slot(group))[-1]


def decided(need: Need, local: bool) -> bool:
    """Whether numbers decide how many slots of *need* fit, or how many *local* slots.

    This holds if a slot is an amount, or what it takes is apart. It also holds if a slot takes an
    amount beside domains of one locality, unless these are whole and may differ in size, or all
    must be local. See on_node/place.py.
    """
    if not need.parts:
        return need.demand is None
    if need.takes_amount:
        (part, *others), beside = need.parts, need.has_gpu_demand or local
        return not (others or beside or part.name == SLOT or part.whole or part.need.parts)
    return _is_apart(need) and need.with_core == _brings_core(need)


def only_amount(need: Need) -> Optional[Need]:
    """The one amount that is all that a slot of *need* takes, in one domain of each level that it
    names; None if it takes more, or whole domains."""
    if not need.parts:
        return need
    part, *others = need.parts
    beside = others or need.takes_amount
    if beside or part.name == SLOT or part.whole or part.count.minimum > 1:
        return None
    return only_amount(part.need) if need.with_core == _brings_core(need) else None


def _is_apart(need: Need) -> bool:
    """Whether what a slot of *need* takes is one amount, or in domains that do not share anything:
    of one locality at each level, with nothing beside them, and no links between their GPUs."""
    if not need.parts:
        return True
    (part, *others), beside = need.parts, need.takes_amount or need.has_gpu_demand
    if others or beside or part.name == SLOT:
        return False
    return not part.need.parts if part.whole else _is_apart(part.need)


def _brings_core(need: Need) -> bool:
    """Whether *need* has a part of which some domain must have a core."""
    return any(part.with_core or _brings_core(part.need) for part in need.parts)


@attrs.frozen
class Growing:
    """A count below the slot that is a range; all slots of a job get the same value.

    ``path`` leads from the slot to the need or part that it counts: the index of the part at each
    step. ``what`` is ``core``, ``gpu``, or the name of a locality.
    """

    path: tuple[int, ...]
    what: str
    count: Count

    @property
    def depth(self) -> int:
        """How many localities are between the slot and the vertex that has the count."""
        return len(self.path) - (self.what not in ("core", "gpu"))


def with_count(group: Part, growing: Growing, number: int) -> Part:
    """*group* with the count *growing* below its slot set to *number*."""
    if group.name == SLOT:
        return attrs.evolve(group, need=_need_with(group.need, growing, growing.path, number))
    (inner,) = group.need.parts
    need = attrs.evolve(group.need, parts=(with_count(inner, growing, number),))
    return attrs.evolve(group, need=need)


def _need_with(need: Need, growing: Growing, path: tuple[int, ...], number: int) -> Need:
    if not path:
        if growing.what == "core":
            return attrs.evolve(need, cores=number)
        return attrs.evolve(need, gpus=number)
    parts = list(need.parts)
    part = parts[path[0]]
    if len(path) == 1 and growing.what not in ("core", "gpu"):
        parts[path[0]] = attrs.evolve(part, count=Count(number, number))
    else:
        inside = _need_with(part.need, growing, path[1:], number)
        parts[path[0]] = attrs.evolve(part, need=inside)
    return attrs.evolve(need, parts=tuple(parts))


def has_gpus(part: Part) -> bool:
    """Whether *part* has GPUs, as whole domains do."""
    return part.whole or part.need.gpus > 0 or any(map(has_gpus, part.need.parts))


def least(need: Need) -> tuple[int, int]:
    """The fewest cores and GPUs that meet *need*, without what whole domains take."""
    ncores, ngpus = need.cores, need.gpus
    for part in need.parts:
        if not part.whole:
            inner_cores, inner_gpus = least(part.need)
            ncores += part.count.minimum * inner_cores
            ngpus += part.count.minimum * inner_gpus
    return ncores, ngpus
