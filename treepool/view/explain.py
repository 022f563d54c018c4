"""Explanations: why each node or domain was taken or passed over, or why a job waits, in words.

placement.decision returns the pool's decisions, made by the same functions that allocate. This
module puts them in the order in which a person would explain them, and reports equal nodes once.

The file has more than 300 lines because the data classes of an explanation and what fills them
belong together.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.errors import InfeasibleRequest, Reason
from treepool.placement.allocation import Allocation, parts_of
from treepool.placement.choose.fitness import Fitness
from treepool.placement.choose.selection import Grant, Selection
from treepool.placement.effort import REASON
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import NodeState
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.placement.why import decision
from treepool.placement.why.decision import Decision, Looked
from treepool.rfc import idset, jobspec
from treepool.view.jobs import Job
from treepool.view.nearest import Nearest, nearest, oracle
from treepool.view.places import Place, local_slots, shortage, slot_places, smallest, too_little
from treepool.view.totals import Drained
from treepool.view.waiting import Waiting, waiting
from treepool.view.words import count

#: The verdicts.
ALLOCATED, WAITS, INFEASIBLE = "allocated", "waits", "infeasible"

#: Most node states whose reasons are given one by one.
MAX_PASSED = 8


@attrs.frozen
class Nodes:
    """Nodes in one state, reported together: their ranks, what they have and what is free.

    ``several`` says that a host of theirs has several ranks, and does not name one node alone.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    cores: int
    gpus: int
    cores_free: int
    gpus_free: int
    several: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing is allocated on them."""
        return self.cores_free == self.cores and self.gpus_free == self.gpus


@attrs.frozen
class Passed:
    """Nodes that were passed over, in one or several consecutive states, and why in one line."""

    nodes: tuple[Nodes, ...]
    why: str

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks passed over, ascending."""
        return tuple(sorted(rank for one in self.nodes for rank in one.ranks))


@attrs.frozen
class Taken:
    """Nodes that each give the same: the slots, and where each slot sits.

    If slots cannot be told apart, ``places`` has one place for all of them. ``local`` is the number
    of slots found in the first pass. ``whole`` says that the entire node is taken.
    """

    nodes: Nodes
    nslots: int
    local: int
    places: tuple[Place, ...]
    whole: bool


@attrs.frozen
class Explanation:
    """Why a request gets what it gets.

    ``verdict`` is ALLOCATED, WAITS or INFEASIBLE. ``reason`` is why the request is not allocated,
    None if it is. A job that waits for its turn alone has in ``taken`` what it would get of what is
    free. ``passed`` has the first nodes that were passed over, in the order of the search;
    ``passed_more`` is the number of further ones. ``unneeded`` is the number of nodes that the
    search did not reach. ``passes`` says whether the policy tries the smallest kind of domain on
    all nodes before larger ones, and ``second_pass`` whether it came to the larger ones.
    ``smallest`` has the kinds of domain that an idle node could offer to a slot, if the slot asks
    only for an amount. ``fitness`` is the fitness of the placement, which has that of an idle
    cluster as its ideal. ``idle`` is what an idle cluster would have given, None if the same.
    ``domains`` are the domains above the nodes that were chosen, in words. ``drains`` says why
    nodes are drained. ``inventory`` has the hosts of the jobs that it waits for.
    """

    shape: str
    verdict: str
    reason: Optional[Reason]
    policy: str
    locality: str
    smallest: tuple[str, ...]
    nodes: int
    down: int
    drained: int = 0
    drains: tuple[Drained, ...] = ()
    passed: tuple[Passed, ...] = ()
    passed_more: int = 0
    taken: tuple[Taken, ...] = ()
    passes: bool = True
    second_pass: bool = False
    unneeded: int = 0
    fitness: Optional[Fitness] = None
    idle: Optional[tuple[Taken, ...]] = None
    waits: Optional[Waiting] = None
    nearest: tuple[Nearest, ...] = ()
    domains: tuple[str, ...] = ()
    inventory: Optional[Inventory] = None

    @property
    def is_allocated(self) -> bool:
        """Whether the job gets what it asks for."""
        return self.verdict == ALLOCATED


def explain(
    pool: Pool,
    shape: str,
    resources: list[Any],
    constraints: Optional[Mapping[str, Any]] = None,
    jobs: Mapping[int, Job] = {},
    options: Optional[Mapping[str, Any]] = None,
    drained: int = 0,
    drains: Iterable[Drained] = (),
    duration: float = 0.0,
) -> Explanation:
    """Why *resources*, written as *shape*, get what they get on *pool* now.

    *constraints* are those of RFC 31, *options* are treepool's own, *duration* is in seconds.
    *jobs* are the jobs that run on the pool, by id. The ranks in bitmask *drained*, which are down,
    are drained, and *drains* says why. Raises InvalidJobspec if the pool does not understand the
    request.
    """

    def request_of(some: list[Any]) -> Request:
        spec = jobspec.from_resources(some, duration, constraints, options)
        return pool.parse_resource_request(spec)

    request = request_of(resources)
    base = _Teller(pool, request).base(shape, drained, drains)
    try:
        pool.check_feasibility(request)
    except InfeasibleRequest as e:
        near = nearest(resources, oracle(lambda some: pool.check_feasibility(request_of(some))))
        return attrs.evolve(base, verdict=INFEASIBLE, reason=e.reason, nearest=tuple(near))
    choice = pool.choice(request)
    decided = decision.decide(pool.situation, choice)
    told = _Teller(pool, decided.request)
    if decided.selection is None:
        base = told.refused(base, decided, choice.gave_up)
        return attrs.evolve(base, waits=waiting(pool, request, jobs), inventory=pool.inventory)
    return told.allocated(base, decided)


class _Teller:
    """Explains the decisions on one request."""

    def __init__(self, pool: Pool, request: Request) -> None:
        self.pool = pool
        self.situation = pool.situation
        self.request = request
        self.ask = request.ask
        self.inventory = pool.inventory

    def base(self, shape: str, drained: int, drains: Iterable[Drained]) -> Explanation:
        """The explanation before the search has looked at any node."""
        within = self.inventory.matching(self.request.constraint)
        nodes = idset.size(self.inventory.ranks & within)
        away = [r for r in decision.ranks_down(self.situation) if within >> r & 1]
        ndrained = sum(drained >> rank & 1 for rank in away)
        policy = self.situation.policy
        first = (type(policy).__doc__ or "").split("\n")[0].rstrip(".")
        order = f"{policy.name}: {first[:1].lower()}{first[1:]}"
        kinds = dict.fromkeys(k for t in self.inventory.node_types for k in smallest(t, self.ask))
        return Explanation(
            shape,
            ALLOCATED,
            None,
            order,
            self.ask.locality,
            tuple(kinds),
            nodes,
            len(away) - ndrained,
            ndrained,
            tuple(one for one in drains if not set(away).isdisjoint(one.ranks)),
            passes=policy.passes,
        )

    def refused(self, base: Explanation, decided: Decision, gave_up: bool) -> Explanation:
        """Why *decided* is a refusal: the search looked at all nodes, unless it *gave_up*."""
        reason = REASON if gave_up else self.why_waits(decided)
        other = [one for one in decided.looked if one.found is None]
        passed, more = self.passed(other, first_pass=False)
        return attrs.evolve(
            base,
            verdict=WAITS,
            reason=reason,
            passed=passed,
            passed_more=more,
            second_pass=self.ask.locality == "preferred" and base.passes,
        )

    def why_waits(self, decided: Decision) -> Reason:
        """Why the request, for which *decided* has nothing, waits."""
        if not decided.looked:
            return Reason("down", "no node that it may use is up")
        if self.ask.whole and not any(one.state.idle for one in decided.looked):
            message = "it asks for all of a node, and jobs have a part of each that is up"
            return Reason("whole", message, "node")
        reason = decision.why_insufficient(self.situation, self.request)
        if reason is not None:
            return reason.said(f"counting what is free, {reason}")
        larger = attrs.evolve(self.request, ask=attrs.evolve(self.ask, locality="preferred"))
        if self.pool.choice(larger).selection is not None:
            message = "what is free is in larger domains than locality=required allows"
            return Reason("locality", message)
        return Reason("apart", "what is free is not in the domains that the request asks for")

    def allocated(self, base: Explanation, decided: Decision) -> Explanation:
        """Why *decided* gives these resources."""
        assert decided.selection is not None
        selection = decided.selection
        grants = selection.grants
        second = base.passes and any(
            not grant.fit.local or grant.units > grant.fit.local for grant in grants
        )
        taken = set(idset.iterate(selection.ranks))
        last = max((one.key, rank) for one in decided.looked for rank in one.ranks if rank in taken)
        seen: list[Looked] = []
        unneeded = 0
        for one in decided.looked:
            ranks = [r for r in one.ranks if r not in taken]
            before = [r for r in ranks if second or (one.key, r) < last]
            unneeded += len(ranks) - len(before)
            if before:
                seen.append(attrs.evolve(one, ranks=tuple(before)))
        passed, more = self.passed(seen, first_pass=base.passes and not second)
        now = self.taken(grants)
        idle = self.pool.choice(self.request, idle=True).selection
        then = now if idle is None else self.taken(idle.grants)
        return attrs.evolve(
            base,
            passed=passed,
            passed_more=more,
            taken=now,
            second_pass=second,
            unneeded=unneeded,
            fitness=self.fitness(selection),
            idle=None if _given(then) == _given(now) else then,
            domains=tuple(self.domains(selection)),
        )

    def domains(self, selection: Selection) -> Iterator[str]:
        """The domains above the nodes in *selection*, and why these, a line each."""
        fabric = self.inventory.fabric
        if fabric is None or (self.ask.locality == "none" and not self.request.above):
            return
        rooms = self.situation.spread(self.request).rooms.units
        shares: dict[int, int] = {}
        nodes = 0
        for grant in selection.grants:
            for leaf, here in fabric.leaves_of(grant.ranks):
                nodes += idset.size(here)
                shares[leaf] = shares.get(leaf, 0) + grant.units * idset.size(here)
        for leaf, units in sorted(shares.items(), key=lambda share: fabric.lowest[share[0]]):
            size = len(fabric.ranks[leaf])
            around = "".join(f" in {fabric.shown(d)}" for d in fabric.around(leaf)[1:])
            why = "the fullest that has room"
            if nodes == 1:
                why = "of equal nodes, those in the domain with the fewest idle nodes come first"
            elif self.request.levels:
                why = "as the request names it"
            elif units == rooms(leaf).number:
                why = "all that it can give"
            elif len(shares) > 1:
                why = "the fullest that has room for the rest"
            free = f"{rooms.census.idle[leaf]} of {count(size, 'node')} free"
            yield f"{fabric.shown(leaf)}{around}: {free}, {why}"

    def fitness(self, selection: Selection) -> Fitness:
        """The fitness of *selection*."""
        allocation = Allocation(self.inventory, parts_of(selection), selection.nslots)
        return self.pool.fitness(allocation, self.request)

    # -- nodes passed over

    def passed(self, seen: Sequence[Looked], first_pass: bool) -> tuple[tuple[Passed, ...], int]:
        """The first of *seen* with the reasons, and the number of nodes in the rest.

        Consecutive states that lack the same resource are reported as one, whatever the amount.
        """

        def what(one: Looked) -> object:
            lacks = self.lacks(one)
            return id(one) if lacks is None else lacks[0]

        told: list[Passed] = []
        for _, group in islice(groupby(seen, what), MAX_PASSED):
            alike = list(group)
            nodes = tuple(self.nodes(one.state, one.ranks) for one in alike)
            told.append(Passed(nodes, self.why(alike, first_pass)))
        return tuple(told), sum(len(one.ranks) for one in seen) - sum(len(p.ranks) for p in told)

    def lacks(self, one: Looked) -> Optional[tuple[str, int]]:
        """What a whole node lacks for one slot, and how much is free; None for other reasons."""
        return None if one.found is not None else too_little(one.state, self.ask)

    def why(self, group: Sequence[Looked], first_pass: bool) -> str:
        """Why *group*, whose states lack the same, gives nothing, in the first pass or in both."""
        one = group[0]
        state, root = one.state, one.state.type.root
        if self.ask.whole and not state.idle:
            taken = count(root.ncores - state.ncores, "core")
            if idset.size(root.gpus) > state.ngpus:
                taken += f" and {count(idset.size(root.gpus) - state.ngpus, 'GPU')}"
            return f"it asks for a whole node, and jobs have {taken} of it"
        if one.found is None:
            free = [lacks for each in group if (lacks := self.lacks(each)) is not None]
            if free:
                return f"{free[0][0]}: {_have([number for _, number in free])} free"
            reason = decision.why_passed_over(self.situation, self.request, state)
            if reason is not None:
                return f"of what is free there, {reason}"
            return shortage(state, self.ask) or "no way was found to place it there"
        if first_pass and not one.found.local:
            return shortage(state, self.ask) or "its slots would be spread over larger domains"
        if self.inventory.fabric is not None:
            return "it could serve, but is not in the domain that was chosen, or not needed there"
        return "it could serve, but the request wants no more nodes"

    def taken(self, grants: Iterable[Grant]) -> tuple[Taken, ...]:
        """The nodes in *grants*, by lowest rank."""
        found = []
        for grant in grants:
            state, nslots = grant.state, grant.nslots
            _, local = local_slots(state.type, *grant.ids, self.ask)
            places = slot_places(state.type, *grant.ids, self.ask)
            nodes = self.nodes(state, tuple(idset.iterate(grant.ranks)))
            local = min(local, nslots)
            found.append(Taken(nodes, nslots, local, tuple(places), self.ask.whole))
        return tuple(sorted(found, key=lambda one: one.nodes.ranks[0]))

    def nodes(self, state: NodeState, ranks: tuple[int, ...]) -> Nodes:
        root = state.type.root
        hosts = tuple(self.inventory.hosts[rank] for rank in ranks)
        have, free = (root.ncores, idset.size(root.gpus)), (state.ncores, state.ngpus)
        return Nodes(ranks, hosts, *have, *free, not self.inventory.several.isdisjoint(hosts))


def _have(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    if least < most:
        return f"the nodes have {least} to {most}"
    return f"the node{'s have' if len(numbers) > 1 else ' has'} {least}"


def _given(taken: Sequence[Taken]) -> list[tuple[tuple[int, ...], tuple[Place, ...]]]:
    return [(one.nodes.ranks, one.places) for one in taken]
