"""Advice: which slots fill each kind of node, which common shapes are tried, and what these leave.

This is what a platform team tells its users: the geometry of each kind of node, the slots that
fill it completely, and what shapes in common use leave stranded. To find each number, the adviser
fills a pool of one such node, job after job, until no more fits. What a slot strands depends on the
jobs to come: those of a mix, if there is one.
"""

from __future__ import annotations

from itertools import starmap
from math import gcd
from typing import Optional, Sequence

import attrs

from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.allocation import Allocation
from treepool.placement.choose.mix import Mix
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.rfc import idset, jobspec
from treepool.rfc.mix import Kind
from treepool.rfc.shape import parse_shape
from treepool.view.places import local_slots, settled

#: Most kinds of node, most slot sizes per kind, and most jobs used to fill a node.
MAX_TYPES, MAX_SLOTS, MAX_JOBS = 12, 16, 1024

#: Shapes that people commonly ask for, on nodes with GPUs and without.
COMMON_GPU = tuple(
    f"slot=1/[core={cores};gpu={gpus}]"
    for cores, gpus in ((1, 1), (4, 1), (8, 1), (12, 1), (16, 1), (24, 1), (32, 2), (64, 4))
)
COMMON_CPU = tuple(f"slot=1/core={cores}" for cores in (1, 4, 8, 16, 24, 32, 64))


@attrs.frozen
class Level:
    """The domains of one locality on a node: their number, and the least and most that one has.

    ``cores``, ``gpus`` and ``memory`` (bytes) are pairs (least, most).
    """

    name: str
    number: int
    cores: tuple[int, int]
    gpus: tuple[int, int]
    memory: tuple[int, int]


@attrs.frozen
class Filled:
    """A node filled with jobs of one shape: how many slots fit, and what is left over.

    ``local`` is the number of slots in the smallest kind of domain that can host one. ``inside``
    gives, per level, how many whole slots each of its domains holds (least, most). ``memory`` is a
    slot's part of the node's memory, in bytes, 0 if not known. ``stranded`` GPUs are those that the
    jobs to come cannot use after the first job, besides those that it has: without a mix, GPUs that
    lose their fair share of cores to it. ``reason`` says why no slot fits, if none does.
    """

    shape: str
    slots: int
    local: int
    cores_left: int
    gpus_left: int
    inside: tuple[tuple[int, int], ...] = ()
    memory: int = 0
    stranded: float = 0
    reason: str = ""

    @property
    def tiles(self) -> bool:
        """Whether nothing is left over and every slot is local."""
        return bool(self.slots) and not (
            self.cores_left or self.gpus_left or self.slots > self.local
        )


@attrs.frozen
class Advice:
    """What to ask of one kind of node: ``ranks`` are its ranks, ``hosts`` their names.

    ``levels`` are its localities from the node inwards. ``tiling`` has the slots that fill it
    completely. ``nearly`` has the slots with one GPU and the most cores, if they leave a remainder.
    ``common`` has the result for other shapes: common ones that fit, or those of the mix, and those
    asked about.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    levels: tuple[Level, ...]
    tiling: tuple[Filled, ...]
    nearly: tuple[Filled, ...]
    common: tuple[Filled, ...]


def advise(
    pool: Pool, shapes: Sequence[str] = (), mix: Sequence[Kind] = ()
) -> tuple[tuple[Advice, ...], int]:
    """Advice on each kind of node of *pool*, the most frequent first, and how many are left out.

    *shapes* are added to the common ones, or to those of the *mix* of jobs to come. Raises
    InvalidShape or InvalidJobspec for a shape that the pool does not understand.
    """
    own = pool.situation.policy.mix
    measure = Mix(tuple(mix), own.above) if mix else own
    expected = [(kind.shape, request_of(pool, kind.shape)) for kind in mix]
    asked = [(shape, request_of(pool, shape)) for shape in shapes]
    inventory = pool.inventory
    types = sorted(inventory.node_types.items(), key=lambda item: -idset.size(item[1]))
    found = []
    for node_type, held in types[:MAX_TYPES]:
        ranks = tuple(idset.iterate(held))
        alike = pool.copy_idle()
        alike.mark_up("all")
        alike.remove_ranks(inventory.ranks & ~idset.from_ids(ranks))
        hosts = tuple(inventory.hosts[rank] for rank in ranks)
        found.append(_Adviser(alike, node_type, measure).advice(ranks, hosts, expected, asked))
    return tuple(found), len(types) - len(found)


class _Adviser:
    """Fills copies of a pool of one of the idle nodes of *alike*, all of *node_type*."""

    def __init__(self, alike: Pool, node_type: NodeType, mix: Mix) -> None:
        self.alike = alike
        self.pool = alike.copy()
        self.pool.remove_ranks(alike.ranks & (alike.ranks - 1))  # all but the lowest
        self.mix = mix
        self.node_type = node_type
        self.names = list(dict.fromkeys(domain.name for domain in node_type.root.walk()))

    def advice(
        self,
        ranks: tuple[int, ...],
        hosts: tuple[str, ...],
        expected: Sequence[tuple[str, Request]],
        asked: Sequence[tuple[str, Request]],
    ) -> Advice:
        root = self.node_type.root
        sizes = slot_sizes(root)
        filled = [self.fill(_shape(*size)) for size in sizes]
        tiling = [one for one in filled if one.tiles][:MAX_SLOTS]
        nearly = []
        if root.ngpus and not any(one.tiles and size[1] == 1 for one, size in zip(filled, sizes)):
            nearly = [self.fill(_shape(cores, 1)) for cores in shares(root)]
        habit = COMMON_GPU if root.ngpus else COMMON_CPU
        usual = expected or [(shape, request_of(self.pool, shape)) for shape in habit]
        common = [one for one in starmap(self.fill, usual) if not one.reason]
        common += [self.fill(shape, request) for shape, request in asked]
        return Advice(
            ranks, hosts, tuple(map(self.level, self.names)), tuple(tiling), tuple(nearly),
            tuple(common),
        )  # fmt: skip

    def level(self, name: str) -> Level:
        """The domains called *name*."""
        domains = self.domains(name)

        def between(values: list[int]) -> tuple[int, int]:
            return min(values), max(values)

        return Level(
            name,
            len(domains),
            between([d.ncores for d in domains]),
            between([d.ngpus for d in domains]),
            between([d.memory for d in domains]),
        )

    def domains(self, name: str) -> list[Domain]:
        return [domain for domain in self.node_type.root.walk() if domain.name == name]

    def fill(self, shape: str, request: Optional[Request] = None) -> Filled:
        """The node after jobs of *shape* have taken all they can."""
        root = self.node_type.root
        asked = request or request_of(self.pool, shape)
        pool = self.pool.copy()
        jobs: list[Allocation] = []
        try:
            while len(jobs) < MAX_JOBS:
                jobs.append(pool.alloc(len(jobs) + 1, asked))
            return Filled(shape, 0, 0, root.ncores, root.ngpus, reason=f"{MAX_JOBS} jobs and more")
        except InsufficientResources:
            pass
        except InfeasibleRequest:
            return Filled(shape, 0, 0, root.ncores, root.ngpus, reason=self.why_not(asked))
        slots = local = cores = gpus = 0
        for job in jobs:
            ((_, job_cores, job_gpus),) = job.parts
            slots += job.nslots
            ask = settled(self.pool.situation, asked, job.parts)
            local += local_slots(self.node_type, job_cores, job_gpus, ask)[1]
            cores += idset.size(job_cores)
            gpus += idset.size(job_gpus)
        return Filled(
            shape,
            slots,
            local,
            root.ncores - cores,
            root.ngpus - gpus,
            tuple(self.inside(name, jobs) for name in self.names),
            root.memory // slots,
            stranded_by(self.mix, self.node_type, jobs[0]),
        )

    def why_not(self, request: Request) -> str:
        """Why one node cannot serve *request*: what all such nodes lack, or that one is too few."""
        try:
            self.alike.check_feasibility(request)
        except InfeasibleRequest as e:
            return str(e)
        return "it takes more than one such node"

    def inside(self, name: str, jobs: Sequence[Allocation]) -> tuple[int, int]:
        """The least and most whole slots that a domain called *name* holds."""
        counts = []
        for domain in self.domains(name):
            held = 0
            for job in jobs:
                ((_, cores, gpus),) = job.parts
                if not cores & ~domain.cores and not gpus & ~domain.gpus:
                    held += job.nslots
            counts.append(held)
        return min(counts), max(counts)


def stranded_by(mix: Mix, node_type: NodeType, job: Allocation) -> float:
    """The GPUs that *mix* cannot use because of a job on an idle node of *node_type*."""
    ((_, cores, gpus),) = job.parts
    root = node_type.root
    before = mix.stranded(node_type, root.cores, root.gpus)
    after = mix.stranded(node_type, root.cores & ~cores, root.gpus & ~gpus)
    return max(0, after - before) / PER_GPU


def slot_sizes(root: Domain) -> list[tuple[int, int]]:
    """The (cores, GPUs) of slots that divide some domain without a remainder, smallest first.

    On a node with GPUs each slot has at least one.
    """
    sizes: set[tuple[int, int]] = set()
    for domain in root.walk():
        cores, gpus = domain.ncores, domain.ngpus
        if cores and (gpus or not root.ngpus):
            common = gcd(cores, gpus)
            parts = (n for n in range(1, min(common, MAX_JOBS) + 1) if common % n == 0)
            sizes |= {(cores // n, gpus // n) for n in parts}
    sizes = {size for size in sizes if size[0] * MAX_JOBS > root.ncores}
    return sorted(sizes, key=lambda size: (size[1], size[0]))


def shares(root: Domain) -> list[int]:
    """The cores per GPU, at least one, if a domain divides its cores evenly among its GPUs.

    Only the smallest domains that have GPUs count. Each size of share is listed once.
    """
    domains = [d for d in root.walk() if d.ngpus and not any(c.ngpus for c in d.children)]
    return sorted({d.ncores // d.ngpus for d in domains if d.ncores >= d.ngpus})


def _shape(cores: int, gpus: int) -> str:
    return f"slot=1/[core={cores};gpu={gpus}]" if gpus else f"slot=1/core={cores}"


def request_of(pool: Pool, shape: str) -> Request:
    """The request that *shape* makes of *pool*; raises InvalidShape or InvalidJobspec."""
    return pool.parse_resource_request(jobspec.from_resources(parse_shape(shape)))
