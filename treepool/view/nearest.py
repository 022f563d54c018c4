"""The nearest shapes that would fit, for a request that no idle cluster could serve.

The search lowers counts, a single one if that is enough, until the cluster could serve the
request. A request that fits usually still fits with a smaller count, so the largest count is found
by bisection. Each shape returned has been tried and fits.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, Union

import attrs

from treepool.errors import InvalidCount, InvalidInput
from treepool.rfc import count
from treepool.rfc.shape import format_shape

#: Most vertices of a request for which the search runs.
MAX_VERTICES = 24

#: Most shapes returned.
MAX_SHAPES = 3

#: The order in which counts are raised again after all were lowered: the scarcest type first.
_ORDER = ("gpu", "core", "memory", "storage")

Resources = list[Any]

#: Whether a cluster could serve a resource list.
Oracle = Callable[[Resources], bool]

#: The position of a vertex: indexes from the root down.
_Path = tuple[int, ...]


@attrs.frozen
class Nearest:
    """A shape that fits, what differs in it, and the fraction that remains of the changed count."""

    shape: str
    change: str
    left: float


def nearest(resources: Resources, fits: Oracle) -> list[Nearest]:
    """Up to MAX_SHAPES shapes that fit and are near *resources*, which do not; nearest first."""
    paths = list(_paths(resources))
    if len(paths) > MAX_VERTICES:
        return []
    found = [one for path in paths for one in _changed(resources, path, fits)]
    if not found:
        found = list(_lowered(resources, paths, fits))
    found.sort(key=lambda one: -one.left)
    return found[:MAX_SHAPES]


def _changed(resources: Resources, path: _Path, fits: Oracle) -> Iterator[Nearest]:
    """Shapes that fit and change only the vertex at *path*: a lower count, or no locality."""
    vertex = _at(resources, path)
    name, old = vertex["type"], _least(vertex.get("count", 1))
    best = _largest(resources, path, old - 1, fits)
    if best:
        changed = _with_count(resources, path, best)
        text = _shown(name, best, vertex)
        yield Nearest(format_shape(changed), f"{text} instead of {old}", best / old)
        return
    without = _without(resources, path)
    if without is not None and fits(without):
        yield Nearest(format_shape(without), f"without {name}", 0.0)


def _lowered(resources: Resources, paths: list[_Path], fits: Oracle) -> Iterator[Nearest]:
    """A shape that fits with every count lowered to one, then each raised as far as possible."""
    lowest = resources
    for path in paths:
        lowest = _with_count(lowest, path, 1)
    if not fits(lowest):
        return
    names = {path: _at(resources, path)["type"] for path in paths}
    deep = sorted(paths, key=lambda p: (_place(names[p]), -len(p)))
    for path in deep:
        old = _least(_at(resources, path).get("count", 1))
        best = _largest(lowest, path, old, fits)
        lowest = _with_count(lowest, path, max(1, best))
    yield Nearest(format_shape(lowest), "several counts lower", 0.0)


def _largest(resources: Resources, path: _Path, most: int, fits: Oracle) -> int:
    """The largest count up to *most* with which the vertex at *path* fits; 0 if none does."""
    if most < 1 or not fits(_with_count(resources, path, 1)):
        return 0
    good, bad = 1, most + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(_with_count(resources, path, middle)):
            good = middle
        else:
            bad = middle
    return good


def _paths(resources: Resources, above: _Path = ()) -> Iterator[_Path]:
    for i, vertex in enumerate(resources):
        yield (*above, i)
        yield from _paths(vertex.get("with", []), (*above, i))


def _at(resources: Resources, path: _Path) -> Any:
    vertex = resources[path[0]]
    for i in path[1:]:
        vertex = vertex["with"][i]
    return vertex


def _with_count(resources: Resources, path: _Path, number: int) -> Resources:
    changed: Resources = json.loads(json.dumps(resources))
    _at(changed, path)["count"] = number
    return changed


def _without(resources: Resources, path: _Path) -> Union[Resources, None]:
    """*resources* without the vertex at *path*; the vertices below it move up.

    None for a vertex that must stay: a slot, or an amount without siblings.
    """
    vertex = _at(resources, path)
    if vertex["type"] == "slot" or (vertex["type"] not in _ORDER and "with" not in vertex):
        return None
    changed: Resources = json.loads(json.dumps(resources))
    siblings = _at(changed, path[:-1])["with"] if len(path) > 1 else changed
    siblings[path[-1] : path[-1] + 1] = vertex.get("with", [])
    return changed if siblings else None


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _least(spec: Any) -> int:
    try:
        return count.parse(spec).minimum
    except InvalidCount:
        return 1


def _shown(name: str, number: int, vertex: Any) -> str:
    unit = f" {vertex['unit']}" if isinstance(vertex.get("unit"), str) else ""
    return f"{name}={number}{unit}"


def oracle(ask: Callable[[Resources], object]) -> Oracle:
    """The oracle that treats any error of *ask* as a no."""

    def fits(resources: Resources) -> bool:
        try:
            ask(resources)
        except (InvalidInput, OSError):
            return False
        return True

    return fits
