"""The pool: what a scheduler calls; nodes that are down; starts and ends of jobs; changed options.

A call either does all it says or raises and changes nothing: selections are complete before the
first rank moves, and a failure while ranks move (no memory, Ctrl-C) moves them back.

The pool is one class, and this file therefore long, because flux-core's schedulers call one pool.
"""

from __future__ import annotations

import json
import time
from copy import copy
from typing import Any, Iterable, Mapping, Optional, TypeVar, Union

import attrs

from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidIdset,
    PoolConflict,
    Reason,
)
from treepool.placement.allocation import Allocation, parts_of, together
from treepool.placement.choose.choice import Situation
from treepool.placement.choose.fitness import Fitness
from treepool.placement.choose.selection import Choice
from treepool.placement.configured import check_mix, chosen
from treepool.placement.effort import REASON
from treepool.placement.held import (
    HELD_BACK,
    AnyR,
    Job,
    Journal,
    check_free,
    ending,
    held_in,
    held_without,
    of_rank,
    read_held,
)
from treepool.placement.nodes.index import Move, NodeIndex
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.parts import short_form
from treepool.placement.nodes.resource_sets import all_R, allocated_R, down_R
from treepool.placement.nodes.state import Held
from treepool.placement.options import changed
from treepool.placement.request.vertices import Request, request_of
from treepool.placement.why.feasibility import Feasibility
from treepool.rfc import idset, jobspec
from treepool.rfc.quote import amount
from treepool.rfc.rset import ResourceSet

T = TypeVar("T")

#: Why a request waits, as far as it is known without a count.
IN_USE = Reason("in-use", "not enough resources are free now")


class Pool:
    """A pool of resources with the topology of its nodes, from which jobs are allocated.

    *R* is an RFC 20 object, JSON text, or a ResourceSet; its RFC 49 key, if it has one, gives the
    trees. Options: ``locality`` (preferred, required, none), ``policy`` (packing), its weight
    of locality, ``straddle``, ``gpu_cores`` (nodes/kept.py), ``mix`` (choose/mix.py), and
    ``job_key``. A pool may have no nodes: every request is then infeasible. Raises InvalidR,
    InvalidKey, or InvalidOption.
    """

    def __init__(self, R: Union[Mapping[str, Any], str, ResourceSet], /, **options: str) -> None:
        #: All options, as texts.
        resource_set = R if isinstance(R, ResourceSet) else ResourceSet.read(R)
        inventory = Inventory.of(resource_set)
        self.options, policy = chosen(options, inventory.fabric)
        check_mix(policy.mix, *inventory.known)
        index = NodeIndex(inventory.idle_states(), inventory.ranks)
        self._situation = Situation(inventory, index, policy)
        #: How many nodes whoever schedules keeps idle in case others fail (plan/spares.py).
        self.spares = 0
        self._feasibility = Feasibility(self._situation)
        self._jobs: dict[int, Job] = {}
        self._starttime = resource_set.starttime
        self._expiration = resource_set.expiration
        self._generation = 0
        self._journal: Journal[int] = Journal()

    # -- requests

    def parse_resource_request(self, spec: Union[Mapping[str, Any], str]) -> Request:
        """The request of a jobspec (RFC 14 or 25, dict or JSON text).

        Raises InvalidJobspec naming the vertex or attribute this pool does not know.
        """
        locality, above = self.options["locality"], self.fabric_localities
        return request_of(jobspec.read(spec), self.localities, locality, above, self.gpu_cores)

    def check_feasibility(self, request: Request) -> None:
        """Raise InfeasibleRequest, with the reason, if an idle pool could not serve *request*.

        Ranks that are down count: they may come back. Spare nodes do not. A pool that has expired
        serves nothing. A request is TooComplex, which is an InfeasibleRequest, if the search for
        what an idle pool could give is given up.
        """
        self._check_valid(time.time())
        self._feasibility.check(request)

    def choice(self, request: Request, idle: bool = False) -> Choice:
        """What *request* would get now, or of an *idle* pool; nothing is allocated."""
        return (self._feasibility if idle else self._situation).choice(request)

    def strict(self, request: Request) -> Request:
        """*request* with what it prefers required, as it is while its job waits for that."""
        return self._feasibility.strict(request)

    def fitness(self, allocation: Allocation, request: Request) -> Fitness:
        """How good *allocation* is for *request*, next to what an idle pool would give it."""
        return allocation.fitness(self._feasibility.fitness(request))

    # -- jobs

    def alloc(self, jobid: int, request: Request) -> Allocation:
        """Allocate resources for job *jobid*, which starts now.

        It ends when its duration is over, and with the pool at the latest.

        Raises InsufficientResources if they are not free now, InfeasibleRequest if they never
        will be, and PoolConflict if the job has resources already.
        """
        self._check_new(jobid)
        now = time.time()
        self._check_valid(now)
        choice = self.choice(request)
        selection = choice.selection
        if selection is None:
            self.check_feasibility(request)
            raise InsufficientResources(REASON if choice.gave_up else IN_USE)
        parts = parts_of(selection)
        allocation = self.allocation(parts, selection.nslots)
        end = self.end_of_job(request.duration, now)
        if end:
            allocation.set_starttime(now)
            allocation.set_expiration(end)
        return self._take(jobid, Job(parts, end), allocation)

    def allocation(self, parts: tuple[Held, ...], nslots: int) -> Allocation:
        """What a job gets that is given *parts*; its R has a key unless option ``job_key`` is none.

        Nothing is allocated.
        """
        return Allocation(self.inventory, parts, nslots, self.options["job_key"] != "none")

    def end_of_job(self, duration: float, now: float) -> float:
        """When a job of *duration* seconds that starts *now* ends: with the pool, at the latest.

        A *duration* of 0 is unlimited. Times are in seconds since the epoch, 0 for never.
        """
        ends = [now + duration] if duration > 0 else []
        ends += [self._expiration] if self._expiration > 0 else []
        return min(ends, default=0.0)

    def register_alloc(self, jobid: int, R: AnyR) -> None:
        """Take note of what job *jobid* already holds, as a scheduler does when it restarts.

        Raises PoolConflict, and changes nothing, if R has ranks or ids that are not in the pool
        or are allocated, or if the job has resources already.
        """
        self._check_new(jobid)
        parts, expiration = read_held(R)
        check_free(jobid, parts, self._situation.index)
        self._take(jobid, Job(parts, expiration), None)

    def free(self, jobid: int, R: Optional[AnyR] = None, final: bool = False) -> None:
        """Give back what job *jobid* holds: all of it, or the ranks of *R*.

        *R* must say of each rank what the job holds there. With *final* the job is over: *R*, if
        given, must be all that it still holds. Raises PoolConflict, and changes nothing, if the
        job holds nothing or *R* says otherwise.
        """
        job = self._live(jobid)
        left: tuple[Held, ...] = ()
        if R is None:
            freed = job.parts
        else:
            freed, _ = read_held(R)
            left = held_without(jobid, job.parts, freed)
            if final and left:
                raise PoolConflict(f"job {jobid}: final, but R leaves out {short_form(left)[:200]}")
        index = self._situation.index
        before: list[Move] = []
        self._changed(jobid)
        try:
            index.move(freed, self.inventory.states.more, before)
            if left:
                self._jobs[jobid] = attrs.evolve(job, parts=left)
            else:
                del self._jobs[jobid]
        except BaseException:
            self._jobs[jobid] = job
            index.move_back(before)
            raise

    def update_expiration(self, jobid: int, expiration: float) -> None:
        """Set when job *jobid* ends, in seconds since the epoch, 0 for never."""
        job = attrs.evolve(self._live(jobid), end_time=expiration)
        self._changed(jobid)
        self._jobs[jobid] = job

    def job_end_times(self) -> list[tuple[int, float]]:
        """(job id, end time in seconds since the epoch or 0 for never) of every live job."""
        return [(jobid, job.end_time) for jobid, job in self._jobs.items()]

    @property
    def held_back(self) -> tuple[Held, ...]:
        """What is held under HELD_BACK, which belongs to no job that is known."""
        job = self.job(HELD_BACK)
        return () if job is None else job.parts

    def job(self, jobid: int) -> Optional[Job]:
        """What job *jobid* holds; None if it has no allocation."""
        return self._jobs.get(jobid)

    def has_job(self, jobid: int) -> bool:
        """Whether job *jobid* has an allocation."""
        return jobid in self._jobs

    def occupy(
        self, jobid: int, parts: Iterable[Held], end_time: float = 0.0, more: bool = False
    ) -> None:
        """Give job *jobid* what is free of *parts*, which may be nothing, until *end_time*.

        For a job that holds more than there is, and for planning ahead on a copy, where resources
        are spoken for that others still hold. Raises PoolConflict if the job has resources already,
        unless it gets *more* than these.
        """
        if not more:
            self._check_new(jobid)
        index = self._situation.index
        free = (
            (here, cores & state.cores, gpus & state.gpus)
            for ranks, cores, gpus in parts
            for state, here in index.states(ranks & self.ranks)
        )
        held = together(part for part in free if any(part[1:]))
        self._take(jobid, Job(held, end_time), None)

    # -- nodes

    def mark_up(self, ids: str) -> None:
        """Make the ranks of idset *ids* (or "all") available; others are left alone."""
        self._set_up(ids, True)

    def mark_down(self, ids: str) -> None:
        """Make the ranks of idset *ids* (or "all") unavailable for new jobs."""
        self._set_up(ids, False)

    def remove_ranks(self, ranks: Union[str, int, Iterable[int]]) -> None:
        """Take *ranks* (idset text, bitmask, or ids) out of the pool for good (shrink)."""
        if isinstance(ranks, str):
            mask = idset.decode(ranks)
        else:
            mask = ranks if isinstance(ranks, int) else idset.from_ids(ranks)
        if mask < 0:
            raise InvalidIdset(f"{mask} is not a set of ranks")
        gone = mask & self.ranks
        if gone:
            index = self._situation.index.without(gone)
            self._replace(self.inventory.without(gone), index)

    # -- the pool as a whole

    def set_options(self, /, **options: str) -> None:
        """Go on with these options, and the defaults of all others.

        Requests that were made before keep the locality that they have, and the cores that are
        kept from them. Raises InvalidOption, and changes nothing.
        """
        check_mix(chosen(options, self.inventory.fabric)[1].mix, *self.inventory.known)
        self.follow_options(**options)

    def keep_spares(self, number: int) -> None:
        """Judge requests from now on by what *number* spare nodes leave."""
        if number != self.spares:
            self.spares = number
            self._feasibility = Feasibility(self._situation, number)

    def change_options(self, /, **given: str) -> None:
        """Go on with the options *given*, and all others as they are; raises as ``set_options``."""
        use = self.set_options if "mix" in given else self.follow_options
        use(**changed(self.options, given))

    def follow_options(self, /, **options: str) -> None:
        """``set_options`` where the mix may name localities that are gone, or still to come.

        For the copy of a pool that lost nodes, and for nodes whose topology is not known yet.
        """
        values, policy = chosen(options, self.inventory.fabric)
        # Another object: who follows the pool sees that answers may be others. What is known of
        # the nodes stays, and with their fabric what the index counts.
        now = self._situation
        situation = Situation(copy(now.inventory), now.index, policy, given_up=now.given_up)
        new = (situation, Feasibility(situation, self.spares), values)
        self._changed()
        self._situation, self._feasibility, self.options = new

    def replace_key(self, key: Mapping[str, Any]) -> None:
        """Give the nodes the topology of RFC 49 *key*; what is allocated stays as it is.

        Raises InvalidKey, and changes nothing, if it does not fit the pool's ranks.
        """
        old_index = self._situation.index
        resource_set = attrs.evolve(self.inventory.resource_set, scheduling=key)
        inventory = Inventory.of(resource_set, len(old_index.state_of))
        states = inventory.idle_states()
        for rank, old in enumerate(old_index.state_of):
            idle = states[rank]
            if old is not None and idle is not None and not old.idle:
                states[rank] = inventory.states.get(idle.type, old.cores, old.gpus)
        self._replace(inventory, NodeIndex(states, old_index.up))

    @property
    def inventory(self) -> Inventory:
        """What the nodes are; for the other rooms of treepool, to look at only."""
        return self._situation.inventory

    @property
    def situation(self) -> Situation:
        """What the pool's choices are made from; to look at only."""
        return self._situation

    @property
    def ranks(self) -> int:
        """All ranks of the pool, as bitmask."""
        return self.inventory.ranks

    @property
    def up(self) -> int:
        """The ranks that are up, as bitmask."""
        return self._situation.index.up

    @property
    def localities(self) -> tuple[str, ...]:
        """The names of the localities that some node has, sorted; none if all nodes are flat."""
        return self.inventory.localities

    @property
    def fabric_localities(self) -> tuple[str, ...]:
        """The names of the localities above the nodes, the highest first."""
        return self.inventory.known[1]

    @property
    def gpu_cores(self) -> int:
        """How many cores near each GPU are kept for jobs with GPUs."""
        return int(float(self.options["gpu_cores"]))

    @property
    def journal(self) -> Journal[int]:
        """What changed, for a plan that follows the pool."""
        return self._journal

    @property
    def generation(self) -> int:
        """A number that grows with every change of the pool."""
        return self._generation

    @property
    def starttime(self) -> float:
        """When the pool's resources become valid, in seconds since the epoch, 0 for unset."""
        return self._starttime

    @property
    def expiration(self) -> float:
        """When the pool's resources stop being valid, in seconds since the epoch, 0 for never."""
        return self._expiration

    def set_starttime(self, starttime: float) -> None:
        """Set ``starttime``."""
        self._changed()
        self._starttime = starttime

    def set_expiration(self, expiration: float) -> None:
        """Set ``expiration``, and with it the end of the jobs that end with the pool."""
        jobs = ending(self._jobs, self._expiration, expiration)
        self._changed()
        self._jobs, self._expiration = jobs, expiration

    def copy(self) -> Pool:
        """An independent copy, allocations included, for trying things out."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._situation = self._situation.on(self._situation.index.copy())
        new._jobs = self._jobs.copy()
        new._journal = Journal()
        return new

    def copy_idle(self) -> Pool:
        """An independent copy in which nothing is allocated; the same ranks are up."""
        index = NodeIndex(self.inventory.idle_states(), self._situation.index.up)
        new = self.copy()
        new._situation = self._situation.on(index)
        new._jobs = {}
        return new

    def copy_allocated(self) -> ResourceSet:
        """What is allocated now; it may be nothing."""
        return self._timed(allocated_R(self.inventory, self._situation.index))

    def copy_down(self) -> ResourceSet:
        """The ranks that are down, with all they have; they may be none."""
        return self._timed(down_R(self.inventory, self._situation.index))

    def to_dict(self) -> dict[str, Any]:
        """The R of the whole pool (RFC 20): what it was made from, without removed ranks.

        The result shares topos with the pool's own key: treat it as read-only below ``scheduling``.
        """
        return self._timed(all_R(self.inventory)).shared()

    def encode(self) -> str:
        """The R of the whole pool as JSON text."""
        return json.dumps(self.to_dict())

    def dumps(self) -> str:
        """The resources in Flux's short form, such as ``rank[0-15]/core[0-119],gpu[0-7]``."""
        return short_form(held_in(self.inventory.resource_set.entries))

    # -- inner workings

    def _timed(self, resource_set: ResourceSet) -> ResourceSet:
        return attrs.evolve(resource_set, starttime=self._starttime, expiration=self._expiration)

    def _check_valid(self, now: float) -> None:
        if 0 < self._expiration <= now:
            ago = amount(round(now - self._expiration), "second")
            raise InfeasibleRequest(Reason("expired", f"the resources expired {ago} ago"))

    def _check_new(self, jobid: int) -> None:
        if jobid in self._jobs:
            raise PoolConflict(f"job {jobid} has an allocation already")

    def _live(self, jobid: int) -> Job:
        job = self._jobs.get(jobid)
        if job is None:
            raise PoolConflict(f"job {jobid} has no allocation")
        return job

    def _changed(self, *what: int) -> None:
        """Count a change: of *what*, see Journal, or without it of the nodes themselves."""
        self._generation += 1
        self._journal.note(what)
        self.inventory.states.forget(self._situation.index.buckets)

    def _set_up(self, ids: str, up: bool) -> None:
        mask = self.ranks if ids == "all" else idset.decode(ids) & self.ranks
        index = self._situation.index
        new = index.up | mask if up else index.up & ~mask
        if new != index.up:
            self._changed(*map(of_rank, idset.iterate(new ^ index.up)))
            index.set_up(new)

    def _replace(self, inventory: Inventory, index: NodeIndex) -> None:
        """Let the pool have other nodes."""
        _, policy = chosen(self.options, inventory.fabric)
        situation = Situation(inventory, index, policy, given_up=self._situation.given_up)
        feasibility = Feasibility(situation, self.spares)
        self._changed()
        self._situation, self._feasibility = situation, feasibility

    def _take(self, jobid: int, job: Job, answer: T) -> T:
        """Let job *jobid* hold *job*, all of which is free, beside what it holds already.

        Returns *answer*, because a caller that returned it afterwards could fail in between.
        """
        index = self._situation.index
        before: list[Move] = []
        had = self._jobs.get(jobid)
        self._changed(jobid)
        try:
            index.move(job.parts, self.inventory.states.less, before)
            if had is not None:
                job = attrs.evolve(job, parts=together((*had.parts, *job.parts)))
            self._jobs[jobid] = job
            return answer
        except BaseException:
            self._jobs.pop(jobid, None)
            if had is not None:
                self._jobs[jobid] = had
            index.move_back(before)
            raise
