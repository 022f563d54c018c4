"""Usable GPUs: free GPUs with their fair share of free cores beside them; others are stranded.

A free GPU without free cores near it is stranded: few jobs can use it, and those that do straddle
domains. The measure is a pure function of what is free, so it needs no history of requests.
"""

from __future__ import annotations

from typing import Iterator

from treepool.placement.effort import remembered
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.rfc import idset

#: Parts of a GPU: usable GPUs are counted in these.
PER_GPU = 1024

#: Cores and GPUs (bitmasks) that belong together.
_Place = tuple[int, int]

#: Places in which a GPU has the same fair share of the cores, by that share.
_Places = dict[int, tuple[_Place, ...]]


def usable(state: NodeState) -> int:
    """The usable GPUs on a node in *state*, in parts of PER_GPU; the state remembers it."""
    if state.usable < 0:
        state.usable = usable_of(state.type, state.cores, state.gpus)
    return state.usable


def usable_of(node_type: NodeType, cores: int, gpus: int) -> int:
    """The usable GPUs on a node of *node_type* where *cores* and *gpus* are free."""
    found = 0
    for fair, places in _places(node_type).items():
        # The cores that the free GPUs can use, if each uses its fair share.
        used = (min(idset.size(g & gpus) * fair, idset.size(c & cores)) for c, g in places)
        found += sum(used) * PER_GPU // fair
    return found


def stranded(node_type: NodeType, cores: int, gpus: int) -> int:
    """The free GPUs there that are not usable, in parts of PER_GPU."""
    return idset.size(gpus & node_type.root.open_gpus) * PER_GPU - usable_of(node_type, cores, gpus)


def _places(node_type: NodeType) -> _Places:
    """The smallest domains in which each GPU has cores, with those GPUs.

    Slices of GPUs are not counted: they are only for requests that name them.
    """
    return remembered(node_type.places, 1, None, lambda: _found(node_type.root))


def _found(root: Domain) -> _Places:
    among = root.open_gpus

    def places(domain: Domain) -> Iterator[_Place]:
        inner = [child for child in domain.children if child.gpus & among]
        cores, own = domain.cores, domain.gpus & among
        for child in inner:
            cores &= ~child.cores
            own &= ~child.gpus
        if not all(child.cores for child in inner) or (own and not cores):
            yield domain.cores, domain.gpus & among  # some have no cores of their own: all share
            return
        for child in inner:
            yield from places(child)
        if own:
            yield cores, own

    found: dict[int, list[_Place]] = {}
    for cores, gpus in places(root):
        share = min(idset.size(cores) // idset.size(gpus), root.ncores // root.ngpus)
        found.setdefault(max(1, share), []).append((cores, gpus))
    return {fair: tuple(some) for fair, some in found.items()}
