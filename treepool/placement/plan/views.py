"""Views: what is free from one time to another, in the form that the choice of nodes needs.

A view is an index of the nodes, like the pool's own, so the choice works on a time to come as it
does on the present. To turn a view to another time, only the nodes that differ are moved.

Methods that may take long are generators. They yield every few milliseconds, and what they return
is so at that moment, whatever changed meanwhile.
"""

from __future__ import annotations

from typing import Generator, Optional

from treepool.placement.choose.choice import Situation
from treepool.placement.choose.selection import Choice
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node.fit import assess, most_units
from treepool.placement.plan.jobs import Sight
from treepool.placement.plan.profile import PRESENT, Profile
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

#: Most views that are kept. One takes about 0.3 MB at 11,136 nodes.
MAX_VIEWS = 24

#: For how many requests a view keeps the candidates.
_MAX_CANDIDATES = 4

#: Ranks that are moved in one step.
_RANKS = 256

#: Work (see Meter) for a choice, to look at a state or rank, and to count the units of a state.
CHOICE, LOOK, _FIT = 30, 1, 20


class View:
    """What is free throughout the time from ``start`` to ``end``, as ``sight`` sees it.

    ``position`` is up to where the view has followed the log of the profile. While somebody counts
    ``units``, ``free`` is their number.
    """

    __slots__ = ("start", "end", "sight", "situation", "position", "units", "free")

    def __init__(
        self,
        start: float,
        end: float,
        sight: Sight,
        situation: Situation,
        position: int,
    ) -> None:
        self.start = start
        self.end = end
        self.sight = sight
        self.situation = situation
        self.position = position
        self.units: Optional[Units] = None
        self.free = 0


class Units:
    """Counts the units of *request* (slots, domains or nodes) that nodes can serve.

    At first this is an upper bound by the numbers of free cores and GPUs. Once it is ``exact``, it
    is what really fits, unless that needs a search.
    """

    def __init__(self, request: Request, profile: Profile) -> None:
        self.ask = request.bound
        self.need = request.least_asks
        self.within = profile.pool.inventory.matching(request.constraint)
        self._node_types = profile.pool.inventory.node_types
        self._meter = profile.meter
        self.exact = False
        self._known: dict[NodeState, int] = {}

    @property
    def least(self) -> tuple[int, int]:
        """The cores and GPUs that the request takes at least: all of each node if it says so."""
        cores, gpus = self.ask.min_cores, self.ask.min_gpus
        if self.ask.whole:
            roots = [t.root for t, ranks in self._node_types.items() if ranks & self.within]
            able = [root for root in roots if root.ncores >= cores and root.ngpus >= gpus]
            cores = min((root.ncores for root in able), default=cores)
            gpus = min((root.ngpus for root in able), default=gpus)
        return self.need * cores, self.need * gpus

    def lacking(self, cores: int, gpus: int) -> int:
        """For how many of the units that are needed so many *cores* and *gpus* are too few."""
        short = (
            -((have - all_of_them) * self.need // all_of_them)
            for have, all_of_them in zip((cores, gpus), self.least)
            if have < all_of_them
        )
        return max(short, default=0)

    def become_exact(self) -> None:
        """From now on count the units that really fit."""
        self.exact = True
        self._known.clear()

    def of(self, state: NodeState) -> int:
        """The units of one node in *state*."""
        known = self._known.get(state)
        if known is None:
            known = most_units(state, self.ask)
            if self.exact and known and not self.ask.searched:
                fit = assess(state, self.ask)
                known = known if fit.gave_up else len(fit.steps)
            self._known[state] = known
            self._meter.owe(_FIT)
        return known

    def on(self, ranks: int, state: NodeState) -> int:
        """The units of *ranks* (bitmask), which are up, in *state*."""
        if state.ncores < self.ask.min_cores or state.ngpus < self.ask.min_gpus:
            return 0
        number = idset.size(ranks & self.within)
        return number and number * self.of(state)

    def in_situation(self, situation: Situation) -> int:
        """The units of all nodes that are up."""
        return sum(self.on(ranks, state) for state, ranks in situation.index.buckets.items())


class Views:
    """The latest views of *profile*."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._views: list[View] = []

    def at(self, start: float, end: float, sight: Sight) -> Generator[None, None, View]:
        """A view of the time from *start* to *end*; ``keep`` it afterwards.

        If nothing planned begins before the end, the present is the pool's own index.
        """
        profile, pool = self.profile, self.profile.pool
        if self._views and self._views[-1].situation.inventory is not pool.inventory:
            self._views.clear()
        own = View(PRESENT, PRESENT, Sight(), pool.situation, profile.log.end)
        if start == PRESENT and not profile.starts.before(end):
            return own
        base = self._nearest(start, end, sight) or own
        if len(self._views) >= MAX_VIEWS:
            del self._views[0]
        situation = base.situation.on(base.situation.index.copy())
        view = View(base.start, base.end, base.sight, situation, base.position)
        if base is own and profile.is_behind:  # the pool's index is ahead of the profile
            view = View(start, end, sight, situation, -1)
        yield from self.turn(view, start, end, sight)
        return view

    def keep(self, view: View) -> None:
        """Offer *view* as a base for others."""
        view.units = None
        if view.situation is not self.profile.pool.situation and not self._is_old(view):
            self._views.append(view)

    def _is_old(self, view: View) -> bool:
        """Whether *view* is of nodes that were replaced: it then stays as it is."""
        return view.situation.inventory is not self.profile.pool.inventory

    def like(self, view: View, index: NodeIndex) -> View:
        """A view of the same time with another *index*."""
        situation = view.situation.on(index)
        return View(view.start, view.end, view.sight, situation, view.position)

    def _nearest(self, start: float, end: float, sight: Sight) -> Optional[View]:
        """The view that differs least from the requested one; None stands for the pool's index."""
        profile, changes = self.profile, self.profile.log.end
        ended, planned = profile.ends.upto(start), profile.starts.before(end)
        best, least = None, ended + planned
        for view in self._views:
            differ = changes - view.position
            if differ > least:  # True of most: each further term costs as much as moving a rank
                continue
            differ += abs(profile.ends.upto(view.start) - ended)
            differ += abs(profile.starts.before(view.end) - planned)
            differ += len(view.sight.without ^ sight.without)
            if view.sight.preempts != sight.preempts:
                differ += len(profile.preemptible)
            if differ <= least:
                best, least = view, differ
        return best

    def turn(
        self, view: View, start: float, end: float, sight: Sight
    ) -> Generator[None, None, None]:
        """Turn *view* to another time."""
        log = self.profile.log
        if view.position != log.end:  # first, or what is gone at the old time would stay in it
            yield from self.refresh(view)
        ranks = self.profile.differ((view.start, start), (view.end, end), (view.sight, sight))
        view.start, view.end, view.sight = start, end, sight
        yield from self._move(view, ranks)
        if view.position != log.end:
            yield from self.refresh(view)

    def refresh(self, view: View) -> Generator[None, None, None]:
        """Let *view* follow the changes of the profile since its last use.

        The pool's own index, and that of idle nodes, are always as they should be.
        """
        log = self.profile.log
        while view.position != log.end:
            if view.end == PRESENT:
                view.position = log.end
                return
            changes = log.since(view.position)
            dirty = self.profile.pool.ranks
            if changes is not None:
                near = (c for c in changes if c.start < view.end and c.end > view.start)
                dirty = idset.union(change.ranks for change in near)
            view.position = log.end
            yield from self._move(view, dirty)

    def _move(self, view: View, ranks: int) -> Generator[None, None, None]:
        """Put *ranks* (bitmask) of *view* into the states that the profile gives them."""
        profile, meter = self.profile, self.profile.meter
        while ranks and not self._is_old(view):
            index, units, up = view.situation.index, view.units, profile.pool.up
            if index.up != up:
                index.set_up(up)
                view.free = 0 if units is None else units.in_situation(view.situation)
            some = idset.take_lowest(ranks, _RANKS)
            ranks ^= some
            number = 0
            for state, here in profile.states(some, view.start, view.end, view.sight):
                for old, those in index.put(here, state):
                    number += 1
                    if units is not None:
                        those &= up
                        view.free += units.on(those, state) - units.on(those, old)
            if meter.spend(number * LOOK + idset.size(some) // 16):
                yield

    def gained(self, ranks: int, units: Units) -> Generator[None, None, int]:
        """How many *units* the nodes *ranks* (bitmask) may serve now, at most."""
        index = self.profile.pool.situation.index
        number = 0
        for state, here in list(index.states(ranks & units.within & index.up)):
            number += units.on(here, state)
            if self.profile.meter.spend(LOOK):
                yield
        return number

    def choice(self, view: View, request: Request) -> Generator[None, None, Choice]:
        """What *request* gets in *view*, as it is when this returns."""
        situation, log, meter = view.situation, self.profile.log, self.profile.meter
        while True:
            yield from self.refresh(view)
            for work in situation.prepare(request):
                if meter.spend(work):
                    yield
            if meter.spend(CHOICE):
                yield
            if view.position == log.end or self._is_old(view):
                break
        while (
            len(situation.kept) > _MAX_CANDIDATES and situation is not self.profile.pool.situation
        ):
            del situation.kept[next(iter(situation.kept))]
        found = situation.choice(request)
        self.owe(request, found.effort)
        return found

    def owe(self, request: Request, effort: int = 0) -> None:
        """Count a choice for *request*, which took *effort*, and looked at a node in some 1 us."""
        nodes = min(request.least_asks, len(self.profile.pool.inventory.types))
        self.profile.meter.owe(effort + nodes // 8)

    def count(self, view: View, units: Units) -> Generator[None, None, None]:
        """Count *units* in *view* from now on."""
        view.units = None
        while True:
            yield from self.refresh(view)
            for state in list(view.situation.index.buckets):
                units.of(state)
                if self.profile.meter.spend(LOOK):
                    yield
            if view.position == self.profile.log.end or self._is_old(view):
                break
        view.units, view.free = units, units.in_situation(view.situation)
