"""The pool: what a scheduler calls. Methods carry Flux's names.

A call either does all it says or raises and changes nothing: selections are complete before the
first rank moves, and a failure while ranks move (no memory, Ctrl-C) moves them back.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any, Iterable, Mapping, Optional, Union

import attrs

from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    PoolConflict,
)
from treepool.placement.allocation import Allocation, parts_of, short_form
from treepool.placement.choose.candidates import Candidates
from treepool.placement.choose.choice import Choice, Situation, choose
from treepool.placement.choose.fitness import Weights
from treepool.placement.choose.policy import policy_named
from treepool.placement.effort import REASON
from treepool.placement.jobs import AnyR, Job, held_without, read_held
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.nodes.inventory import Held, Inventory
from treepool.placement.nodes.rankset import ranks_of
from treepool.placement.nodes.state import NodeState
from treepool.placement.options import checked, fraction
from treepool.placement.request.need import Ask
from treepool.placement.request.vertices import Request, request_of
from treepool.placement.why.infeasible import why_infeasible
from treepool.rfc import idset, jobspec
from treepool.rfc.constraint import Constraint
from treepool.rfc.idset import union
from treepool.rfc.rset import ResourceSet, RLiteEntry, merge_entries

#: How many requests' orders of candidates a pool keeps up to date.
MAX_CANDIDATES = 64

#: How many requests are remembered to be feasible, or why they are not.
MAX_REASONS = 1024


class Pool:
    """A pool of resources with the topology of its nodes, from which jobs are allocated.

    *R* is an RFC 20 object, JSON text, or a ResourceSet; its RFC 49 key, if it has one, gives the
    trees. Options: ``locality`` (preferred, required, none), ``policy`` (best-fit), and the
    ``alpha`` and ``beta`` of fitness, kept as ``weights``. A pool may have no nodes: every request
    is then infeasible. Raises InvalidR, InvalidKey, or InvalidOption.
    """

    def __init__(self, R: Union[Mapping[str, Any], str, ResourceSet], **options: str) -> None:
        chosen = checked(options)
        self._locality = chosen["locality"]
        self.weights = Weights(fraction("alpha", chosen), fraction("beta", chosen))
        self._policy = policy_named(chosen["policy"], self.weights)
        resource_set = R if isinstance(R, ResourceSet) else ResourceSet.read(R)
        self._inventory = Inventory.of(resource_set)
        ranks = self._inventory.ranks
        up = idset.flags(ranks, ranks.bit_length())
        self._index = NodeIndex(self._inventory.idle_states(), up)
        self._jobs: dict[int, Job] = {}
        self._candidates: dict[tuple[Ask, Optional[Constraint]], Candidates] = {}
        self._idle: dict[tuple[Ask, Optional[Constraint]], Candidates] = {}
        self._reasons: dict[Request, Optional[str]] = {}
        self._starttime = resource_set.starttime
        self._expiration = resource_set.expiration
        self._generation = 0

    # -- requests

    def parse_resource_request(self, spec: Union[Mapping[str, Any], str]) -> Request:
        """The request of a jobspec (RFC 14 or 25, dict or JSON text).

        Raises InvalidJobspec naming the vertex or attribute this pool does not know.
        """
        return request_of(jobspec.read(spec), self._inventory.localities, self._locality)

    def check_feasibility(self, request: Request) -> None:
        """Raise InfeasibleRequest, with the reason, if the pool could not serve *request* idle.

        Ranks that are down count: they may come back. A request that is too complex to tell is
        not infeasible.
        """
        if not self.ranks:
            raise InfeasibleRequest("the pool has no nodes")
        asked = attrs.evolve(request, duration=0.0)
        if asked not in self._reasons:
            if len(self._reasons) >= MAX_REASONS:
                self._reasons.clear()
            choice = self.choice(request, idle=True)
            served = choice.selection is not None or choice.gave_up
            reason = None if served else why_infeasible(request, self._inventory)
            self._reasons[asked] = reason
        reason = self._reasons[asked]
        if reason is not None:
            raise InfeasibleRequest(reason)

    def choice(self, request: Request, idle: bool = False) -> Choice:
        """What *request* would get now, or of an *idle* pool; nothing is allocated."""
        index = self._inventory.idle_index if idle else self._index
        try:
            candidates = partial(self._candidates_of, idle)
            return choose(request, self._inventory, index, candidates)
        except BaseException:  # candidates may have lost a state that they had just dropped
            (self._idle if idle else self._candidates).clear()
            raise

    # -- jobs

    def alloc(self, jobid: int, request: Request) -> Allocation:
        """Allocate resources for job *jobid*.

        Raises InsufficientResources if they are not free now, InfeasibleRequest if they never
        will be, and PoolConflict if the job has resources already.
        """
        if jobid in self._jobs:
            raise PoolConflict(f"job {jobid} has an allocation already")
        choice = self.choice(request)
        selection = choice.selection
        if selection is None:
            self.check_feasibility(request)
            raise InsufficientResources(
                REASON if choice.gave_up else "not enough resources are free now"
            )
        parts = parts_of(selection)
        job = Job(parts, self._end_time(request.duration))
        inventory, index = self._inventory, self._index
        allocation = Allocation(inventory, parts, selection.nslots)
        try:
            for grant in selection.grants:
                old, step = grant.state, grant.step
                new = inventory.states.get(old.type, old.cores & ~step.cores, old.gpus & ~step.gpus)
                for rank in grant.ranks:
                    index.move(rank, new)
            self._changed()
            self._jobs[jobid] = job
            return allocation
        except BaseException:
            self._jobs.pop(jobid, None)
            self._move_back(
                (rank, grant.state) for grant in selection.grants for rank in grant.ranks
            )
            raise

    def register_alloc(self, jobid: int, R: AnyR) -> None:
        """Take note of what job *jobid* already holds, as a scheduler does when it restarts.

        Raises PoolConflict, and changes nothing, if R has ranks or ids that are not in the pool
        or are allocated, or if the job has resources already.
        """
        if jobid in self._jobs:
            raise PoolConflict(f"job {jobid} has an allocation already")
        parts, expiration = read_held(R)
        self._check_free(jobid, parts)
        self._move(parts, True, jobid, Job(parts, expiration))

    def free(self, jobid: int, R: Optional[AnyR] = None, final: bool = False) -> None:
        """Give back what job *jobid* holds: all of it, or the ranks of *R*.

        *R* must say of each rank what the job holds there. With *final* the job is over: *R*, if
        given, must be all that it still holds. Raises PoolConflict, and changes nothing, if the
        job holds nothing or *R* says otherwise.
        """
        job = self._jobs.get(jobid)
        if job is None:
            raise PoolConflict(f"job {jobid} has no allocation")
        left: tuple[Held, ...] = ()
        if R is None:
            freed = job.parts
        else:
            freed, _ = read_held(R)
            left = held_without(jobid, job.parts, freed)
            if final and left:
                raise PoolConflict(f"job {jobid}: final, but R leaves out {short_form(left)[:200]}")
        self._move(freed, False, jobid, attrs.evolve(job, parts=left) if left else None)

    def update_expiration(self, jobid: int, expiration: float) -> None:
        """Set when job *jobid* ends, in seconds since the epoch, 0 for never."""
        if jobid not in self._jobs:
            raise PoolConflict(f"job {jobid} has no allocation")
        job = attrs.evolve(self._jobs[jobid], end_time=expiration)
        self._changed()
        self._jobs[jobid] = job

    def job_end_times(self) -> list[tuple[int, float]]:
        """(job id, end time in seconds since the epoch or 0 for never) of every live job."""
        return [(jobid, job.end_time) for jobid, job in self._jobs.items()]

    def has_job(self, jobid: int) -> bool:
        """Whether job *jobid* has an allocation."""
        return jobid in self._jobs

    def occupy(self, jobid: int, parts: Iterable[Held], end_time: float = 0.0) -> None:
        """Give job *jobid* what is free of *parts*, which may be nothing, until *end_time*.

        For planning ahead on a copy, where resources are spoken for that others still hold.
        Raises PoolConflict if the job has resources already.
        """
        if jobid in self._jobs:
            raise PoolConflict(f"job {jobid} has an allocation already")
        free = []
        for ranks, cores, gpus in parts:
            for rank in ranks:
                state = self._index.state_of[rank]
                if state is not None:
                    free.append(((rank,), cores & state.cores, gpus & state.gpus))
        self._move(free, True, jobid, Job(tuple(free), end_time))

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
        gone = mask & self._inventory.ranks
        if not gone:
            return
        inventory, index = self._inventory.without(gone), self._index.copy()
        for rank in idset.iterate(gone):
            index.remove(rank)
        self._changed()
        self._forget()
        self._inventory, self._index = inventory, index

    # -- the pool as a whole

    def replace_key(self, key: Mapping[str, Any]) -> None:
        """Give the nodes the topology of RFC 49 *key*; what is allocated stays as it is.

        Raises InvalidKey, and changes nothing, if it does not fit the pool's ranks.
        """
        resource_set = attrs.evolve(self._inventory.resource_set, scheduling=key)
        inventory = Inventory.of(resource_set, len(self._inventory.types))
        index = NodeIndex(inventory.idle_states(), self._index.up.copy())
        for rank, old in enumerate(self._index.state_of):
            idle = index.state_of[rank] if old is not None else None
            if old is not None and idle is not None and not old.idle:
                index.move(rank, inventory.states.get(idle.type, old.cores, old.gpus))
        self._changed()
        self._forget()
        self._inventory, self._index = inventory, index

    @property
    def inventory(self) -> Inventory:
        """What the nodes are; for the other rooms of treepool, to look at only."""
        return self._inventory

    @property
    def situation(self) -> Situation:
        """What the pool's choices are made from; to look at only."""
        return Situation(self._inventory, self._index, self._policy)

    @property
    def ranks(self) -> int:
        """All ranks of the pool, as bitmask."""
        return self._inventory.ranks

    @property
    def up(self) -> int:
        """The ranks that are up, as bitmask."""
        return idset.from_flags(self._index.up)

    @property
    def localities(self) -> tuple[str, ...]:
        """The names of the localities that some node has, sorted; none if all nodes are flat."""
        return self._inventory.localities

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
        """Set ``expiration``."""
        self._changed()
        self._expiration = expiration

    def copy(self) -> Pool:
        """An independent copy, allocations included, for trying things out."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._index = self._index.copy()
        new._jobs = self._jobs.copy()
        new._candidates = {}
        return new

    def copy_idle(self) -> Pool:
        """An independent copy in which nothing is allocated; the same ranks are up."""
        new = self.copy()
        new._index = NodeIndex(self._inventory.idle_states(), self._index.up.copy())
        new._jobs = {}
        return new

    def copy_allocated(self) -> ResourceSet:
        """What is allocated now; it may be nothing."""
        entries = []
        for state, ranks in ranks_of(self._index.state_of, self._inventory.ranks).items():
            root = state.type.root
            cores, gpus = root.cores & ~state.cores, root.gpus & ~state.gpus
            if cores or gpus:
                entries.append(RLiteEntry(ranks.mask(), cores, gpus))
        return self._part_of(entries)

    def copy_down(self) -> ResourceSet:
        """The ranks that are down, with all they have; they may be none."""
        up = self.up
        entries = self._inventory.resource_set.entries
        down = (attrs.evolve(e, ranks=e.ranks & ~up) for e in entries)
        return self._part_of(entry for entry in down if entry.ranks)

    def to_dict(self) -> dict[str, Any]:
        """The R of the whole pool (RFC 20): what it was made from, without removed ranks."""
        resource_set = attrs.evolve(
            self._inventory.resource_set,
            starttime=self._starttime,
            expiration=self._expiration,
            scheduling=(
                self._inventory.key.to_dict()
                if self._inventory.key
                else self._inventory.resource_set.scheduling
            ),
        )
        return resource_set.to_dict()

    def encode(self) -> str:
        """The R of the whole pool as JSON text."""
        return json.dumps(self.to_dict())

    def dumps(self) -> str:
        """The resources in Flux's short form, such as ``rank[0-15]/core[0-119],gpu[0-7]``."""
        entries = self._inventory.resource_set.entries
        return short_form((tuple(idset.iterate(e.ranks)), e.cores, e.gpus) for e in entries)

    # -- inner workings

    def _part_of(self, entries: Iterable[RLiteEntry]) -> ResourceSet:
        """A resource set of *entries*, without key and nslots."""
        old, hosts = self._inventory.resource_set, self._inventory.hosts
        merged = merge_entries(entries)
        ranks = union(entry.ranks for entry in merged)
        properties = {name: mask & ranks for name, mask in old.properties.items() if mask & ranks}
        return ResourceSet(
            merged,
            tuple(hosts[rank] for rank in idset.iterate(ranks)),
            properties,
            starttime=self._starttime,
            expiration=self._expiration,
        )

    def _candidates_of(self, idle: bool, ask: Ask, constraint: Optional[Constraint]) -> Candidates:
        kept = self._idle if idle else self._candidates
        key = (ask, constraint)
        found = kept.pop(key, None)
        if found is None:
            if len(kept) >= MAX_CANDIDATES:
                del kept[next(iter(kept))]  # the one not used for longest
            index = self._inventory.idle_index if idle else self._index
            within = self._inventory.matching(constraint)
            found = Candidates(index, ask, self._policy, within)
        kept[key] = found
        return found

    def _end_time(self, duration: float) -> float:
        return time.time() + duration if duration > 0 else self._expiration

    def _forget(self) -> None:
        """Forget what was worked out for requests, as the nodes are about to change."""
        self._candidates, self._idle, self._reasons = {}, {}, {}

    def _changed(self) -> None:
        self._generation += 1
        self._inventory.states.forget(self._index.buckets)

    def _set_up(self, ids: str, up: bool) -> None:
        ranks = self._inventory.ranks
        mask = ranks if ids == "all" else idset.decode(ids) & ranks
        index, before = self._index, self._index.up.copy()
        try:
            for rank in idset.iterate(mask):
                index.set_up(rank, up)
            self._changed()
        except BaseException:
            index.up = before
            self._move_back(())
            raise

    def _check_free(self, jobid: int, parts: tuple[Held, ...]) -> None:
        state_of, types = self._index.state_of, self._inventory.types
        for ranks, cores, gpus in parts:
            for rank in ranks:
                node_type = types[rank] if rank < len(types) else None
                state = state_of[rank] if rank < len(state_of) else None
                if node_type is None or state is None:
                    raise PoolConflict(f"job {jobid}: rank {rank} is not in the pool")
                root = node_type.root
                if cores & ~root.cores or gpus & ~root.gpus:
                    missing = short_form([((rank,), cores & ~root.cores, gpus & ~root.gpus)])
                    raise PoolConflict(f"job {jobid}: {missing} is not in the pool")
                if cores & ~state.cores or gpus & ~state.gpus:
                    taken = short_form([((rank,), cores & ~state.cores, gpus & ~state.gpus)])
                    raise PoolConflict(f"job {jobid}: {taken} is allocated already")

    def _move(self, parts: Iterable[Held], taken: bool, jobid: int, job: Optional[Job]) -> None:
        """Take *parts* out of what is free, or put them back; *job* is then what *jobid* holds.

        None stands for nothing.
        """
        index, states = self._index, self._inventory.states
        before: list[tuple[int, NodeState]] = []
        try:
            for ranks, cores, gpus in parts:
                for rank in ranks:
                    old = index.state_of[rank]
                    if old is None:  # removed since it was allocated
                        continue
                    if taken:
                        new = states.get(old.type, old.cores & ~cores, old.gpus & ~gpus)
                    else:
                        new = states.get(old.type, old.cores | cores, old.gpus | gpus)
                    before.append((rank, old))
                    index.move(rank, new)
            self._changed()
            if job is None:
                del self._jobs[jobid]
            else:
                self._jobs[jobid] = job
        except BaseException:
            self._move_back(reversed(before))  # a rank may have moved twice
            raise

    def _move_back(self, before: Iterable[tuple[int, NodeState]]) -> None:
        """Put ranks back into the states they were in *before* a change that failed half-way."""
        for rank, state in before:
            self._index.state_of[rank] = state
        self._index.rebuild()
        self._candidates.clear()
