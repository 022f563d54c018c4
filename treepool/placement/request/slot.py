"""What a slot asks for: what may stand below it, units, exclusive domains, demands on its GPUs."""

from __future__ import annotations

import math
from typing import Iterator, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.placement.nodes.tree import NODE
from treepool.placement.request.job_options import JobOptions
from treepool.placement.request.need import SLOT, Demand, Growing, Need, Part, least
from treepool.rfc.count import BYTES, Count, to_bytes
from treepool.rfc.findings import shown
from treepool.rfc.jobspec import Vertex
from treepool.rfc.quote import did_you_mean

#: Resource types with a meaning of their own; every other type is the name of a locality.
AMOUNTS = ("core", "gpu", "memory", "storage")

#: The unit of memory and storage when none is given, as in the topo (RFC 49).
DEFAULT_UNIT = "GiB"

_ONE = Count(1, 1)


class SlotReader:
    """Reads what is below a slot, for a pool with these *localities*.

    *fabric* are the localities above the nodes, the highest first.
    """

    def __init__(self, localities: Sequence[str], fabric: Sequence[str]) -> None:
        self.localities = frozenset(localities)
        self.fabric = fabric
        #: The counts below the slot that are ranges, in the order written.
        self.growing: list[Growing] = []

    def need(self, parent: Vertex, path: tuple[int, ...], shared: bool) -> Need:
        """What the children of *parent* ask for; if not *shared*, the minimum of a whole domain.

        *path* leads from the slot to *parent*, see Growing.
        """
        amounts: dict[str, int] = {}
        parts: list[Part] = []
        for vertex in parent.children:
            if vertex.type in AMOUNTS:
                if vertex.type in amounts:
                    raise refused(vertex, f"below {parent.type} stands a second")
                amounts[vertex.type] = self.amount(vertex)
                if shared and vertex.type in ("core", "gpu") and not vertex.count.fixed:
                    self.growing.append(Growing(path, vertex.type, vertex.count))
            else:
                parts.append(self.part(vertex, (*path, len(parts)), shared))
        cores, gpus = amounts.get("core", 0), amounts.get("gpu", 0)
        if shared and not (cores or gpus or parts):
            raise refused(parent, "neither cores nor GPUs are asked for in")
        fair_share = shared and gpus > 0 and "core" not in amounts
        return Need(
            cores=1 if fair_share else cores,
            gpus=gpus,
            fair_share=fair_share,
            memory=amounts.get("memory", 0),
            storage=amounts.get("storage", 0),
            parts=tuple(parts),
        )

    def with_core(self, need: Need) -> Need:
        """A slot's *need*, marked ``with_core`` if only its whole domains can bring it a core.

        If all of these domains belong to one part, the part is marked as well, because it decides
        which domains are close to each other.
        """
        if least(need)[0]:
            return need
        ranges = {growing.path for growing in self.growing}

        def marked(need: Need, path: tuple[int, ...]) -> Need:
            if len(need.parts) > 1:
                return need
            (part,) = need.parts
            if part.whole:
                part = attrs.evolve(part, with_core=True)
            elif part.count == _ONE and path not in ranges:
                part = attrs.evolve(part, need=marked(part.need, (*path, 0)))
            return attrs.evolve(need, parts=(part,))

        return attrs.evolve(marked(need, (0,)), with_core=True)

    def part(self, vertex: Vertex, path: tuple[int, ...], shared: bool) -> Part:
        """The part for locality *vertex* below a slot; if not *shared*, inside a whole domain."""
        self.check_known(vertex)
        if vertex.type == NODE or vertex.type in self.fabric:
            raise refused(vertex, "only directly below slot, and alone, can stand a")
        whole = is_whole(vertex)
        if not whole and is_bare(vertex):
            raise refused(vertex, "nothing is asked for below")
        if shared and not vertex.count.fixed:
            self.growing.append(Growing(path, vertex.type, vertex.count))
        least = Count(vertex.count.minimum, vertex.count.minimum)
        need = self.need(vertex, path, shared=shared and not whole)
        return Part(vertex.type, least, whole, need)

    def amount(self, vertex: Vertex) -> int:
        """The number of cores or GPUs, or bytes of memory or storage; the minimum of a range."""
        self.check_plain(vertex)
        if vertex.children:
            raise refused(vertex.children[0], f"nothing can stand below {vertex.type}:")
        if vertex.type in ("core", "gpu"):
            if vertex.exclusive is False:
                raise refused(vertex, "cores and GPUs are never shared: exclusive is false on")
            return vertex.count.minimum
        if vertex.exclusive is not None:
            raise refused(vertex, "capacities are not tracked: exclusive has no meaning on")
        unit = vertex.unit if vertex.unit is not None else DEFAULT_UNIT
        if unit not in BYTES:
            known = ", ".join(BYTES)
            hint = did_you_mean(unit, BYTES)
            raise refused(vertex, f"unknown unit {shown(unit)} on", f"{hint}, known: {known}")
        return to_bytes(vertex.count.minimum, unit)

    def check_known(self, vertex: Vertex) -> None:
        """Reject a vertex whose type is unknown to the pool."""
        if vertex.type == SLOT:
            raise refused(vertex, "a request has one slot vertex, this is a second")
        known = [NODE, SLOT, *AMOUNTS, *sorted(self.localities), *self.fabric]
        if vertex.type not in known:
            names = ", ".join(known)
            hint = did_you_mean(vertex.type, known)
            raise refused(vertex, "unknown resource type", f"{hint}; this pool knows {names}")
        self.check_plain(vertex)

    def check_plain(self, vertex: Vertex) -> None:
        """Reject the keys of RFC 14 that have no meaning on *vertex*."""
        if vertex.id is not None:
            raise refused(vertex, "resources cannot be asked for by id:")
        if vertex.unit is not None and vertex.type not in ("memory", "storage"):
            raise refused(vertex, "a unit has no meaning on")


def is_whole(vertex: Vertex) -> bool:
    """Whether a locality or node below the slot is taken entirely.

    RFC 14: resources in a slot are exclusive unless the jobspec says otherwise.
    """
    return is_bare(vertex) if vertex.exclusive is None else vertex.exclusive


def is_bare(vertex: Vertex) -> bool:
    """Whether *vertex* has no children that can be taken: none, or only memory and storage."""
    return all(child.type in ("memory", "storage") for child in vertex.children)


def refused(vertex: Vertex, why: str, after: str = "") -> InvalidJobspec:
    """The error for *vertex*: *why*, its type, and what comes *after*."""
    return InvalidJobspec(f"{vertex.pointer}: {why} {shown(vertex.type)}{after}")


def with_demands(need: Need, options: JobOptions, whole: bool, growing: bool) -> Need:
    """A slot's *need* with what *options* demand of its memory and GPUs.

    With *whole*, *need* is the least that an entire node must have. With *growing*, a slot may get
    more GPUs than *need* says. A demand without an effect is omitted, because equal needs share
    their results: for example, one GPU has no link to another.
    """
    demand, gpu_memory, allow_cxl = None, options.gpu_memory, options.allow_cxl
    linked = options.gpu_gbps > 0 or options.gpu_link_type != ""
    if linked and (whole or growing or _most_gpus(need) > 1):
        demand = Demand(options.gpu_gbps, options.gpu_link_type)

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


def without_link_demand(need: Need) -> Need:
    """*need* without its demand on the links between GPUs."""
    parts = tuple(attrs.evolve(part, need=without_link_demand(part.need)) for part in need.parts)
    return attrs.evolve(need, parts=parts, demand=None)


def needs_in(need: Need) -> Iterator[Need]:
    """*need* and the needs of all parts in it."""
    yield need
    for part in need.parts:
        yield from needs_in(part.need)


def _most_gpus(need: Need) -> float:
    """The most GPUs that *need* can take; whole domains may have any number."""
    most: float = need.gpus
    for part in need.parts:
        number = math.inf if part.count.maximum is None else part.count.maximum
        each = math.inf if part.whole else _most_gpus(part.need)
        most += number * each if each else 0
    return most
