"""The cluster that the benchmark measures on, and the jobs that wear it out.

The cluster is RFC 49's cluster B at any size: nodes of four MI300A packages, each 24 cores and a
GPU. One large job holds a quarter of the nodes. On the others small jobs of many shapes start
until LOAD of their cores or GPUs is in use; from then on, before each start, random jobs end
until that is so again. What is left free is then as scattered as the policy lets it become.

A step is one start. So that a million nodes fill in as many steps as ten thousand, half of the
jobs of a cluster with more nodes than steps can fill have that many times more slots. Once the
cluster is aged only jobs of one slot start and end, so that what happens between two samples is
the same at every size.
"""

from __future__ import annotations

import random
from typing import Any, Iterator, Mapping, Optional, Protocol

import attrs

from treepool.errors import InsufficientResources
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import idset, jobspec
from treepool.rfc.shape import parse_shape

#: The cores and GPUs of a node.
CORES, GPUS = 96, 4

#: The fraction of the cores, or of the GPUs, that the small jobs use of the nodes they have.
LOAD = 0.85

#: Shapes of small jobs, each with the number of slots left open, and how often they come.
SHAPES = {
    "slot={}/[core=8;gpu=1]": 6,
    "slot={}/[core=24;gpu=1]": 6,
    "slot={}/[core=6;gpu=1]": 4,
    "slot={}/[core=16;gpu=1]": 4,
    "slot={}/[core=2;gpu=1]": 2,
    "slot={}/[core=48;gpu=2]": 2,
    "slot={}/[core=36;gpu=2]": 2,
    "slot={}/core=1": 5,
    "slot={}/core=3": 3,
    "slot={}/core=4": 5,
    "slot={}/core=7": 3,
    "slot={}/core=10": 3,
    "slot={}/core=13": 3,
    "slot={}/core=18": 3,
    "slot={}/core=40": 1,
    "slot={}/core=64": 1,
    "slot={}/socket{{x}}": 2,
    "slot={}/socket/[core=4;gpu=1]": 2,
    "slot={}/node{{x}}": 1,
    "slot={}/node/core=12": 1,
}

#: Steps per node after which a cluster of one-slot jobs is full and has turned over.
_STEPS_PER_NODE = 10

#: The large job, and the first of the others.
_LARGE, _FIRST = 1, 10


class Mirror(Protocol):
    """Another pool that is told of every job that starts and ends."""

    def register(self, jobid: int, R: Mapping[str, Any]) -> None:
        """Job *jobid* has *R*."""

    def free(self, jobid: int) -> None:
        """Job *jobid* has ended."""


@attrs.frozen
class _Job:
    jobid: int
    allocation: Allocation
    ncores: int
    ngpus: int


def cluster(nodes: int) -> dict[str, Any]:
    """The R of *nodes* nodes such as RFC 49's cluster B has."""
    ranks = f"0-{nodes - 1}"
    sockets = [
        {"cores": f"{24 * i}-{24 * i + 23}", "gpus": str(i), "memory": 126 if i else 125}
        for i in range(GPUS)
    ]
    storage = [{"path": "/l/ssd", "capacity": 200, "unit": "GiB"}]
    children = {"core": f"0-{CORES - 1}", "gpu": f"0-{GPUS - 1}"}
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": children}],
            "nodelist": [f"cray[{ranks}]"],
            "starttime": 0.0,
            "expiration": 0.0,
        },
        "scheduling": {
            "writer": "TreePool",
            "children": [{"ranks": ranks, "topo": {"storage": storage, "socket": sockets}}],
        },
    }


def spec_of(shape: str) -> dict[str, Any]:
    """The jobspec of *shape*."""
    return jobspec.from_resources(parse_shape(shape))


class Workload:
    """A pool of ``cluster(nodes)`` and the jobs on it; the same *seed* makes the same history."""

    def __init__(self, pool: Pool, nodes: int, seed: int, steps: int) -> None:
        self.pool = pool
        self.nodes = nodes
        self.steps = min(steps, 100 * nodes)
        #: Told of everything from now on; see ``attach``.
        self.mirror: Optional[Mirror] = None
        self._random = random.Random(seed)
        self._small: list[_Job] = []
        self._wide: list[_Job] = []
        self._used_cores = self._used_gpus = 0
        self._next = _FIRST
        self._requests: dict[str, Request] = {}
        self._large: Optional[Allocation] = None
        self._fillers: dict[int, Allocation] = {}
        self._width = max(1, round(_STEPS_PER_NODE * nodes / max(1, steps)))
        mixed = nodes - nodes // 4
        self._most_cores = LOAD * mixed * CORES
        self._most_gpus = LOAD * mixed * GPUS

    def age(self) -> Iterator[float]:
        """Bring the cluster into its aged state; yields how much of that is done, 0 to 1."""
        self.start_large()
        for step in range(self.steps):
            if step % 256 == 0:
                yield step / self.steps
            while self._full():
                small, wide = len(self._small), len(self._wide)
                self._end_one_of(
                    self._small if self._random.randrange(small + wide) < small else self._wide
                )
            if self._width > 1:
                self._start_one(self._random.choice((1, 1, self._width, 2 * self._width)))
            else:
                self._start_one(1)

    def churn(self, starts: int) -> None:
        """Let *starts* jobs of one slot start, if they fit; before each, end those too many."""
        for _ in range(starts):
            while self._full():
                self.end_one()
            self._start_one(1)

    def end_one(self) -> None:
        """End a random job of one slot, or a larger one if there is none, or nothing."""
        jobs = self._small or self._wide
        if jobs:
            self._end_one_of(jobs)

    def start_large(self) -> None:
        """Let the large job have a quarter of the nodes, which must be idle."""
        self._large = self._start(_LARGE, f"slot={self.nodes // 4}/node{{x}}")

    def end_large(self) -> None:
        """End the large job."""
        self._large = None
        self._end(_LARGE)

    def fill_sockets(self) -> None:
        """Have fillers hold every socket that is entirely free.

        Where they have driven out many of the small jobs, these come back first.
        """
        if self._used_cores < 0.9 * self._most_cores and self._used_gpus < 0.9 * self._most_gpus:
            self.empty_sockets()
            self.churn(len(self._small) // 4)
        jobid = self._take_id()
        try:
            filler = self._start(jobid, f"slot=1-{GPUS * self.nodes}/socket{{x}}")
        except InsufficientResources:
            return
        self._fillers[jobid] = filler

    def empty_sockets(self) -> None:
        """End the fillers."""
        for jobid in self._fillers:
            self._end(jobid)
        self._fillers = {}

    def attach(self, mirror: Mirror) -> None:
        """Tell *mirror* of every job there is, and of what happens from now on."""
        self.mirror = mirror
        for jobid, allocation in self._live():
            mirror.register(jobid, allocation.to_dict())

    def any_rank(self) -> int:
        """A random rank."""
        return self._random.randrange(self.nodes)

    @property
    def jobs(self) -> int:
        """How many jobs are live."""
        return sum(1 for _ in self._live())

    @property
    def states(self) -> int:
        """How many distinct states the nodes are in."""
        return len(self.pool.situation.index.buckets)

    def in_use(self) -> tuple[float, float]:
        """The fractions of all cores and of all GPUs that are allocated."""
        cores, gpus = self._used_cores, self._used_gpus
        if self._large is not None:
            ncores, ngpus = _amounts(self._large)
            cores, gpus = cores + ncores, gpus + ngpus
        return cores / (CORES * self.nodes), gpus / (GPUS * self.nodes)

    def _live(self) -> Iterator[tuple[int, Allocation]]:
        if self._large is not None:
            yield _LARGE, self._large
        yield from ((job.jobid, job.allocation) for job in self._small + self._wide)
        yield from self._fillers.items()

    def _full(self) -> bool:
        return self._used_cores > self._most_cores or self._used_gpus > self._most_gpus

    def _start_one(self, width: int) -> None:
        (shape,) = self._random.choices(tuple(SHAPES), tuple(SHAPES.values()))
        jobid = self._take_id()
        try:
            allocation = self._start(jobid, shape.format(width))
        except InsufficientResources:
            return
        job = _Job(jobid, allocation, *_amounts(allocation))
        (self._small if width == 1 else self._wide).append(job)
        self._used_cores += job.ncores
        self._used_gpus += job.ngpus

    def _end_one_of(self, jobs: list[_Job]) -> None:
        i = self._random.randrange(len(jobs))
        jobs[i], jobs[-1] = jobs[-1], jobs[i]
        job = jobs.pop()
        self._used_cores -= job.ncores
        self._used_gpus -= job.ngpus
        self._end(job.jobid)

    def _start(self, jobid: int, shape: str) -> Allocation:
        request = self._requests.get(shape)
        if request is None:
            request = self.pool.parse_resource_request(spec_of(shape))
            self._requests[shape] = request
        allocation = self.pool.alloc(jobid, request)
        if self.mirror is not None:
            self.mirror.register(jobid, allocation.to_dict())
        return allocation

    def _end(self, jobid: int) -> None:
        self.pool.free(jobid)
        if self.mirror is not None:
            self.mirror.free(jobid)

    def _take_id(self) -> int:
        self._next += 1
        return self._next


def _amounts(allocation: Allocation) -> tuple[int, int]:
    """The numbers of cores and GPUs in *allocation*."""
    ncores = sum(idset.size(ranks) * idset.size(cores) for ranks, cores, _ in allocation.parts)
    ngpus = sum(idset.size(ranks) * idset.size(gpus) for ranks, _, gpus in allocation.parts)
    return ncores, ngpus
