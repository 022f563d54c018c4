"""Synthetic traces: sizes, run times, limits and arrivals of generated jobs, the same for a seed.

The mix of jobs is typical of GPU clusters: many small jobs, few large ones, more short than long.
Sizes follow the cluster's own kinds of node: parts of a GPU's share of the cores, whole shares,
several shares, only cores, whole nodes. The more nodes there are, the more of them a job has, so
that a thousand jobs keep any cluster busy for days. Run times are log-normal. Limits are round
numbers above the run time, as users choose them. Jobs arrive at random over the time in which they
would keep ``load`` of the cores, or of the GPUs, in use.
"""

from __future__ import annotations

import math
import random

import attrs

from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.tree import NodeType
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view.trace import TraceJob, in_order

#: The median run time in seconds; the scatter of run times (the standard deviation of their
#: logarithm); the shortest and the longest run time, in seconds.
_MEDIAN, _SCATTER, _SHORTEST, _LONGEST = 1200.0, 1.4, 10.0, 86_400.0

#: Limits are multiples of the first number, in seconds, and at most the second times the run time.
_ROUND, _MOST_OVER = 900, 4.0

#: Largest share of a kind's nodes that one job has.
_LARGEST_SHARE = 0.25

#: How often the number of slots is doubled, on average, for each doubling of the nodes.
_DOUBLINGS = 0.36


@attrs.frozen
class _Size:
    """A shape without its number of slots, what a slot has, and how many slots fit on a node."""

    shape: str
    weight: int
    cores: int
    gpus: int
    per_node: int


def synthetic(
    resource_set: ResourceSet, number: int, seed: int = 1, load: float = 0.9
) -> list[TraceJob]:
    """*number* jobs for the cluster *resource_set*, in order of submission."""
    rng = random.Random(seed)
    inventory = Inventory.of(resource_set)
    kinds = [(t, idset.size(ranks)) for t, ranks in inventory.node_types.items() if t.root.ncores]
    sizes = {t: _sizes(t) for t, _ in kinds}
    types = [t for t, _ in kinds]
    weights = [count * t.root.ncores for t, count in kinds]
    nodes = dict(kinds)
    made: list[tuple[str, float, float]] = []
    core_seconds = gpu_seconds = 0.0
    for _ in range(number):
        (node_type,) = rng.choices(types, weights)
        of_type = sizes[node_type]
        (size,) = rng.choices(of_type, [s.weight for s in of_type])
        slots = _slots(rng, nodes[node_type], size.per_node)
        duration = rng.lognormvariate(math.log(_MEDIAN), _SCATTER)
        duration = round(min(max(duration, _SHORTEST), _LONGEST), 1)
        wanted = duration * rng.uniform(1.0, _MOST_OVER)
        limit = float(_ROUND * math.ceil(wanted / _ROUND))
        made.append((size.shape.format(slots), duration, limit))
        core_seconds += slots * size.cores * duration
        gpu_seconds += slots * size.gpus * duration
    cores = sum(t.root.ncores * count for t, count in kinds)
    gpus = sum(idset.size(t.root.gpus) * count for t, count in kinds)
    span = max(core_seconds / cores, gpu_seconds / gpus if gpus else 0.0) / load
    return in_order(
        TraceJob(f"job {i}", str(i), round(rng.random() * span, 1), duration, limit, shape)
        for i, (shape, duration, limit) in enumerate(made, 1)
    )


def _sizes(node_type: NodeType) -> list[_Size]:
    """What jobs ask of nodes of *node_type*."""
    cores, gpus = node_type.root.ncores, node_type.root.ngpus
    found = [_Size("slot={}/node{{x}}", 2, cores, gpus, 1)]
    if gpus and cores >= gpus:
        share = cores // gpus
        for each, weight in ((max(1, share // 4), 2), (max(1, share // 2), 4), (share, 6)):
            found.append(_Size(f"slot={{}}/[core={each};gpu=1]", weight, each, 1, gpus))
        if gpus > 1:
            shape = f"slot={{}}/[core={2 * share};gpu=2]"
            found.append(_Size(shape, 2, 2 * share, 2, gpus // 2))
        if gpus > 3:
            half = gpus // 2
            shape = f"slot={{}}/[core={half * share};gpu={half}]"
            found.append(_Size(shape, 1, half * share, half, 2))
    few = 2 if gpus else 8
    parts = sorted({1, max(1, cores // 16), max(1, cores // 6), max(1, cores // 3)})
    return found + [_Size(f"slot={{}}/core={n}", few, n, 0, cores // n) for n in parts]


def _slots(rng: random.Random, nodes: int, per_node: int) -> int:
    """A random number of slots: often one, mostly few, at most what a quarter of the nodes have."""
    most = max(1, int(nodes * _LARGEST_SHARE)) * per_node
    doublings = int(rng.expovariate(1.0) * _DOUBLINGS * math.log2(nodes + 1))
    return min(1 << doublings, most)
