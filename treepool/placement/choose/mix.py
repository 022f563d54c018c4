"""The mix of expected jobs (its text: rfc/mix.py): which free GPUs are of use to them.

A free GPU is *stranded* for a kind of job if no such job fits there now, in the smallest kind of
domain that could host it on an idle node. The kinds are averaged by the GPUs that their jobs take.

What packing keeps is *usable*: the GPUs that jobs of a kind would take there, as many as fit at
once. Here kinds are averaged by the GPUs that their jobs take, times those that they take at once
on a node: a job of eight on one node is harder to serve than eight of one, and jobs of one GPU find
a place until the end. Counted by GPUs alone, large jobs are so few on most sites that keeping room
for them weighs next to nothing; counted by free GPUs instead of whole jobs, three free GPUs are as
good as two for jobs of two, so that nodes are left with an odd one.

Where counts are ranges, the smallest job of the kind counts; so does the smallest domain where all
of a domain above the nodes is asked for.

Without a mix the jobs to come are taken to be of one GPU with its fair share of cores, and the
measure is that of nodes/usable.py. It is a pure function of what is free in either case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional

import attrs

from treepool.errors import InvalidJobspec
from treepool.placement.effort import remembered
from treepool.placement.nodes import usable
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import NODE, Domain, NodeType
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.on_node.fit import fit
from treepool.placement.on_node.levels import levels_of
from treepool.placement.request.need import SLOT
from treepool.placement.request.vertices import Request, request_of
from treepool.rfc import idset, jobspec
from treepool.rfc.count import Count
from treepool.rfc.jobspec import Jobspec, Vertex, fewest, walk
from treepool.rfc.mix import Kind
from treepool.rfc.shape import parse_shape

#: For so many states of nodes, and types of nodes, the answers are remembered.
_MAX_STATES, _MAX_TYPES = 1 << 16, 1024


class _Want(NamedTuple):
    """A kind of job on a type of node: cores, GPUs, and the domains that host it.

    ``weight`` is its share of the GPUs that all kinds take, ``scarce`` its share of what is to be
    kept usable.
    """

    weight: float
    scarce: float
    cores: int
    gpus: int
    places: tuple[Domain, ...]


class _Wants(NamedTuple):
    """What a mix asks of a type of node; ``weight`` is that of all kinds that the type can host."""

    wants: tuple[_Want, ...]
    weight: float


@attrs.frozen(eq=False)
class Mix:
    """The ``kinds`` of jobs to come; if there are none, jobs of one GPU with its fair share.

    ``above`` are the localities above the nodes, and how many nodes their smallest domain has.
    """

    kinds: tuple[Kind, ...] = ()
    above: Mapping[str, int] = attrs.field(factory=dict)
    _wants: dict[NodeType, _Wants] = attrs.field(factory=dict)
    _known: dict[tuple[NodeType, int, int], tuple[float, float]] = attrs.field(factory=dict)

    def usable(self, state: NodeState) -> int:
        """The usable GPUs on a node in *state*, in parts of PER_GPU."""
        if not self.kinds:
            return usable.usable(state)
        return self.usable_of(state.type, state.cores, state.gpus)

    def usable_of(self, node_type: NodeType, cores: int, gpus: int) -> int:
        """The usable GPUs on a node of *node_type* where *cores* and *gpus* are free."""
        if not self.kinds:
            return usable.usable_of(node_type, cores, gpus)
        return round(self._counted(node_type, cores, gpus)[1])

    def most_usable(self, state: NodeState, ngpus: int) -> int:
        """An upper bound of what is usable on *state* after *ngpus* are taken."""
        left = idset.size(state.gpus & state.type.root.open_gpus) - ngpus
        return min(self.usable(state), left * PER_GPU)

    def stranded(self, node_type: NodeType, cores: int, gpus: int) -> int:
        """The free GPUs that are stranded, in parts of PER_GPU.

        Kinds that such a node could not host when idle do not count. If it can host none, all its
        free GPUs are stranded.
        """
        if not self.kinds:
            return usable.stranded(node_type, cores, gpus)
        free = idset.size(gpus & node_type.root.open_gpus) * PER_GPU
        weight = self.wants_on(node_type).weight
        # Not from what is rounded: kinds that the type can host may weigh next to nothing.
        return free - round(self._counted(node_type, cores, gpus)[0] / weight) if weight else free

    def _counted(self, node_type: NodeType, cores: int, gpus: int) -> tuple[float, float]:
        key = node_type, cores, gpus
        return remembered(self._known, _MAX_STATES, key, lambda: self._count(*key))

    def _count(self, node_type: NodeType, cores: int, gpus: int) -> tuple[float, float]:
        """The GPUs that are not stranded, and those that are usable, in parts of PER_GPU."""
        found = kept = 0.0
        gpus &= node_type.root.open_gpus
        for want in self.wants_on(node_type).wants:
            for place in want.places:
                free = idset.size(gpus & place.gpus)
                jobs = free // want.gpus
                if want.cores:
                    jobs = min(jobs, idset.size(cores & place.cores) // want.cores)
                if jobs:
                    found += want.weight * free
                    kept += want.scarce * want.gpus * jobs
        return found * PER_GPU, kept * PER_GPU

    def wants_on(self, node_type: NodeType) -> _Wants:
        """What the kinds ask of *node_type*; takes some milliseconds the first time."""
        return remembered(self._wants, _MAX_TYPES, node_type, lambda: _wants_of(self, node_type))


@lru_cache(maxsize=8)
def mix_of(kinds: tuple[Kind, ...], above: tuple[tuple[str, int], ...]) -> Mix:
    """The mix of *kinds*, one object for all pools; *above* are the items of Mix.above."""
    return Mix(kinds, dict(above))


def smallest_domains(fabric: Optional[Fabric]) -> tuple[tuple[str, int], ...]:
    """The localities of *fabric*, and how many nodes the smallest domain of each has."""
    sizes: dict[str, int] = {}
    for name, size in zip(fabric.locality, fabric.size) if fabric else ():
        if name and size:
            sizes[name] = min(size, sizes.get(name, size))
    return tuple(sizes.items())


def gpus_of(shape: str, node_types: Iterable[NodeType], above: Mapping[str, int]) -> Iterator[int]:
    """How many GPUs a job of *shape* takes at least: those that it names.

    If it names none, those that it takes on each of *node_types*, where it may take whole domains.
    """
    spec = _read(shape)
    named = fewest("gpu", spec.resources)
    if named:
        yield named
        return
    for node_type in node_types:
        yield round(_want(Kind(shape), spec, node_type, above).weight)


def _wants_of(mix: Mix, node_type: NodeType) -> _Wants:
    wants = [_want(kind, _read(kind.shape), node_type, mix.above) for kind in mix.kinds]
    weight = sum(want.weight for want in wants) or 1.0
    scarce = sum(want.scarce for want in wants) or 1.0
    hosted = tuple(
        want._replace(weight=want.weight / weight, scarce=want.scarce / scarce)
        for want in wants
        if want.places
    )
    return _Wants(hosted, sum(want.weight for want in hosted))


def _read(shape: str) -> Jobspec:
    """The smallest job of *shape*: all counts at their minimum."""
    spec = jobspec.read(jobspec.from_resources(parse_shape(shape)))
    return attrs.evolve(spec, resources=tuple(map(_least, spec.resources)))


def _want(kind: Kind, spec: Jobspec, node_type: NodeType, above: Mapping[str, int]) -> _Want:
    """What *kind*, read as *spec*, wants of *node_type*; it has no places if no node can host it.

    Its weights are in GPUs, of all the job.
    """
    root = node_type.root
    request = _request(spec, node_type, above)
    gives = fit(NodeState(node_type, root.cores, root.gpus), request.ask) if request else None
    if request is None or gives is None:
        named = fewest("gpu", spec.resources)
        at_once = named / request.least_asks if request else 1.0
        return _Want(kind.weight * named, kind.weight * named * at_once, 0, 0, ())
    cores, gpus = gives.ids(0)
    cores, gpus = idset.size(cores), idset.size(gpus & root.open_gpus)
    if not gpus:
        return _Want(0.0, 0.0, 0, 0, ())
    units = request.least_asks
    if request.levels and request.levels[-1].whole:
        units *= above[request.levels[-1].name]
    weight = kind.weight * gpus * units
    return _Want(weight, weight * gpus, cores, gpus, _places(root, cores, gpus))


def _least(vertex: Vertex) -> Vertex:
    """*vertex* with all counts at their minimum."""
    number = vertex.count.minimum
    children = tuple(map(_least, vertex.children))
    return attrs.evolve(vertex, count=Count(number, number), children=children)


def _request(spec: Jobspec, node_type: NodeType, known: Mapping[str, int]) -> Optional[Request]:
    """What a job asks for; None if nodes lack a locality that it names.

    A name above ``node`` can only be one of the fabric, *known* or not.
    """
    around = {
        vertex.type
        for vertex in walk(spec.resources)
        if any(inner.type == NODE for inner in walk(vertex.children))
    }
    above = sorted({*known, *around} - {SLOT})
    try:
        return request_of(spec, sorted(node_type.named), "preferred", above)
    except InvalidJobspec:
        return None


def _places(root: Domain, cores: int, gpus: int) -> tuple[Domain, ...]:
    """The domains of the smallest kinds that have so many *cores* and *gpus*."""

    def hosts(domain: Domain) -> bool:
        return domain.ncores >= cores and idset.size(domain.gpus & root.open_gpus) >= gpus

    return tuple(domain for domain, level in levels_of(root, hosts).items() if not level)
