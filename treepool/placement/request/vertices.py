"""Requests: which forms of a jobspec are accepted, what each asks for, and why others are refused.

This module checks RFC 14's vertices against the forms of doc/design.md, once, at submission. A
vertex that no form covers is an error that names the vertex; nothing is ignored.

The file has more than 300 lines because all forms are read in one walk from the root to the node.
"""

from __future__ import annotations

from math import prod
from typing import Optional, Sequence

import attrs

from treepool.placement.nodes.tree import NODE
from treepool.placement.request import job_options
from treepool.placement.request.form import Fill, Form, Nodes, Span
from treepool.placement.request.job_options import JobOptions, Same, Segment, Wait, Within
from treepool.placement.request.need import (
    SEGMENT,
    SLOT,
    Ask,
    Growing,
    Level,
    Need,
    Part,
    has_gpus,
)
from treepool.placement.request.slot import (
    AMOUNTS,
    SlotReader,
    is_bare,
    is_whole,
    refused,
    with_demands,
)
from treepool.rfc.constraint import Constraint, with_property
from treepool.rfc.count import Count
from treepool.rfc.findings import shown
from treepool.rfc.jobspec import Jobspec, Vertex

_ONE = Count(1, 1)


@attrs.frozen(cache_hash=True)
class Request:
    """A job's resource request, ready for Pool.alloc; see Pool.request.

    Requests can be compared, hashed and pickled. ``duration`` is in seconds, 0 for unlimited; what
    else they have is private.
    """

    # same asks for nodes that share a property.
    #
    # levels are the localities above the nodes that the request names, the outermost first. Each
    # innermost domain gives what form says. If slots or segments stand above such a locality, they
    # are a level, too, and each innermost domain gives the nodes of form.
    #
    # In ask, ranges below the slot are at their minimum. growing lists these ranges, the outer ones
    # first.
    #
    # Whoever allocates ignores wait, see choose/strict.py. at_most limits the number of domains
    # that the job may span: of the only innermost domain. With across_types, nodes on which its
    # slots are split come after nodes of another type on which they are not, see
    # candidates.split_on().

    ask: Ask
    form: Form
    duration: float = 0.0
    constraint: Optional[Constraint] = None
    same: Optional[Same] = None
    growing: tuple[Growing, ...] = ()
    levels: tuple[Level, ...] = ()
    wait: Optional[Wait] = None
    at_most: Optional[Within] = None
    across_types: bool = False

    @property
    def above(self) -> bool:
        """Whether the request says anything of domains above the nodes."""
        return bool(self.levels or self.at_most)

    @property
    def bound(self) -> Ask:
        """What a node must be able to give if it is to serve the request, whatever its counts.

        With locality=required a larger count may be local where the smallest is not.
        """
        ask = self.ask
        if not self.growing or ask.locality != "required":
            return ask
        return attrs.evolve(ask, locality="none")

    @property
    def least_asks(self) -> int:
        """How many times all of the job takes what ``ask`` asks for, at least."""
        return self.least_in_each * prod(level.count.minimum for level in self.levels)

    @property
    def least_in_each(self) -> int:
        """How many times each innermost domain above the nodes gives that at least."""
        if any(level.groups for level in self.levels):
            return self.form.counts[-1].minimum
        return self.form.least

    @property
    def number(self) -> Optional[int]:
        """The number of units if it is fixed and no node decides more."""
        return self.form.most if self.form.fixed and not self.ask.counted else None


def request_of(
    jobspec: Jobspec,
    localities: Sequence[str],
    locality: str,
    above: Sequence[str] = (),
    gpu_cores: int = 0,
) -> Request:
    """The Request of *jobspec* for a pool whose trees have these *localities*.

    *above* are the localities above the nodes, the highest first. *locality* is the pool's mode,
    which the jobspec may override. A job without GPUs may not have *gpu_cores* cores near each GPU.
    Raises InvalidJobspec with the JSON pointer of a vertex that no form of doc/design.md covers.
    """
    request = _Reader(localities, above).request(jobspec, locality)
    if gpu_cores and not (request.ask.whole or has_gpus(request.ask.group)):
        request = attrs.evolve(request, ask=attrs.evolve(request.ask, spare=gpu_cores))
    return request


class _Reader:
    """Reads vertices for a pool that knows some localities."""

    def __init__(self, localities: Sequence[str], fabric: Sequence[str]) -> None:
        self.fabric = fabric
        self.slots = SlotReader(localities, fabric)

    def request(self, jobspec: Jobspec, locality: str) -> Request:
        localities = sorted(self.slots.localities)
        options = job_options.read(jobspec.options, localities, locality, self.fabric)
        levels, node, above, slot = self.above(jobspec.resources)
        if options.share_cores and any(child.type == "gpu" for child in slot.children):
            slot = attrs.evolve(
                slot, children=tuple(child for child in slot.children if child.type != "core")
            )
        below, spanned = self.spanned(slot)
        if spanned is None:
            group = self.slots_on_node(slot, node, above, options)
            whole = node is not None and node.exclusive is True
            form: Form = Fill(group.count) if node is None else Nodes(node.count)
        else:
            for upper in (*([node] if node else []), *above):
                raise refused(spanned, f"a slot below {upper.type} cannot span nodes:")
            whole = is_whole(spanned) or any(level.whole for level in below)
            group = self.node_of_slot(spanned, whole, options)
            form = Span(slot.count, spanned.count)
        ask = Ask(group, isinstance(form, Fill), whole, options.locality)
        at_most = self.at_most(options, levels, below, ask, slot)
        if options.segments:
            form, segments = self.segmented(options.segments, form, slot, levels, below)
            levels += segments
        if below:
            levels += [Level(SLOT, slot.count, groups=True), *below]
        levels = [Level(w.locality, _ONE) for w in options.within if w.domains == 1] + levels
        constraint = jobspec.constraint
        if options.unified_memory:
            constraint = with_property(constraint, job_options.UNIFIED)
        growing = tuple(sorted(self.slots.growing, key=lambda g: g.depth))
        return Request(
            ask,
            form,
            jobspec.duration,
            constraint,
            options.same,
            growing,
            tuple(levels),
            options.wait,
            at_most,
            options.says_locality,
        )

    def at_most(
        self,
        options: JobOptions,
        above: Sequence[Level],
        below: Sequence[Level],
        ask: Ask,
        slot: Vertex,
    ) -> Optional[Within]:
        """The limit on the number of domains of a job.

        *above* and *below* its slot, the jobspec names these localities above the nodes.
        """
        limit = options.several
        if limit is None:
            return None
        limited = f"{limit.domains} domains of {shown(limit.locality)} at most are asked for"
        if above or below:
            named = shown((*above, *below)[0].name)
            where = "above" if above else "below"
            raise refused(slot, f"{limited}, but the jobspec names {named} {where}")
        if ask.counted:
            raise refused(slot, f"{limited}, but each node may give another number of")
        return limit if limit in options.within else None

    def slots_on_node(
        self, slot: Vertex, node: Optional[Vertex], above: Sequence[Vertex], options: JobOptions
    ) -> Part:
        """What one node gives to slots that span no nodes: slots, or the domains *above* them."""
        need = self.slots.with_core(self.slots.need(slot, (), shared=True))
        group = Part(SLOT, slot.count, False, self.with_demands(need, options))
        if options.level is not None:
            group = self.levelled(group, options, slot, node, above)
        for vertex in reversed(above):
            need = Need(parts=(group,))
            group = Part(vertex.type, vertex.count, vertex.exclusive is True, need)
        return group

    def node_of_slot(self, node: Vertex, whole: bool, options: JobOptions) -> Part:
        """What each *node* gives to a slot that spans nodes; all of it, if *whole*."""
        need = self.slots.need(node, (), shared=not whole)
        need = self.with_demands(need if whole else self.slots.with_core(need), options, whole)
        group = Part(SLOT, _ONE, whole and need.has_gpu_demand, need)
        if options.level is None:
            return group
        if whole:
            raise refused(node, "a level is asked for, but all is asked of each")
        return self.levelled(group, options, node, node, ())

    def segmented(
        self,
        wanted: Sequence[Segment],
        form: Form,
        slot: Vertex,
        above: Sequence[Level],
        below: Sequence[Level],
    ) -> tuple[Form, list[Level]]:
        """*form* with the nodes of each innermost group, and the levels that *wanted*, the
        outermost first, adds to it."""
        if below:
            named = shown(below[0].name)
            raise refused(slot, f"segments are asked for, but the jobspec names {named} below")
        if isinstance(form, Fill):
            raise refused(slot, "segments need a number of nodes, but no node is above or below")
        if not form.fixed:
            raise refused(slot, "segments need a fixed number of nodes, but it is a range for")
        total = form.least
        levels: list[Level] = []
        for segment in wanted:
            number, rest = divmod(total, segment.nodes)
            if rest:
                where = f" in each {shown(above[-1].name)}" if above else ""
                why = f"segments of {segment.nodes} nodes do not divide the {total} nodes{where} of"
                raise refused(slot, why)
            levels += [
                Level(SEGMENT, Count(number, number), groups=True),
                Level(segment.locality, _ONE),
            ]
            total = segment.nodes
        return attrs.evolve(form, nodes=Count(total, total)), levels

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
            why = "a level is asked for, but the jobspec names localities above or below"
            raise refused(slot, why)
        if not options.whole_node:
            growing = self.slots.growing
            growing[:] = [attrs.evolve(g, path=(0, *g.path)) for g in growing]
            inside = Part(options.level, _ONE, False, group.need)
            return attrs.evolve(group, need=Need(parts=(inside,)))
        if node is None:
            raise refused(slot, "all slots on a node in one domain: a node must stand above")
        return Part(options.level, _ONE, False, Need(parts=(group,)))

    def with_demands(self, need: Need, options: JobOptions, whole: bool = False) -> Need:
        """A slot's *need* with what *options* demand of its memory and GPUs."""
        growing = any(g.what != "core" for g in self.slots.growing)
        return with_demands(need, options, whole, growing)

    def above(
        self, resources: Sequence[Vertex]
    ) -> tuple[list[Level], Optional[Vertex], list[Vertex], Vertex]:
        """The localities above the node, the node if there is one, those in it, and the slot."""
        levels: list[Level] = []
        node: Optional[Vertex] = None
        above: list[Vertex] = []
        level = resources
        while True:
            vertex = level[0]
            if len(level) > 1:
                raise refused(level[1], "only one vertex can lead to the slot, not also")
            if vertex.type == SLOT:
                if vertex.exclusive is False:
                    raise refused(vertex, "slots are never shared, exclusive cannot be false on")
                self.slots.check_plain(vertex)
                return levels, node, above, vertex
            self.slots.check_known(vertex)
            if vertex.type in AMOUNTS or not vertex.children:
                raise refused(vertex, "there is no slot above or below")
            if vertex.type in self.fabric:
                if node is not None or above:
                    raise refused(vertex, f"{shown((node or above[0]).type)} is inside a")
                if vertex.exclusive:
                    raise refused(vertex, "only below the slot can all be taken of a")
                levels.append(Level(vertex.type, vertex.count))
            elif vertex.type != NODE:
                above.append(vertex)
            elif node is None and not above:
                node = vertex
            else:
                raise refused(vertex, "nothing but slot can stand above")
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
                raise refused(vertex, "nothing can stand beside")
            self.slots.check_known(vertex)
            if vertex.exclusive is False and is_bare(vertex):
                raise refused(vertex, "nothing is asked for below")
            if vertex.type == NODE:
                return levels, vertex
            if levels and levels[-1].whole:
                raise refused(vertex, "all is taken of what is around")
            levels.append(Level(vertex.type, vertex.count, is_whole(vertex)))
            parent = vertex
        if levels and (parent.children or not levels[-1].whole):
            raise refused(parent, "there is no node below")
        # All nodes of a domain: at least one.
        return levels, Vertex(NODE, Count(1, None), pointer=parent.pointer) if levels else None
