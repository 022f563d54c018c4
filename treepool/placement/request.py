"""Requests: what a jobspec asks for, in the terms of placement.

RFC 14's vertices are checked here against DESIGN's table of forms, once, at submission. What no
form covers is an error that names the vertex; nothing is ignored.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.rfc.constraint import Constraint
from treepool.rfc.count import Count
from treepool.rfc.jobspec import Jobspec, Vertex

#: Values of the locality option, see DESIGN "Which node".
LOCALITIES = ("preferred", "required", "none")

#: Resource types with a meaning of their own; every other type is the name of a locality.
_RESOURCES = ("core", "gpu")
_NOT_YET = ("memory", "storage")

_ONE = Count(1, 1)


@attrs.frozen(cache_hash=True)
class DomainNeed:
    """``count`` whole, entirely free domains of locality ``name``, each with at least the rest."""

    name: str
    count: int
    min_cores: int = 0
    min_gpus: int = 0


@attrs.frozen(cache_hash=True)
class Need:
    """What one slot takes from one node: cores and GPUs from one domain, or whole domains."""

    cores: int = 0
    gpus: int = 0
    domain: Optional[DomainNeed] = None


@attrs.frozen(eq=False)
class Ask:
    """What a request wants of a single node; the key under which states remember their fit.

    Asks are interned (see ``ask_of``), so equal ones are one object and hash by identity.
    ``slots`` is how many slots one node may host: with ``fill`` up to the largest, else one of
    the valid counts. ``whole`` takes the entire node, which must be idle.
    """

    need: Need
    slots: Count
    fill: bool
    whole: bool
    locality: str


@attrs.frozen
class Request:
    """A job's resource request, ready for Pool.alloc; make it with Pool.parse_resource_request.

    ``nodes`` is None when slots may fill any nodes; else the number of distinct nodes, per slot
    if ``spans`` (slot above node), in all otherwise. ``slots`` is the number of slots, per node
    when a node vertex stands above the slot. ``duration`` is in seconds, 0 for unlimited.
    """

    ask: Ask
    nodes: Optional[Count]
    slots: Count
    spans: bool = False
    duration: float = 0.0
    constraint: Optional[Constraint] = None


_asks: dict[tuple[Need, Count, bool, bool, str], Ask] = {}


def ask_of(need: Need, slots: Count, fill: bool, whole: bool, locality: str) -> Ask:
    """The one Ask with these values."""
    key = (need, slots, fill, whole, locality)
    ask = _asks.get(key)
    if ask is None:
        if len(_asks) >= 4096:  # forgetting only means computing fits again
            _asks.clear()
        ask = _asks[key] = Ask(*key)
    return ask


def request_of(jobspec: Jobspec, localities: Sequence[str], locality: str) -> Request:
    """The Request of *jobspec* for a pool whose trees have these *localities*.

    *locality* is the pool's mode, which the jobspec may override. Raises InvalidJobspec with the
    JSON pointer of the vertex that no form of DESIGN's table covers.
    """
    mode = _options(jobspec.options).get("locality", locality)
    slot, node = _above(jobspec.resources, localities)
    below, spanned = _below(slot, localities)
    if node is not None and spanned is not None:
        raise _refused(spanned, "a second node vertex")
    if node is None and spanned is None:
        need, nodes = _need(slot, below, localities), None
    elif spanned is not None:
        need, nodes = _spanned_need(spanned, localities), spanned.count
    else:
        assert node is not None
        need, nodes = _need(slot, below, localities), node.count
    spans = spanned is not None
    whole = _whole(node) or (spanned is not None and (_whole(spanned) or not spanned.children))
    ask = ask_of(need, _ONE if spans else slot.count, nodes is None, whole, mode)
    return Request(ask, nodes, slot.count, spans, jobspec.duration, jobspec.constraint)


def _options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    place = "/attributes/system/treepool"
    for name, value in options.items():
        if name != "locality":
            raise InvalidJobspec(f"{place}: unknown option {name[:40]!r}, known: locality")
        if value not in LOCALITIES:
            known = ", ".join(LOCALITIES)
            raise InvalidJobspec(f"{place}/locality: must be one of {known}")
    return options


def _above(
    resources: Sequence[Vertex], localities: Sequence[str]
) -> tuple[Vertex, Optional[Vertex]]:
    """The slot vertex, and the node vertex above it if there is one."""
    node = None
    level = resources
    while True:
        vertex = level[0]
        if len(level) > 1:
            raise _refused(level[1], "only one vertex can stand above or beside the slot, a second")
        if vertex.type == "slot":
            return _checked_slot(vertex), node
        _check_known(vertex, localities)
        if vertex.type != "node":
            if vertex.type in _RESOURCES + _NOT_YET:
                raise _refused(vertex, "there is no slot above")
            raise _refused(vertex, "localities above the slot are not supported yet:")
        if node is not None:
            raise _refused(vertex, "a second node vertex")
        node = vertex
        if not vertex.children:
            raise _refused(vertex, "there is no slot below")
        level = vertex.children


def _checked_slot(slot: Vertex) -> Vertex:
    _check_plain(slot)
    if slot.exclusive is False:
        raise _refused(slot, "slots are never shared, so exclusive cannot be false on")
    if not slot.children:
        raise _refused(slot, "nothing is asked for below")
    return slot


def _below(slot: Vertex, localities: Sequence[str]) -> tuple[tuple[Vertex, ...], Optional[Vertex]]:
    """The vertices below *slot*, and the node vertex among them if the slot spans nodes."""
    for vertex in slot.children:
        if vertex.type == "node":
            if len(slot.children) > 1:
                raise _refused(vertex, "nothing can stand beside")
            return (), vertex
    return slot.children, None


def _spanned_need(node: Vertex, localities: Sequence[str]) -> Need:
    _check_plain(node)
    if not node.children:
        if node.exclusive is False:
            raise _refused(node, "nothing is asked for below")
        return Need()
    return _need(node, node.children, localities)


def _need(parent: Vertex, vertices: Sequence[Vertex], localities: Sequence[str]) -> Need:
    """What the *vertices* below a slot or a spanned node ask of one node."""
    amounts: dict[str, int] = {}
    domains: list[DomainNeed] = []
    for vertex in vertices:
        if vertex.type in _RESOURCES:
            if vertex.type in amounts:
                raise _refused(vertex, f"a second {vertex.type} vertex below {parent.type}:")
            amounts[vertex.type] = _amount(vertex)
        else:
            _check_known(vertex, localities)
            if vertex.type == "node":
                raise _refused(vertex, "only directly below slot, and alone, can stand a")
            domains.append(_domain_need(vertex, localities))
    cores, gpus = amounts.get("core", 0), amounts.get("gpu", 0)
    if domains and (len(domains) > 1 or amounts):
        place = vertices[-1]
        raise _refused(place, "a locality beside other vertices is not supported yet:")
    if gpus and not cores:
        raise _refused(vertices[0], "gpu without core is not supported yet:")
    return Need(cores, gpus, domains[0] if domains else None)


def _domain_need(vertex: Vertex, localities: Sequence[str]) -> DomainNeed:
    exclusive = vertex.exclusive
    if exclusive is None:  # RFC 14: what a slot holds is exclusive unless the jobspec says more
        exclusive = not vertex.children
    if not exclusive:
        raise _refused(vertex, "a locality that is not exclusive is not supported yet:")
    if not vertex.count.fixed:
        raise _refused(vertex, "a range on a locality is not supported yet:")
    minimum = _need(vertex, vertex.children, localities) if vertex.children else Need()
    if minimum.domain is not None:
        raise _refused(vertex.children[0], "nested localities are not supported yet:")
    return DomainNeed(vertex.type, vertex.count.minimum, minimum.cores, minimum.gpus)


def _amount(vertex: Vertex) -> int:
    """The number of cores or GPUs; ranges take their minimum."""
    if vertex.children:
        raise _refused(vertex.children[0], f"nothing can stand below {vertex.type}:")
    if vertex.exclusive is False:
        raise _refused(vertex, "cores and GPUs are never shared, so exclusive cannot be false on")
    _check_plain(vertex)
    return vertex.count.minimum


def _check_known(vertex: Vertex, localities: Sequence[str]) -> None:
    known = ["node", "slot", *_RESOURCES, *sorted(localities)]
    if vertex.type == "slot":
        raise _refused(vertex, "a second slot vertex")
    if vertex.type in _NOT_YET:
        raise _refused(vertex, "not supported yet:")
    if vertex.type not in known:
        raise _refused(vertex, "unknown resource type", f"; this pool knows {', '.join(known)}")
    _check_plain(vertex)


def _check_plain(vertex: Vertex) -> None:
    """Refuse the keys of RFC 14 that have no meaning on *vertex*."""
    if vertex.id is not None:
        raise _refused(vertex, "resources cannot be asked for by id:")
    if vertex.unit is not None:
        raise _refused(vertex, "a unit has no meaning on")


def _whole(vertex: Optional[Vertex]) -> bool:
    return vertex is not None and vertex.exclusive is True


def _refused(vertex: Vertex, why: str, after: str = "") -> InvalidJobspec:
    return InvalidJobspec(f"{vertex.pointer}: {why} {_shown(vertex.type)}{after}")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:37] + "...")
