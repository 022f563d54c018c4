"""Feasibility: whether a pool could serve a request if nothing were allocated."""

from __future__ import annotations

from functools import cached_property
from typing import Optional

import attrs

from treepool.errors import InfeasibleRequest, Reason, TooComplex
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.choose.choice import Situation
from treepool.placement.choose.fitness import Fitness
from treepool.placement.choose.selection import Choice
from treepool.placement.choose.strict import strict
from treepool.placement.effort import TOO_COMPLEX, remembered
from treepool.placement.nodes.spares import preferred
from treepool.placement.request.vertices import Request
from treepool.placement.why.infeasible import why_infeasible
from treepool.rfc.quote import amount

#: How many requests are remembered to be feasible, or why they are not.
MAX_REASONS = 1024


class Feasibility:
    """What an idle pool could serve that keeps so many *spares*; copies of a pool share it."""

    def __init__(self, situation: Situation, spares: int = 0) -> None:
        self._inventory = situation.inventory
        self._policy = situation.policy
        self._given_up = situation.given_up
        self._spares = spares
        self._reasons: dict[Request, Optional[Reason]] = {}
        self._fitness: dict[Request, Optional[Fitness]] = {}
        self._strict: dict[Request, Request] = {}

    @cached_property
    def _situation(self) -> Situation:
        index = self._inventory.idle_index
        return Situation(self._inventory, index, self._policy, given_up=self._given_up)

    @cached_property
    def _rest(self) -> Situation:
        """The idle nodes beside the spares."""
        all_ranks = self._inventory.ranks
        index = self._inventory.idle_index.copy()
        index.set_up(all_ranks & ~preferred(self._inventory, all_ranks, self._spares))
        return self._situation.on(index)

    def choice(self, request: Request) -> Choice:
        """What *request* would get of an idle pool."""
        return self._situation.choice(request)

    def strict(self, request: Request) -> Request:
        """*request* as it is while its job waits for a close place, without its duration."""
        asked = attrs.evolve(request, duration=0.0)
        return remembered(self._strict, MAX_REASONS, asked, lambda: strict(asked, self._situation))

    def fitness(self, request: Request) -> Optional[Fitness]:
        """How good a placement an idle pool would give *request*; None if it cannot serve it."""
        asked = attrs.evolve(request, duration=0.0)
        return remembered(self._fitness, MAX_REASONS, asked, lambda: self._ideal(asked))

    def _ideal(self, request: Request) -> Optional[Fitness]:
        selection = self.choice(request).selection
        if selection is None:
            return None
        found = Allocation(self._inventory, parts_of(selection), selection.nslots)
        return found.fitness()

    def check(self, request: Request) -> None:
        """Raise InfeasibleRequest, with the reason, if an idle pool could not serve *request*.

        It is TooComplex if the search for what that pool could give is given up.
        """
        if not self._inventory.ranks:
            raise InfeasibleRequest(Reason("nodes", "the pool has no nodes", "pool", 1, 0))
        asked = attrs.evolve(request, duration=0.0)
        reason = remembered(self._reasons, MAX_REASONS, asked, lambda: self._why_not(asked))
        if reason is not None:
            raise (TooComplex if reason == TOO_COMPLEX else InfeasibleRequest)(reason)

    def _why_not(self, request: Request) -> Optional[Reason]:
        choice = self.choice(request)
        if choice.selection is not None:
            return self._why_not_beside_spares(request) if self._spares else None
        return TOO_COMPLEX if choice.gave_up else why_infeasible(request, self._inventory)

    def _why_not_beside_spares(self, request: Request) -> Optional[Reason]:
        choice = self._rest.choice(request)
        if choice.selection is not None or choice.gave_up:
            return None
        up = self._rest.index.up
        rest = self._inventory.without(self._inventory.ranks & ~up)
        why = why_infeasible(request, rest) if up else Reason("nodes", "there is no other node")
        return why.said(f"{why}, beside {amount(self._spares, 'spare node')}")
