"""The mix of past jobs: the shapes that asked for the most GPUs, and how often each was submitted.

Jobs that ask for the same are of one shape, in whatever words: ``shape_of`` writes it. Shapes
without GPUs say nothing about what strands GPUs. Those that this pool does not understand, or that
need a search, are left out: the mix is looked at for each node, and jobs may come from anyone.
"""

from __future__ import annotations

from typing import Any, Generator, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.placement.choose.mix import gpus_of, mix_of, smallest_domains
from treepool.placement.choose.serve import is_searched
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.request.need import Ask
from treepool.placement.request.vertices import request_of
from treepool.rfc import jobspec
from treepool.rfc.jobspec import Vertex
from treepool.rfc.mix import Kind
from treepool.rfc.shape import format_shape, parse_shape
from treepool.rfc.shapetoken import DEFAULT_LABEL

#: Most shapes of a mix of past jobs, and the longest, in characters.
MAX_SHAPES, MAX_LENGTH = 32, 1000


@attrs.frozen
class PastMix:
    """The ``kinds`` of jobs, and their ``share`` of all GPUs that past jobs asked for, 0 to 1.

    ``shapes`` is how many different shapes asked for GPUs.
    """

    kinds: tuple[Kind, ...]
    share: float
    shapes: int

    @property
    def text(self) -> str:
        """The kinds as the value of option ``mix``; "" if there is none."""
        return ",".join(f"{kind.weight:.0f}*{kind.shape}" for kind in self.kinds)

    def __str__(self) -> str:
        share = f"{100 * self.share:.0f} % of the GPUs that they asked for"
        return f"{len(self.kinds)} of {self.shapes} shapes, {share}"


def shape_of(resources: Sequence[Any]) -> str:
    """The one shape of all jobs that ask for the same as *resources*; raises InvalidJobspec."""
    spec = jobspec.read(jobspec.from_resources(resources))
    return format_shape([_plain(vertex) for vertex in spec.resources])


def _plain(vertex: Vertex) -> dict[str, Any]:
    """*vertex* without names, and its children in the order of their types."""
    found: dict[str, Any] = {"type": vertex.type, "count": vertex.count.spec()}
    if vertex.type == "slot":
        found["label"] = DEFAULT_LABEL
    if vertex.exclusive:
        found["exclusive"] = True
    if vertex.unit is not None:
        found["unit"] = vertex.unit
    if vertex.children:
        children = map(_plain, vertex.children)
        found["with"] = sorted(children, key=lambda child: (child["type"], str(child)))
    return found


def past_mix(counts: Mapping[str, int], inventory: Inventory) -> Generator[None, None, PastMix]:
    """The mix of jobs of which *counts* says how often each shape was submitted.

    Works in steps of at most some milliseconds, and yields after each.
    """
    above = smallest_domains(inventory.fabric)
    asked: dict[str, int] = {}
    for shape, number in counts.items():
        ask = _clear_ask(shape, inventory)
        if ask is not None:
            types = () if ask.exact else inventory.node_types
            for gpus in gpus_of(shape, types, dict(above)):
                asked[shape] = max(asked.get(shape, 0), number * gpus)
                yield
        yield
    ranked = sorted(filter(asked.get, asked), key=lambda shape: (-asked[shape], shape))
    chosen = ranked[:MAX_SHAPES]
    share = sum(map(asked.__getitem__, chosen)) / (sum(asked.values()) or 1)
    kinds = tuple(Kind(shape, float(counts[shape])) for shape in chosen)
    for node_type in inventory.node_types:  # otherwise the first job would wait for it
        mix_of(kinds, above).wants_on(node_type)
        yield
    return PastMix(kinds, share, len(ranked))


def _clear_ask(shape: str, inventory: Inventory) -> Optional[Ask]:
    """What *shape* asks of a node, if the pool understands it and finds its place by no search."""
    if len(shape) > MAX_LENGTH:
        return None
    try:
        spec = jobspec.read(jobspec.from_resources(parse_shape(shape)))
        request = request_of(spec, inventory.known[0], "preferred", inventory.known[1])
    except InvalidJobspec:
        return None
    return None if is_searched(request.ask, inventory) else request.ask
