"""The library, for programs: ``treepool.Pool``, its requests, what it allocates, how many jobs fit.

Sets of ranks are idset texts or ids, and all JSON belongs to the caller. The engine below
(``treepool.placement``) shares what it knows between pools and their copies, which is why a Pool
belongs to the thread that made it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any, Iterable, Literal, Mapping, NamedTuple, NoReturn, Optional, Union

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidIdset, Problem
from treepool.placement.allocation import Allocation as _Allocated
from treepool.placement.choose.fitness import Fitness
from treepool.placement.plan.reason import why_not_now
from treepool.placement.pool import IN_USE
from treepool.placement.pool import Pool as _Engine
from treepool.placement.request.vertices import Request
from treepool.rfc import document, idset, jobcheck
from treepool.rfc.jobspec import from_resources
from treepool.rfc.rset import ResourceSet
from treepool.rfc.shape import parse_shape

#: Most jobs that ``Pool.room`` tries.
MOST = 100_000


class Free(NamedTuple):
    """What is free on the nodes that are up: numbers of nodes, cores and GPUs.

    ``nodes`` counts nodes of which nothing is allocated, ``domains`` by locality the domains inside
    nodes that are free as a whole.
    """

    nodes: int
    cores: int
    gpus: int
    domains: Mapping[str, int]


class Allocation:
    """What a job got: its resources, its number of slots, and its R.

    What each of the slots gets is not said: as in R, their cores and GPUs are told together.
    ``starttime`` and ``expiration`` are in seconds since the epoch, 0 when unset. ``Pool.alloc``
    sets both for a job that has an end; a scheduler that starts the job later sets them again.
    """

    __slots__ = ("_found",)

    def __init__(self, found: _Allocated) -> None:
        self._found = found

    @property
    def ranks(self) -> tuple[int, ...]:
        """The allocated ranks, ascending."""
        return self._found.ranks

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the allocated nodes, in the order of ``ranks``."""
        return self._found.hosts

    @property
    def nslots(self) -> int:
        """The number of slots."""
        return self._found.nslots

    @property
    def starttime(self) -> float:
        """When the resources become valid."""
        return self._found.starttime

    @starttime.setter
    def starttime(self, seconds: float) -> None:
        self._found.set_starttime(seconds)

    @property
    def expiration(self) -> float:
        """When the resources stop being valid; 0 means never."""
        return self._found.expiration

    @expiration.setter
    def expiration(self, seconds: float) -> None:
        self._found.set_expiration(seconds)

    def to_dict(self) -> dict[str, Any]:
        """The job's R (RFC 20), with the key cut to the allocated ranks (RFC 49, Allocated R)."""
        return _own(self._found.to_dict())

    def encode(self) -> str:
        """The job's R as JSON text."""
        return self._found.encode()

    def dumps(self) -> str:
        """The resources in Flux's short form, such as ``rank[0-1]/core[0-3],gpu0``."""
        return self._found.dumps()

    def fitness(self) -> Fitness:
        """How good the placement is as it is; ``Pool.fitness`` measures it against the ideal.

        That is low for some jobs that could not sit better: all of a node has cores in several
        memory domains. ``Pool.fitness`` is 1 then.
        """
        return self._found.fitness()

    def __repr__(self) -> str:
        return f"<Allocation {self.dumps()}>"


class Pool:
    """A pool of resources with the topology of its nodes, from which jobs are allocated.

    *R* is an RFC 20 object, JSON text, a ResourceSet or an Allocation; its RFC 49 key, if it has
    one, gives the trees. It is copied. The options are those of doc/admin.md; one that is None has
    its default. A pool may have no nodes: every request is then infeasible. Raises InvalidR,
    InvalidKey, or InvalidOption.

    A Pool belongs to the thread that made it: calls from another raise RuntimeError. Where a call
    raises any other error, nothing has changed.
    """

    def __init__(
        self,
        R: Union[Mapping[str, Any], str, ResourceSet, Allocation],
        *,
        locality: Optional[Literal["preferred", "required", "none"]] = None,
        policy: Optional[Literal["packing", "best-fit", "first-fit", "worst-fit"]] = None,
        straddle: Union[str, float, None] = None,
        gpu_cores: Union[str, int, None] = None,
        mix: Optional[str] = None,
        job_key: Optional[Literal["full", "none"]] = None,
    ) -> None:
        given = {
            "locality": locality,
            "policy": policy,
            "straddle": straddle,
            "gpu_cores": gpu_cores,
            "mix": mix,
            "job_key": job_key,
        }
        options = {name: str(value) for name, value in given.items() if value is not None}
        if isinstance(R, Allocation):
            R = R._found.to_dict()
        read = R if isinstance(R, ResourceSet) else ResourceSet.read(R)
        own = attrs.evolve(read, scheduling=document.copied(read.scheduling))
        self._engine = _Engine(own, **options)
        self._thread = get_ident()

    @property
    def _pool(self) -> _Engine:
        if get_ident() != self._thread:
            raise RuntimeError("a Pool belongs to the thread that made it: make another from its R")
        return self._engine

    # -- requests

    def request(
        self, shape: str, duration: float = 0.0, options: Optional[Mapping[str, Any]] = None
    ) -> Request:
        """The request of an RFC 46 *shape* for *duration* seconds (0: no limit).

        *options* are treepool's job options (``attributes.system.treepool``), such as
        ``{"within": "switch"}``. Raises InvalidShape or InvalidJobspec.
        """
        jobspec = from_resources(parse_shape(shape))
        system: dict[str, Any] = {"duration": duration}
        if options:
            system["treepool"] = dict(options)
        return self._pool.parse_resource_request({**jobspec, "attributes": {"system": system}})

    def parse_resource_request(self, jobspec: Union[Mapping[str, Any], str]) -> Request:
        """The request of a jobspec (RFC 14 or 25, dict or JSON text).

        Raises InvalidJobspec naming the vertex or attribute this pool does not know.
        """
        return self._pool.parse_resource_request(jobspec)

    @staticmethod
    def problems(jobspec: Mapping[str, Any]) -> list[Problem]:
        """All problems of a jobspec (RFC 14 or 25), in the order of their places."""
        return jobcheck.problems(jobspec)

    def check_feasibility(self, request: Request) -> None:
        """Raise InfeasibleRequest, with the reason, if an idle pool could not serve *request*.

        Ranks that are down count: they may come back. A pool that has expired serves nothing. A
        request is TooComplex, which is an InfeasibleRequest, if the search for what an idle pool
        could give is given up.
        """
        self._pool.check_feasibility(_request(request))

    def fitness(self, allocation: Allocation, request: Request) -> Fitness:
        """How good *allocation* is for *request*, next to what an idle pool would give it."""
        return self._pool.fitness(allocation._found, _request(request))

    # -- jobs

    def alloc(self, jobid: int, request: Request) -> Allocation:
        """Allocate resources for job *jobid*, which starts now.

        Its ``expiration`` is when its duration is over, and at the latest when that of the pool is.
        It keeps the resources until ``free``, also after that: the pool has no clock.

        Raises InsufficientResources if they are not free now, with the reason ``down`` if the nodes
        that are up could not serve it even if they were idle; InfeasibleRequest if they never will
        be; and PoolConflict if the job has resources already.
        """
        pool = self._pool
        try:
            return Allocation(pool.alloc(_jobid(jobid), _request(request)))
        except InsufficientResources as e:
            if e.reason is not IN_USE:
                raise
        raise InsufficientResources(why_not_now(pool, request))

    def register_alloc(
        self, jobid: int, R: Union[Mapping[str, Any], str, ResourceSet, Allocation]
    ) -> None:
        """Take note of what job *jobid* already holds, as a scheduler does when it restarts.

        Raises PoolConflict, and changes nothing, if R has ranks or ids that are not in the pool
        or are allocated, or if the job has resources already.
        """
        self._pool.register_alloc(_jobid(jobid), R._found if isinstance(R, Allocation) else R)

    def free(
        self,
        jobid: int,
        R: Union[Mapping[str, Any], str, ResourceSet, Allocation, None] = None,
        final: bool = False,
    ) -> None:
        """Give back what job *jobid* holds: all of it, or the ranks of *R*.

        *R* must say of each rank what the job holds there. With *final* the job is over: *R*, if
        given, must be all that it still holds. Raises PoolConflict, and changes nothing, if the
        job holds nothing or *R* says otherwise.
        """
        self._pool.free(_jobid(jobid), R._found if isinstance(R, Allocation) else R, final)

    def update_expiration(self, jobid: int, expiration: float) -> None:
        """Set when job *jobid* ends, in seconds since the epoch, 0 for never."""
        self._pool.update_expiration(_jobid(jobid), expiration)

    def job_end_times(self) -> list[tuple[int, float]]:
        """(job id, end time in seconds since the epoch or 0 for never) of every live job."""
        return self._pool.job_end_times()

    # -- what is free

    def free_now(self) -> Free:
        """How much is free on the nodes that are up: nodes, cores, GPUs, whole domains."""
        index = self._pool.situation.index
        nodes = cores = gpus = 0
        domains = dict.fromkeys(self.localities, 0)
        for state, ranks in index.buckets.items():
            number = idset.size(ranks)
            nodes += number if state.idle else 0
            cores += number * idset.size(state.cores)
            gpus += number * idset.size(state.gpus)
            for domain in state.type.root.walk():
                whole = not (domain.cores & ~state.cores or domain.gpus & ~state.gpus)
                if whole and domain.whole and domain.name in domains:
                    domains[domain.name] += number
        return Free(nodes, cores, gpus, domains)

    def room(self, request: Request, most: int = MOST) -> int:
        """How many jobs of *request* fit now beside those that run, at most *most*.

        They are tried one after the other on a copy: a hundred thousand take some seconds.
        """
        trial, _ = self._pool.copy(), _request(request)
        unused = min((jobid for jobid, _ in trial.job_end_times()), default=0) - 1
        for number in range(most):
            try:
                trial.alloc(unused - number, request)
            except (InfeasibleRequest, InsufficientResources):
                return number
        return most

    # -- nodes

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks of the pool, ascending."""
        return tuple(idset.iterate(self._pool.ranks))

    @property
    def up(self) -> tuple[int, ...]:
        """The ranks that are up, ascending."""
        return tuple(idset.iterate(self._pool.up))

    def mark_up(self, ranks: Union[str, Iterable[int]]) -> None:
        """Make *ranks* (idset text, "all", or ids) available; unknown ones are ignored."""
        self._pool.mark_up(_ranks(ranks))

    def mark_down(self, ranks: Union[str, Iterable[int]]) -> None:
        """Make *ranks* (idset text, "all", or ids) unavailable for new jobs.

        Unknown ones are ignored, and jobs keep what they have there.
        """
        self._pool.mark_down(_ranks(ranks))

    def remove_ranks(self, ranks: Union[str, Iterable[int]]) -> None:
        """Take *ranks* (idset text or ids) out of the pool for good (shrink).

        Unknown ones are ignored.
        """
        self._pool.remove_ranks(_ranks(ranks))

    # -- the pool as a whole

    @property
    def localities(self) -> tuple[str, ...]:
        """The names of the localities that some node has, sorted; none if all nodes are flat."""
        return self._pool.localities

    @property
    def fabric_localities(self) -> tuple[str, ...]:
        """The names of the localities above the nodes, the highest first."""
        return self._pool.fabric_localities

    @property
    def starttime(self) -> float:
        """When the pool's resources become valid, in seconds since the epoch, 0 for unset."""
        return self._pool.starttime

    @property
    def expiration(self) -> float:
        """When the pool's resources stop being valid, in seconds since the epoch, 0 for never."""
        return self._pool.expiration

    @expiration.setter
    def expiration(self, seconds: float) -> None:
        """Set it, and with it the end of the jobs that end with the pool."""
        self._pool.set_expiration(seconds)

    def copy(self) -> Pool:
        """An independent copy, allocations included, for the thread that this pool belongs to."""
        new = object.__new__(type(self))
        new._engine, new._thread = self._pool.copy(), self._thread
        return new

    def __copy__(self) -> Pool:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Pool:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pool cannot be pickled: pickle to_dict(), and the Rs of its jobs")

    def to_dict(self) -> dict[str, Any]:
        """The R of the whole pool (RFC 20): what it was made from, without removed ranks."""
        return _own(self._pool.to_dict())

    def encode(self) -> str:
        """The R of the whole pool as JSON text."""
        return self._pool.encode()

    def dumps(self) -> str:
        """The resources in Flux's short form, such as ``rank[0-15]/core[0-119],gpu[0-7]``."""
        return self._pool.dumps()


def _own(R: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing with *R*."""
    found: dict[str, Any] = document.copied(R)
    return found


def _jobid(jobid: object) -> int:
    if not isinstance(jobid, int) or isinstance(jobid, bool):
        raise TypeError(f"a job id is an int, not {type(jobid).__name__}")
    return jobid


def _request(request: object) -> Request:
    if not isinstance(request, Request):
        raise TypeError(
            f"a Request is needed, as request() and parse_resource_request() make, not "
            f"{type(request).__name__}"
        )
    return request


def _ranks(ranks: Union[str, Iterable[int]]) -> str:
    if isinstance(ranks, str):
        return ranks
    if isinstance(ranks, int):
        raise InvalidIdset("ranks are an idset text or ids, not one int")
    return idset.encode_ids(sorted(set(ranks)))
