"""Requests: what a jobspec asks for, in the terms of placement.

This module checks RFC 14's vertices against DESIGN's table of forms, once, at submission. A vertex
that no form covers is an error that names the vertex; nothing is ignored.
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.placement.nodes.tree import NODE
from treepool.placement.request import job_options
from treepool.placement.request.job_options import JobOptions, Same, Segment
from treepool.placement.request.need import (
    SEGMENT,
    SLOT,
    Ask,
    Demand,
    Growing,
    Level,
    Need,
    Part,
    ask_of,
    least,
    with_demands,
)
from treepool.rfc import units
from treepool.rfc.constraint import Constraint
from treepool.rfc.count import Count
from treepool.rfc.findings import shown
from treepool.rfc.jobspec import Jobspec, Vertex
from treepool.rfc.spelling import did_you_mean

#: Resource types with a meaning of their own; every other type is the name of a locality.
AMOUNTS = ("core", "gpu", "memory", "storage")

#: The unit of memory and storage when none is given, as in the topo (RFC 49).
DEFAULT_UNIT = "GiB"

_ONE = Count(1, 1)


@attrs.frozen(cache_hash=True)
class Request:
    """A job's resource request, ready for Pool.alloc; make it with Pool.parse_resource_request.

    ``nodes`` is None when the request may fill any nodes. Otherwise it is the number of distinct
    nodes: per slot if ``spans`` (slot above node), else in total. ``units`` is the total number of
    units wanted: slots, or domains if a locality but no node is above the slot. It has no meaning
    if a node is above the slot. ``duration`` is in seconds, 0 for unlimited. ``same`` asks for
    nodes that share a property.

    ``levels`` are the localities above the nodes that the request names, the outermost first. Each
    innermost domain gives what ``nodes`` and ``units`` say. If slots stand above such a locality,
    they are a level, too, and ``nodes`` is the number of nodes in each innermost domain.

    In ``ask``, ranges below the slot are at their minimum. ``growing`` lists these ranges, the
    outer ones first.

    ``wait`` is for how many seconds a job waits for a place as close as it prefers, in a domain of
    ``within_for_now``, if that is given; see choose/strict.py. Whoever allocates ignores both.
    ``most`` is how many of the domains directly below the pool it may span; 0 is no limit.
    """

    ask: Ask
    nodes: Optional[Count]
    units: Count
    spans: bool = False
    duration: float = 0.0
    constraint: Optional[Constraint] = None
    same: Optional[Same] = None
    growing: tuple[Growing, ...] = ()
    levels: tuple[Level, ...] = ()
    wait: float = 0.0
    within_for_now: Optional[str] = None
    most: int = 0


def request_of(
    jobspec: Jobspec, localities: Sequence[str], locality: str, above: Sequence[str] = ()
) -> Request:
    """The Request of *jobspec* for a pool whose trees have these *localities*.

    *above* are the localities above the nodes, the highest first.
    *locality* is the pool's mode, which the jobspec may override. Raises InvalidJobspec with the
    JSON pointer of a vertex that no form of DESIGN's table covers.
    """
    return _Reader(localities, above).request(jobspec, locality)


class _Reader:
    """Reads vertices for a pool that knows some localities."""

    def __init__(self, localities: Sequence[str], fabric: Sequence[str]) -> None:
        self.localities = frozenset(localities)
        #: The localities above the nodes, the highest first.
        self.fabric = fabric
        #: The counts below the slot that are ranges, in the order written.
        self.growing: list[Growing] = []

    def request(self, jobspec: Jobspec, locality: str) -> Request:
        localities = sorted(self.localities)
        options = job_options.read(jobspec.options, localities, locality, self.fabric)
        levels, node, above, slot = self.above(jobspec.resources)
        below, spanned = self.spanned(slot)
        if spanned is None:
            need = self.with_demands(self.with_core(self.need(slot, (), shared=True)), options)
            group = Part(SLOT, slot.count, False, need)
            if options.level is not None:
                group = self.levelled(group, options, slot, node, above)
            for vertex in reversed(above):
                need = Need(parts=(group,))
                group = Part(vertex.type, vertex.count, vertex.exclusive is True, need)
            whole = node is not None and node.exclusive is True
            nodes = node.count if node is not None else None
        else:
            for upper in (*([node] if node else []), *above):
                raise _refused(spanned, f"a slot below {upper.type} cannot span nodes:")
            whole = _is_whole(spanned) or any(level.whole for level in below)
            need = self.need(spanned, (), shared=not whole)
            need = self.with_demands(need if whole else self.with_core(need), options, whole)
            group = Part(SLOT, _ONE, whole and need.has_gpu_demand, need)
            if options.level is not None:
                if whole:
                    raise _refused(spanned, "a level is asked for, but all is asked of each")
                group = self.levelled(group, options, spanned, spanned, above)
            nodes = spanned.count
        ask = ask_of(group, nodes is None, whole, options.locality)
        total = slot.count if spanned is not None else group.count
        if below:
            levels += [Level(SLOT, slot.count), *below]
        if options.segment is not None:
            nodes, segments = self.segmented(options.segment, nodes, slot, spanned, below)
            levels += segments
        if options.within is not None:
            levels.insert(0, Level(options.within, _ONE))
        constraint = _with_property(jobspec.constraint, options)
        growing = tuple(sorted(self.growing, key=lambda g: g.depth))
        return Request(
            ask,
            nodes,
            total,
            spanned is not None,
            jobspec.duration,
            constraint,
            options.same,
            growing,
            tuple(levels),
            options.wait,
            options.within_for_now,
        )

    def segmented(
        self,
        segment: Segment,
        nodes: Optional[Count],
        slot: Vertex,
        spanned: Optional[Vertex],
        below: Sequence[Level],
    ) -> tuple[Count, list[Level]]:
        """The nodes of each group, and the levels that *segment* adds to a request for *nodes*."""
        if below:
            raise _refused(slot, "a segment is asked for, but the jobspec names localities below")
        if nodes is None:
            raise _refused(slot, "a segment is asked for, but no number of nodes around")
        slots = slot.count if spanned is not None else _ONE
        if not (nodes.fixed and slots.fixed):
            raise _refused(slot, "a segment needs a fixed number of nodes around")
        number, rest = divmod(nodes.minimum * slots.minimum, segment.nodes)
        if rest:
            raise _refused(
                slot,
                f"segments of {segment.nodes} nodes do not divide the"
                f" {nodes.minimum * slots.minimum} nodes of",
            )
        group = Count(segment.nodes, segment.nodes)
        return group, [Level(SEGMENT, Count(number, number)), Level(segment.locality, _ONE)]

    def levelled(
        self,
        group: Part,
        options: JobOptions,
        slot: Vertex,
        node: Optional[Vertex],
        above: Sequence[Vertex],
    ) -> Part:
        """*group* with each slot, or all slots on a node, in one domain of the level asked for.

        The result is the same as if the jobspec named this locality below, or above, the slot.
        """
        assert options.level is not None
        if group.need.parts or above:
            raise _refused(slot, "a level is asked for, but the jobspec names localities around")
        if not options.whole_node:
            self.growing = [attrs.evolve(g, path=(0, *g.path)) for g in self.growing]
            inside = Part(options.level, _ONE, False, group.need)
            return attrs.evolve(group, need=Need(parts=(inside,)))
        if node is None:
            raise _refused(slot, "all slots on a node in one domain: a node must stand above")
        return Part(options.level, _ONE, False, Need(parts=(group,)))

    def with_demands(self, need: Need, options: JobOptions, whole: bool = False) -> Need:
        """A slot's *need* with what *options* ask of its memory and GPUs."""
        demand = None
        if options.gpu_gbps or options.gpu_link_type:
            demand = Demand(options.gpu_gbps, options.gpu_link_type)
        growing = any(g.what != "core" for g in self.growing)
        return with_demands(need, demand, options.gpu_memory, options.allow_cxl, whole, growing)

    def above(
        self, resources: Sequence[Vertex]
    ) -> tuple[list[Level], Optional[Vertex], list[Vertex], Vertex]:
        """What is above the slot, and the slot.

        That is the localities above the node, the node, if any, and the localities in it.
        """
        levels: list[Level] = []
        node: Optional[Vertex] = None
        above: list[Vertex] = []
        level = resources
        while True:
            vertex = level[0]
            if len(level) > 1:
                raise _refused(level[1], "only one vertex can lead to the slot, not also")
            if vertex.type == SLOT:
                if vertex.exclusive is False:
                    raise _refused(vertex, "slots are never shared, exclusive cannot be false on")
                self.check_plain(vertex)
                return levels, node, above, vertex
            self.check_known(vertex)
            if vertex.type in AMOUNTS or not vertex.children:
                raise _refused(vertex, "there is no slot above or below")
            if vertex.type in self.fabric:
                if node is not None or above:
                    raise _refused(vertex, f"{shown((node or above[0]).type)} is inside a")
                if vertex.exclusive:
                    raise _refused(vertex, "only below the slot can all be taken of a")
                levels.append(Level(vertex.type, vertex.count))
            elif vertex.type != NODE:
                above.append(vertex)
            elif node is None and not above:
                node = vertex
            else:
                raise _refused(vertex, "nothing but slot can stand above")
            level = vertex.children

    def spanned(self, slot: Vertex) -> tuple[list[Level], Optional[Vertex]]:
        """The localities above the node below *slot*, and the node, if the slot spans nodes."""
        levels: list[Level] = []
        parent = slot
        while True:
            vertex = next((v for v in parent.children if v.type in (NODE, *self.fabric)), None)
            if vertex is None:
                break
            if len(parent.children) > 1:
                raise _refused(vertex, "nothing can stand beside")
            self.check_known(vertex)
            if vertex.exclusive is False and _is_bare(vertex):
                raise _refused(vertex, "nothing is asked for below")
            if vertex.type == NODE:
                return levels, vertex
            if levels and levels[-1].whole:
                raise _refused(vertex, "all is taken of what is around")
            levels.append(Level(vertex.type, vertex.count, _is_whole(vertex)))
            parent = vertex
        if levels and (parent.children or not levels[-1].whole):
            raise _refused(parent, "there is no node below")
        # All nodes of a domain: at least one.
        return levels, Vertex(NODE, Count(1, None), pointer=parent.pointer) if levels else None

    def need(self, parent: Vertex, path: tuple[int, ...], shared: bool) -> Need:
        """What the children of *parent* ask for; if not *shared*, the minimum of a whole domain.

        *path* leads from the slot to *parent*, see Growing.
        """
        amounts: dict[str, int] = {}
        parts: list[Part] = []
        for vertex in parent.children:
            if vertex.type in AMOUNTS:
                if vertex.type in amounts:
                    raise _refused(vertex, f"below {parent.type} stands a second")
                amounts[vertex.type] = self.amount(vertex)
                if shared and vertex.type in ("core", "gpu") and not vertex.count.fixed:
                    self.growing.append(Growing(path, vertex.type, vertex.count))
            else:
                parts.append(self.part(vertex, (*path, len(parts)), shared))
        cores, gpus = amounts.get("core", 0), amounts.get("gpu", 0)
        if shared and not (cores or gpus or parts):
            raise _refused(parent, "neither cores nor GPUs are asked for in")
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
        """A slot's *need*; if no amount brings it a core, one of its whole domains must.

        Where they are all of one part, the part says so too: it decides what is close.
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
            raise _refused(vertex, "only directly below slot, and alone, can stand a")
        whole = _is_whole(vertex)
        if not whole and _is_bare(vertex):
            raise _refused(vertex, "nothing is asked for below")
        if shared and not vertex.count.fixed:
            self.growing.append(Growing(path, vertex.type, vertex.count))
        least = Count(vertex.count.minimum, vertex.count.minimum)
        need = self.need(vertex, path, shared=shared and not whole)
        return Part(vertex.type, least, whole, need)

    def amount(self, vertex: Vertex) -> int:
        """The number of cores or GPUs, or bytes of memory or storage; the minimum of a range."""
        self.check_plain(vertex)
        if vertex.children:
            raise _refused(vertex.children[0], f"nothing can stand below {vertex.type}:")
        if vertex.type in ("core", "gpu"):
            if vertex.exclusive is False:
                raise _refused(vertex, "cores and GPUs are never shared: exclusive is false on")
            return vertex.count.minimum
        if vertex.exclusive is not None:
            raise _refused(vertex, "capacities are not tracked: exclusive has no meaning on")
        unit = vertex.unit if vertex.unit is not None else DEFAULT_UNIT
        if unit not in units.BYTES:
            known = ", ".join(units.BYTES)
            raise _refused(vertex, f"unknown unit {shown(unit)} on", f", known: {known}")
        return units.to_bytes(vertex.count.minimum, unit)

    def check_known(self, vertex: Vertex) -> None:
        """Reject a vertex whose type is unknown to the pool."""
        if vertex.type == SLOT:
            raise _refused(vertex, "a request has one slot vertex, this is a second")
        known = [NODE, SLOT, *AMOUNTS, *sorted(self.localities), *self.fabric]
        if vertex.type not in known:
            names = ", ".join(known)
            hint = did_you_mean(vertex.type, known)
            raise _refused(vertex, "unknown resource type", f"{hint}; this pool knows {names}")
        self.check_plain(vertex)

    def check_plain(self, vertex: Vertex) -> None:
        """Reject the keys of RFC 14 that have no meaning on *vertex*."""
        if vertex.id is not None:
            raise _refused(vertex, "resources cannot be asked for by id:")
        if vertex.unit is not None and vertex.type not in ("memory", "storage"):
            raise _refused(vertex, "a unit has no meaning on")


def _is_whole(vertex: Vertex) -> bool:
    """Whether a locality or node below the slot is taken entirely.

    RFC 14: resources in a slot are exclusive unless the jobspec says otherwise.
    """
    return _is_bare(vertex) if vertex.exclusive is None else vertex.exclusive


def _is_bare(vertex: Vertex) -> bool:
    """Whether *vertex* has no children that can be taken: none, or only memory and storage."""
    return all(child.type in ("memory", "storage") for child in vertex.children)


def _with_property(constraint: Optional[Constraint], options: JobOptions) -> Optional[Constraint]:
    """*constraint* combined with the property that ``unified_memory`` asks for, if it is set."""
    if not options.unified_memory:
        return constraint
    unified = Constraint("properties", (job_options.UNIFIED,))
    return unified if constraint is None else Constraint("and", parts=(unified, constraint))


def _refused(vertex: Vertex, why: str, after: str = "") -> InvalidJobspec:
    return InvalidJobspec(f"{vertex.pointer}: {why} {shown(vertex.type)}{after}")
