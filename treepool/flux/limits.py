"""The limits of a site on jobs (RFC 33, flux-config-policy(5)), as the job manager judges them.

Its plugins ``limit-job-size`` and ``limit-duration`` refuse a job at submission, before the
scheduler hears of it. Here they are followed for those who ask beforehand, in the words of the
plugins (flux-core 0.86 to 0.88). ``limit-job-size`` counts the vertices of the jobspec, not what
the job would get: whole nodes have as many cores as their slots ask for.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from flux.util import parse_fsd

from treepool.rfc.queues import Queues

#: Makes the size of a job unlimited in the configuration.
_UNLIMITED = -1

#: What is limited, in the order of the checks, and the resource that it counts.
_SIZES = (("nnodes", "node"), ("ncores", "core"), ("ngpus", "gpu"))

#: Where a table ``policy`` limits that, and the bounds that are there, with what a job does.
_SIZES_AT = "limits", "job-size"
_BOUNDS = {"max": "exceeds", "min": "is under"}


def refusal(
    spec: Mapping[str, Any], queue: str, configured: Callable[[str, Any], Any]
) -> Optional[str]:
    """Why the job manager would refuse the valid jobspec *spec* in *queue*; None if it would not.

    *configured* returns the value of a key of Flux's configuration, or a default. Whether a plugin
    was taken out while the instance runs is not known.
    """
    queues = Queues.of(configured)
    removed = [entry.get("remove") for entry in configured("job-manager.plugins", ())]
    found: list[Iterator[str]] = []
    sizes = {bound: queues.policy_in(queue, *_SIZES_AT, bound) for bound in _BOUNDS}
    counts = queues.tables or any(sizes.values())
    if counts and not _matches(removed, ".limit-job-size"):
        found.append(_of_size(spec["resources"], sizes))
    if not _matches(removed, ".limit-duration"):
        limit = queues.policy_in(queue, "limits").get("duration")
        found.append(_of_duration(spec["attributes"]["system"]["duration"], limit))
    of = f" for queue {queue}" if queue else ""
    for problems in found:
        try:
            for problem in problems:
                return problem + of
        except _Uncountable as e:
            return str(e)
    return None


class _Uncountable(Exception):
    """The plugin fails on this jobspec, and refuses it."""


def _matches(removed: Sequence[Any], plugin: str) -> bool:
    """Whether the configuration takes out *plugin*, which no pattern without its dot means."""
    names = [name for name in removed if isinstance(name, str) and name.startswith(".")]
    return any(fnmatchcase(plugin, name) for name in names)


def _of_size(resources: Sequence[Any], limits: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    counts = {"node": 0, "slot": 0, "core": 0, "gpu": 0}
    _count(resources, counts, 0, 1)
    if not counts["core"]:
        raise _Uncountable("Unable to determine slot size")
    slots = counts["slot"] * (counts["node"] or 1)
    counts["core"] *= slots
    counts["gpu"] *= slots
    for bound, words in _BOUNDS.items():
        for name, kind in _SIZES:
            limit, number = limits[bound].get(name, _UNLIMITED), counts[kind]
            if limit != _UNLIMITED and (number > limit if bound == "max" else number < limit):
                yield f"requested {name} ({number}) {words} policy limit of {limit}"


def _count(vertices: Sequence[Any], counts: dict[str, int], level: int, above: int) -> None:
    """Note the counts of *vertices*, of which there are so many groups *above*."""
    for vertex in vertices:
        kind, number = vertex["type"], vertex["count"]
        if not isinstance(number, int):
            raise _Uncountable(f"level {level}: Expected integer")
        if kind in counts:
            counts[kind] = above * number if kind == "node" else number
        _count(vertex.get("with", ()), counts, level + 1, above * number)


def _of_duration(duration: float, text: Any) -> Iterator[str]:
    limit = 0.0 if text is None else parse_fsd(str(text))
    if limit and (duration > limit or not duration):
        asked = _shown(duration) if duration else "unlimited"
        yield f"requested duration ({asked}) exceeds policy limit of {_shown(limit)}"


def _shown(seconds: float) -> str:
    """*seconds* as libflux shows them with two digits."""
    if seconds == float("inf"):
        return "infinity"
    units = (0.1, 0.001, "ms"), (60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")
    found = ((seconds / size, unit) for end, size, unit in units if seconds < end)
    number, unit = next(found, (seconds / 86400, "d"))
    return f"{number:.2g}{unit}"
