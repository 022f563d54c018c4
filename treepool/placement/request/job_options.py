"""Job options: which there are, what each may say and asks for, and several of them together.

They are the keys of ``attributes.system.treepool`` of a jobspec.

==================  ==============================================================================
``locality``        ``preferred``, ``required`` or ``none``: see doc/design.md, "On a node"
``level``           the name of a locality: each slot sits in one domain of it
``topology_policy`` Kubernetes' names for both: ``none``, ``best-effort``, ``restricted``,
                    ``single-numa-node``
``topology_scope``  ``slot`` (the default) or ``node``: with a level, all slots on a node sit in
                    one domain
``same_numa``       ``preferred`` or ``required``: the slot's cores in one NUMA domain
``gpu_link``        minimum GB/s between any two GPUs of a slot, or its type: ``nvlink``, ..., or
                    ``fast`` for any of these types
``gpu_memory``      minimum GiB of each GPU
``unified_memory``  true: only nodes whose CPUs and GPUs share one memory
``allow_cxl``       true: CXL memory counts for ``memory``
``same``            a family of properties, such as ``driver`` for ``driver:550``, ``driver:560``:
                    all nodes have the same one. ``driver:preferred``: if possible
``within``          the name of a locality above the nodes: all nodes are in one domain of it;
                    with a number, as in ``switch:2``, in so many domains at most; with
                    ``switch:2:balanced``, in equal parts, 6 and 6 rather than 10 and 2
``segment``         such a name and a number, as in ``nvl:16``: the nodes come in groups of so
                    many, each group in one domain; several groups may be in the same domain.
                    ``block:16,switch:4``: and each of these in groups of four
``wait``            seconds: until the job has waited so long, what it prefers is required: local
                    slots, and above the nodes one domain of the smallest kind that could serve it
``switches``        a number: as ``within`` for the lowest locality above the nodes. With ``wait``,
                    only until the job has waited so long (Slurm's ``--switches``)
``cores``           ``share``: the GPUs of each slot come with their fair share of cores, whatever
                    number of cores the slot asks for
``window``          the name of a window of the instance: the job starts in it, on its nodes, and
                    ends with it
==================  ==============================================================================

The older words ``prefer`` and ``require`` remain valid for ``preferred`` and ``required``.

The first five options are spellings of two things: how hard locality is asked for (the mode), and
which domain each slot, or all slots on a node, must sit in (the level and its scope). ``SAYS`` is
the table of what each value says of them. The options that a job gives must agree.

The file has more than 300 lines because the table of options and the checks of their contradictions
are one rule.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, Callable, Mapping, Optional, Sequence

import attrs

from treepool.errors import InvalidJobspec
from treepool.placement.names import LOCALITIES
from treepool.rfc.findings import Findings, number, pointer_to, shown
from treepool.rfc.links import ANY_FAST, FAST
from treepool.rfc.quote import did_you_mean
from treepool.rfc.windows import NAME

#: Older words for values, and what they are called now.
OLD_WORDS = {"prefer": "preferred", "require": "required"}


@attrs.frozen
class Says:
    """What the value of an option says of where slots sit, where it says something.

    ``modes`` are the modes that it allows. ``level`` is the locality that each slot must sit in; if
    the pool does not have it, ``else_level`` is. ``whole_node``: all slots on a node, not each.
    """

    modes: Sequence[str] = LOCALITIES
    level: Optional[str] = None
    else_level: Optional[str] = None
    whole_node: bool = False

    def contradicts(self, other: Says) -> bool:
        """Whether a job cannot have both."""
        levels = {self.level, other.level} - {None}
        return len(levels) > 1 or not set(self.modes) & set(other.modes)


#: One NUMA domain. Without a numa locality in the key, each socket counts as one NUMA domain;
#: without sockets, the node does.
_ONE_NUMA = Says(level="numa", else_level="socket")

#: What each value of an option says; any value of ``level`` is a level.
SAYS: Mapping[str, Mapping[str, Says]] = {
    "locality": {mode: Says(modes=(mode,)) for mode in LOCALITIES},
    "level": {},
    "topology_policy": {
        "none": Says(modes=("none",)),
        "best-effort": Says(modes=("preferred",)),
        "restricted": Says(modes=("required",)),
        "single-numa-node": attrs.evolve(_ONE_NUMA, modes=("required",)),
    },
    "topology_scope": {"slot": Says(), "node": Says(whole_node=True)},
    "same_numa": {"preferred": Says(modes=("preferred", "required")), "required": _ONE_NUMA},
}

#: What a job must ask for, if one of these options is to say anything.
SPEAKS_OF = {"cores": "gpu", "gpu_link": "gpu", "gpu_memory": "gpu", "allow_cxl": "memory"}

#: What follows the number in ``within`` if the domains are to have equal parts.
BALANCED = ":balanced"

#: The property that ``unified_memory`` asks for; ``treepool encode --properties`` writes it.
UNIFIED = "unified-memory"

_PLACE = "/attributes/system/treepool"

#: The largest values accepted: 1,000 times the hardware of today.
_MAX_GBPS, _MAX_GIB = 1_000_000, 1 << 20

#: The longest wait in seconds: 31 years.
_MAX_WAIT = 1e9

#: Who waits for locality wants it.
_WAITS = Says(modes=("preferred", "required"))


@attrs.frozen
class Same:
    """All nodes must share one property that begins with ``family`` and a colon.

    If this is not ``required``, any nodes may be used when no such nodes can serve the request.
    """

    family: str
    required: bool = True


@attrs.frozen(cache_hash=True)
class Within:
    """All nodes must be in ``domains`` domains of ``locality`` at most.

    No locality means the domains that are directly in the pool. If they are ``balanced``, the
    numbers of nodes in any two of these differ by one at most.
    """

    locality: str
    domains: int = 1
    balanced: bool = False


@attrs.frozen
class Segment:
    """Groups of ``nodes`` nodes, each in one domain of ``locality``."""

    locality: str
    nodes: int


@attrs.frozen
class Wait:
    """For ``seconds`` a job waits for a place as close as it prefers, and that is ``within``."""

    seconds: float
    within: Optional[Within] = None


@attrs.frozen
class JobOptions:
    """What a job's options ask for; see the module's docstring. ``gpu_memory`` is in bytes."""

    locality: str
    level: Optional[str] = None
    whole_node: bool = False
    #: Whether the job itself prefers or requires locality, not the pool alone.
    says_locality: bool = False
    gpu_gbps: float = 0.0
    gpu_link_type: str = ""
    gpu_memory: int = 0
    unified_memory: bool = False
    allow_cxl: bool = False
    #: Whether GPUs bring their fair share of cores, in place of those asked for.
    share_cores: bool = False
    same: Optional[Same] = None
    #: Only one of these, and of ``wait``, allows several domains.
    within: tuple[Within, ...] = ()
    #: From the highest locality down; not together with several domains.
    segments: tuple[Segment, ...] = ()
    wait: Optional[Wait] = None

    @property
    def several(self) -> Optional[Within]:
        """The limit that allows several domains, if there is one."""
        for_now = self.wait.within if self.wait else None
        return next((one for one in (*self.within, for_now) if one and one.domains > 1), None)


def read(
    options: Mapping[str, Any],
    localities: Sequence[str],
    locality: str,
    above: Sequence[str] = (),
) -> JobOptions:
    """What *options* ask for, on a pool that has *localities* and the mode *locality*.

    *above* are the localities above the nodes.
    Raises InvalidJobspec with the JSON pointer of the option.
    """
    for name, value in options.items():
        check(name, value)
    mode, says_locality, level, whole_node = _placing(options, localities, locality)
    link = options.get("gpu_link", 0)
    within, for_now = _withins(options, above)
    segments = _segments(options["segment"], above) if "segment" in options else ()
    found = JobOptions(
        locality=mode,
        level=level,
        whole_node=whole_node,
        says_locality=says_locality,
        gpu_gbps=0.0 if isinstance(link, str) else float(link),
        gpu_link_type=link if isinstance(link, str) else "",
        gpu_memory=int(options.get("gpu_memory", 0)) << 30,
        unified_memory=options.get("unified_memory", False),
        allow_cxl=options.get("allow_cxl", False),
        share_cores="cores" in options,
        same=_same(options["same"]) if "same" in options else None,
        within=within,
        segments=segments,
        wait=Wait(float(options["wait"]), for_now) if "wait" in options else None,
    )
    if segments and found.several is not None:
        # There is no rule that finds segments inside of several domains.
        name = "switches" if options.get("switches") == found.several.domains else "within"
        raise InvalidJobspec(
            f"{_PLACE}/segment: {shown(options['segment'])} does not go with"
            f" {name}={shown(options[name])}: segments may be limited to one domain only"
        )
    return found


def _withins(
    options: Mapping[str, Any], above: Sequence[str]
) -> tuple[tuple[Within, ...], Optional[Within]]:
    """What ``within`` and ``switches`` ask for; and what is asked for until the wait is over.

    Of two limits of one locality the smaller one says both.
    """
    found: tuple[Within, ...] = ()
    if "within" in options:
        text = options["within"]
        plain = text[: -len(BALANCED)] if text.endswith(BALANCED) else text
        name, number = (text, 1) if text in above else numbered(plain)
        start, _, rest = name.partition(":")
        if start in above and name not in above:
            problem = "is not a number of domains, such as 3 or 3:balanced"
            raise InvalidJobspec(f"{_PLACE}/within: {shown(rest)} {problem}")
        balanced = number > 1 and plain != text
        found = (Within(_above("within", name, above), number, balanced),)
    if "switches" not in options:
        return found, None
    if not above:
        raise InvalidJobspec(f"{_PLACE}/switches: there are no localities above the nodes")
    switches = Within(above[-1], options["switches"])
    if found and found[0].locality == switches.locality:
        fewer = min(switches.domains, found[0].domains)
        switches = attrs.evolve(found[0], domains=fewer, balanced=found[0].balanced and fewer > 1)
        return ((switches,), None) if "wait" not in options else (found, switches)
    if switches.domains > 1 and any(one.domains > 1 for one in found):
        raise InvalidJobspec(
            f"{_PLACE}/switches: {switches.domains} and within={shown(options['within'])}: only one"
            " of two localities may have several domains"
        )
    return ((*found, switches), None) if "wait" not in options else (found, switches)


def numbered(text: str) -> tuple[str, int]:
    """The locality in *text* and the number behind it; 1 if there is none."""
    match = re.fullmatch("(.+):([1-9][0-9]{0,8})", text, re.DOTALL)
    return (match[1], int(match[2])) if match else (text, 1)


def named_above(options: Mapping[str, Any]) -> list[str]:
    """The localities above the nodes that *options* name, whatever there are."""
    within, segment = (str(options.get(name, "")) for name in ("within", "segment"))
    parts = [within.replace(BALANCED, ""), *segment.split(",")]
    return list(dict.fromkeys(numbered(part)[0] for part in parts if part))


def _above(option: str, name: str, above: Sequence[str]) -> str:
    """*name*, which is one of the localities *above* the nodes."""
    if name in above:
        return name
    known = ", ".join(above) or "none"
    hint = did_you_mean(name, list(above))
    raise InvalidJobspec(
        f"{_PLACE}/{option}: {shown(name)} is not a locality above the nodes{hint};"
        f" there are {known}"
    )


def _segments(text: str, above: Sequence[str]) -> tuple[Segment, ...]:
    """The segments in *text*, those of the highest locality first."""
    parts = map(numbered, text.split(","))
    found = [Segment(_above("segment", name, above), nodes) for name, nodes in parts]
    found.sort(key=lambda segment: above.index(segment.locality))
    for outer, inner in zip(found, found[1:]):
        problem = ""
        if outer.locality == inner.locality:
            problem = f"{shown(inner.locality)} is named twice"
        elif outer.nodes % inner.nodes:
            problem = f"groups of {inner.nodes} nodes do not divide those of {outer.nodes}"
        if problem:
            raise InvalidJobspec(f"{_PLACE}/segment: {shown(text)}: {problem}")
    return tuple(found)


def check(name: str, value: object) -> None:
    """Raise InvalidJobspec if there is no option *name*, or if *value* is never valid for it."""
    if name not in CHECKS:
        known = ", ".join(sorted(CHECKS))
        hint = did_you_mean(name, list(CHECKS))
        raise InvalidJobspec(f"{_PLACE}: unknown option {shown(name)}{hint}, known: {known}")
    problem = CHECKS[name](value)
    if problem:
        raise InvalidJobspec(f"{_PLACE}/{name}: {shown(value)} is not {problem}")


def read_into(findings: Findings, options: object, at: str) -> dict[str, Any]:
    """The options in JSON value *options*, at pointer *at*; problems are noted in *findings*."""
    if not isinstance(options, dict):
        findings.mistyped(at, "an object", options)
        return {}
    for name, value in options.items():
        try:
            check(name, value)
        except InvalidJobspec as e:
            findings.note(pointer_to(at, name), str(e).partition(": ")[2])
    return options


def _placing(
    options: Mapping[str, Any], localities: Sequence[str], locality: str
) -> tuple[str, bool, Optional[str], bool]:
    """The mode, and whether *options* ask for nearness; the level, and whether all slots on a node
    share a domain of the level."""
    says = {
        name: values.get(_word(options[name])) or Says(level=options[name])
        for name, values in SAYS.items()
        if name in options
    }
    if "wait" in options:
        says["wait"] = _WAITS
    for one, other in combinations(says, 2):
        if says[one].contradicts(says[other]):
            first, second = shown(options[one]), shown(options[other])
            raise InvalidJobspec(f"{_PLACE}/{other}: {second} contradicts {one}={first}")
    modes = [mode for mode in LOCALITIES if all(mode in one.modes for one in says.values())]
    mode = locality if locality in modes else modes[0]
    names = [name for one in says.values() for name in (one.level, one.else_level) if name]
    level = next((name for name in names if name in localities), None)
    if level is None and len(names) == 1:
        known = ", ".join(localities) or "none, nodes are flat"
        raise InvalidJobspec(
            f"{_PLACE}/level: {shown(names[0])} is not a locality"
            f"{did_you_mean(names[0], localities)}; there are {known}"
        )
    whole_node = any(one.whole_node for one in says.values())
    if whole_node and not names:
        raise InvalidJobspec(f"{_PLACE}/topology_scope: node needs a level, or single-numa-node")
    asks = "none" not in modes
    return mode, asks, level, whole_node and level is not None


def _word(value: str) -> str:
    return OLD_WORDS.get(value, value)


def _same(text: str) -> Same:
    family, _, mode = text.partition(":")
    return Same(family, _word(mode) != "preferred")


def _one_of(known: Mapping[str, Says]) -> Callable[[object], str]:
    def check(value: object) -> str:
        good = isinstance(value, str) and _word(value) in known
        return "" if good else f"one of {', '.join(known)}{did_you_mean(value, known)}"

    return check


def _check_name(value: object) -> str:
    good = isinstance(value, str) and 0 < len(value) <= 64
    return "" if good else "the name of a locality"


def _check_window(value: object) -> str:
    good = isinstance(value, str) and NAME.fullmatch(value)
    return "" if good else "the name of a window"


#: What a demand on links may be.
_LINK = f"{', '.join(FAST)}, {ANY_FAST} or a number of GB/s"


def _check_link(value: object) -> str:
    if isinstance(value, str):
        return "" if value in (*FAST, ANY_FAST) else _LINK
    return _positive(_MAX_GBPS, _LINK, whole=False)(value)


def _positive(most: float, what: str, whole: bool = True) -> Callable[[object], str]:
    def check(value: object) -> str:
        good = isinstance(value, (int, float)) and number(value) and 0 < value <= most
        return "" if good and (type(value) is int or not whole) else what

    return check


def _check_flag(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _check_same(value: object) -> str:
    if isinstance(value, str) and len(value) <= 64 and value.isprintable():
        family, colon, mode = value.partition(":")
        if family and _word(mode) in (("preferred", "required") if colon else ("",)):
            return ""
    return "the family of a property, such as driver or driver:preferred"


def _check_segment(value: object) -> str:
    parts = value.split(",") if isinstance(value, str) and len(value) <= 80 else [""]
    good = all(numbered(part)[0] != part for part in parts)
    return "" if good else "a locality and a number of nodes, such as switch:16"


#: For each option, a function that returns what a value should be, or "" if the value is valid.
CHECKS: dict[str, Callable[[object], str]] = {
    **{name: _one_of(values) for name, values in SAYS.items()},
    "level": _check_name,
    "gpu_link": _check_link,
    "gpu_memory": _positive(_MAX_GIB, "a number of GiB"),
    "unified_memory": _check_flag,
    "allow_cxl": _check_flag,
    "same": _check_same,
    "within": _check_name,
    "cores": lambda value: "" if value == "share" else "share",
    "window": _check_window,
    "segment": _check_segment,
    "wait": _positive(_MAX_WAIT, "a number of seconds above 0 and up to 1e9", whole=False),
    "switches": _positive(10**9 - 1, "a number of domains"),
}
