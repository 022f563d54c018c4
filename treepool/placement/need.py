"""Needs: what a slot, a locality or a node is asked to give, in the terms of placement."""

from __future__ import annotations

import math
from typing import Iterator, Optional

import attrs

from treepool.placement.linkset import Demand
from treepool.rfc.count import Count

#: The name of the part that stands for task slots; every other name is a locality.
SLOT = "slot"


@attrs.frozen(cache_hash=True)
class Need:
    """What is taken together: an amount from one domain, and parts of their own localities.

    ``cores`` and ``gpus`` are numbers. With ``fair_share`` the GPUs bring as many cores as their
    share of the domain they sit in, of which ``cores`` (1) is the least. ``memory`` and
    ``storage`` (bytes) are what the domain, or the node, must have; nothing of them is used up.
    With ``allow_cxl`` CXL memory counts for ``memory``.

    ``demand`` and ``gpu_memory`` (bytes) are about the GPUs of this need: each has that much memory
    at least, and any two of one slot, wherever in its parts, are linked as the demand says. For a
    whole domain they are about all of its GPUs.
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
    #: Whether something is demanded of GPUs, here or in some part.
    choosy: bool = attrs.field(init=False, eq=False)

    @choosy.default
    def _choosy(self) -> bool:
        inside = any(part.need.choosy for part in self.parts)
        return self.demand is not None or self.gpu_memory > 0 or inside

    @property
    def takes_amount(self) -> bool:
        """True if cores or GPUs are asked beside the parts."""
        return bool(self.cores or self.gpus)


@attrs.frozen(cache_hash=True)
class Part:
    """``count`` slots, or that many distinct domains of locality ``name``, each giving ``need``.

    A ``whole`` domain is taken entirely; ``need`` is then the least it must have. ``with_core``
    rules out domains without cores: those whole domains are all that a slot takes, and no slot is
    without a core (RFC 20: nor is a node).
    """

    name: str
    count: Count
    whole: bool
    need: Need
    with_core: bool = False

    @property
    def nslots(self) -> int:
        """How many task slots the part holds, every count at its minimum."""
        inside = sum(part.nslots for part in self.need.parts)
        return self.count.minimum * (1 if self.name == SLOT else inside)


@attrs.frozen(eq=False)
class Ask:
    """What a request wants of a single node; the key under which states remember their fit.

    Asks are interned (see ``ask_of``), so equal ones are one object and hash by identity. A node
    hosts ``group``: with ``fill`` up to its largest count, else one of its valid counts. ``whole``
    takes the entire node, which must be idle. ``min_cores`` and ``min_gpus`` are fewer than which
    no node can serve it: most states are ruled out by these two numbers alone.
    """

    group: Part
    fill: bool
    whole: bool
    locality: str
    #: Choices tried for this ask so far, on all states (a list of one number).
    tried: list[int] = attrs.field(init=False, factory=lambda: [0])
    min_cores: int = attrs.field(init=False)
    min_gpus: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        units = 1 if self.fill else self.group.count.minimum
        ncores, ngpus = (0, 0) if self.group.whole else least(self.group.need)
        object.__setattr__(self, "min_cores", max(1, units * ncores))
        object.__setattr__(self, "min_gpus", units * ngpus)


def demanding(
    need: Need, demand: Optional[Demand], gpu_memory: int, allow_cxl: bool, whole: bool = False
) -> Need:
    """A slot's *need* with *demand* and *gpu_memory* for its GPUs, and CXL memory perhaps.

    With *whole* it is the least that an entire node must have. Nothing is noted where it has no
    effect: with one GPU there is no link between two, and equal needs are remembered together.
    """
    if demand is not None and not whole and _most_gpus(need) < 2:
        demand = None

    def noted(need: Need, whole: bool) -> Need:
        takes_gpus = whole or need.gpus > 0
        return attrs.evolve(
            need,
            parts=tuple(
                attrs.evolve(part, need=noted(part.need, part.whole)) for part in need.parts
            ),
            allow_cxl=allow_cxl and need.memory > 0,
            demand=demand if takes_gpus else None,
            gpu_memory=gpu_memory if takes_gpus else 0,
        )

    return noted(need, whole) if demand or gpu_memory or allow_cxl else need


def undemanding(need: Need) -> Need:
    """*need* without what it demands of the links of GPUs."""
    parts = tuple(attrs.evolve(part, need=undemanding(part.need)) for part in need.parts)
    return attrs.evolve(need, parts=parts, demand=None)


def needs_in(need: Need) -> Iterator[Need]:
    """*need* and those of all parts in it."""
    yield need
    for part in need.parts:
        yield from needs_in(part.need)


def _most_gpus(need: Need) -> float:
    """The most GPUs that meet *need*; whole domains may have any number."""
    most: float = need.gpus
    for part in need.parts:
        number = math.inf if part.count.maximum is None else part.count.maximum
        each = math.inf if part.whole else _most_gpus(part.need)
        most += number * each if each else 0
    return most


def least(need: Need) -> tuple[int, int]:
    """Fewest cores and GPUs that meet *need*; what whole domains take is not counted."""
    ncores, ngpus = need.cores, need.gpus
    for part in need.parts:
        if not part.whole:
            inner_cores, inner_gpus = least(part.need)
            ncores += part.count.minimum * inner_cores
            ngpus += part.count.minimum * inner_gpus
    return ncores, ngpus


_asks: dict[tuple[Part, bool, bool, str], Ask] = {}


def ask_of(group: Part, fill: bool, whole: bool, locality: str) -> Ask:
    """The one Ask with these values."""
    key = (group, fill, whole, locality)
    ask = _asks.get(key)
    if ask is None:
        if len(_asks) >= 4096:  # forgetting only means computing fits again
            _asks.clear()
        ask = _asks[key] = Ask(*key)
    return ask
