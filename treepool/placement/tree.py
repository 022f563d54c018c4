"""Locality trees: the compiled form of an RFC 49 topo on a kind of node.

A domain is two bitmasks, its cores and its GPUs. A NodeType is one tree of domains, shared by all
ranks that have the same topo and the same R_lite children.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional

import attrs

from treepool.rfc import idset
from treepool.rfc.scheduling import RESERVED

if TYPE_CHECKING:
    from treepool.placement.request import Need

#: Name of the root domain of every tree.
NODE = "node"


@attrs.frozen(eq=False)
class Domain:
    """One instance of a locality, or the node itself (the root, named "node").

    ``cores`` and ``gpus`` are bitmasks of the ids here that R has, nested domains included;
    ``own_cores`` and ``own_gpus`` those that no nested domain holds. ``whole`` is False when the
    topo lists ids here that R does not have: the enclosing instance kept them. ``children`` are in
    order of their lowest id.
    """

    name: str
    cores: int
    gpus: int
    own_cores: int
    own_gpus: int
    whole: bool
    children: tuple[Domain, ...] = ()

    def walk(self) -> Iterator[Domain]:
        """This domain and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen(eq=False)
class NodeType:
    """A kind of node: its tree, and the RFC 49 topo that an allocation's key gives for it.

    ``levels`` remembers fit.idle_levels() per need.
    """

    root: Domain
    topo: Mapping[str, Any]
    levels: dict[Need, dict[Domain, int]] = attrs.field(factory=dict)

    def domains(self, name: str) -> tuple[Domain, ...]:
        """Every domain of locality *name*, in order of the tree."""
        return tuple(d for d in self.root.walk() if d.name == name and d is not self.root)

    @property
    def localities(self) -> frozenset[str]:
        """The names of the localities of this tree."""
        return frozenset(d.name for d in self.root.walk() if d is not self.root)


def compile_topo(topo: Optional[Mapping[str, Any]], cores: int, gpus: int) -> NodeType:
    """The NodeType of a valid RFC 49 *topo* on a node of which R has *cores* and *gpus*.

    Without a topo the node is flat: a root and nothing below. Ids that R has and the topo does
    not mention belong to the root; ids of the topo that R does not have are left out.
    """
    children = () if topo is None else _children(topo, cores, gpus)
    root = Domain(NODE, cores, gpus, *_own(cores, gpus, children), True, children)
    return NodeType(root, flat_topo(cores, gpus) if topo is None else topo)


def flat_topo(cores: int, gpus: int) -> dict[str, Any]:
    """The RFC 49 topo of a node without localities."""
    topo = {"cores": idset.encode(cores)}
    if gpus:
        topo["gpus"] = idset.encode(gpus)
    return topo


def canonical(topo: Mapping[str, Any]) -> str:
    """Text that is equal for equal topos."""
    return json.dumps(topo, sort_keys=True, separators=(",", ":"))


def _children(topo: Mapping[str, Any], cores: int, gpus: int) -> tuple[Domain, ...]:
    found = [
        _domain(name, item, cores, gpus)
        for name, items in topo.items()
        if name not in RESERVED
        for item in items
    ]
    # A domain of which R has nothing is not ours to place on.
    found = [d for d in found if d.cores or d.gpus]
    return tuple(sorted(found, key=_lowest_id))


def _domain(name: str, topo: Mapping[str, Any], cores: int, gpus: int) -> Domain:
    listed_cores, listed_gpus = _listed(topo)
    children = _children(topo, cores, gpus)
    cores &= listed_cores
    gpus &= listed_gpus
    whole = cores == listed_cores and gpus == listed_gpus
    return Domain(name, cores, gpus, *_own(cores, gpus, children), whole, children)


def _listed(topo: Mapping[str, Any]) -> tuple[int, int]:
    """All cores and GPUs that *topo* mentions, nested domains included."""
    cores = idset.decode(topo.get("cores", ""))
    gpus = idset.decode(topo.get("gpus", ""))
    for name, items in topo.items():
        if name not in RESERVED:
            for item in items:
                inner_cores, inner_gpus = _listed(item)
                cores |= inner_cores
                gpus |= inner_gpus
    return cores, gpus


def _own(cores: int, gpus: int, children: tuple[Domain, ...]) -> tuple[int, int]:
    for child in children:
        cores &= ~child.cores
        gpus &= ~child.gpus
    return cores, gpus


def _lowest_id(domain: Domain) -> tuple[int, int, int, int]:
    """Order of siblings: by lowest core, those without cores last, then by lowest GPU."""
    return (
        not domain.cores,
        idset.lowest(domain.cores) if domain.cores else 0,
        not domain.gpus,
        idset.lowest(domain.gpus) if domain.gpus else 0,
    )
