"""The options of the scheduler module: ``flux module load sched-treepool NAME=VALUE...``.

All options are checked when the module is loaded. If one is invalid, loading fails and
``flux dmesg`` shows the reason.
"""

from __future__ import annotations

import math
from typing import Callable, Iterable, Union

import attrs

from treepool.errors import InvalidOption
from treepool.placement.choose.policy import POLICIES as NODE_POLICIES
from treepool.placement.options import number
from treepool.placement.request.job_options import LOCALITIES

#: Queue policies, and how many waiting jobs get a start time if ``reservation-depth`` is not given.
#: With fifo the times are only estimates: no job passes the first one that waits.
POLICIES: dict[str, float] = {"fifo": 8, "easy": 1, "conservative": 64}

KNOWN = (
    "policy=fifo|easy|conservative, reservation-depth=N|unlimited, "
    "locality=preferred|required|none, node-policy=NAME, straddle=GPUS, alpha=0..1, beta=0..1, "
    "discover=auto|off, "
    "queue-depth=N|unlimited, log-level=LEVEL"
)


#: Converts an option's text to its value, or raises InvalidOption.
Reader = Callable[[str], Union[str, float]]


@attrs.frozen
class Options:
    """How to run the queue: ``depth`` jobs get reservations. ``pool`` has the pool's options.

    With ``discover`` a missing key is made from the hwloc XML that the brokers hold.
    """

    policy: str = "fifo"
    depth: float = POLICIES["fifo"]
    pool: dict[str, str] = attrs.field(factory=dict)
    discover: bool = True


def read(arguments: Iterable[str]) -> Options:
    """The options in module *arguments*; raises InvalidOption, a ValueError."""
    given: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or name not in _READERS:
            raise InvalidOption(f"unknown argument {argument!r:.60}, known: {KNOWN}")
        given[name] = value
    read = {name: _READERS[name](value) for name, value in given.items()}
    policy = str(read.get("policy", "fifo"))
    depth = read.get("reservation-depth", POLICIES[policy])
    pool = {_OF_POOL[name]: given[name] for name in _OF_POOL if name in given}
    return Options(policy, float(depth), pool, read.get("discover") != "off")


def check(arguments: Iterable[str]) -> None:
    """Raise InvalidOption if the module would refuse *arguments*, Flux's own options included."""
    read(argument for argument in arguments if argument.partition("=")[0] not in _OF_FLUX)


def _choice(name: str, *known: str) -> Reader:
    def check(value: str) -> str:
        if value not in known:
            raise InvalidOption(f"{name}={value:.60}: known are {', '.join(known)}")
        return value

    return check


def _number(name: str) -> Reader:
    return lambda value: number(name, {name: value})


def _depth(value: str) -> float:
    if value == "unlimited":
        return math.inf
    digits = value.isascii() and value.isdigit() and len(value) < 10
    if not digits or int(value) == 0:
        raise InvalidOption(
            f"reservation-depth={value:.60}: not a number from 1 to 999999999 or unlimited"
        )
    return int(value)


#: Options that flux.scheduler.Scheduler reads itself.
_OF_FLUX = ("queue-depth", "log-level")

#: The name of the pool option that each module option sets.
_OF_POOL = {
    "locality": "locality",
    "node-policy": "policy",
    "straddle": "straddle",
    "alpha": "alpha",
    "beta": "beta",
}

_READERS: dict[str, Reader] = {
    "policy": _choice("policy", *POLICIES),
    "reservation-depth": _depth,
    "locality": _choice("locality", *LOCALITIES),
    "node-policy": _choice("node-policy", *NODE_POLICIES),
    "straddle": _number("straddle"),
    "alpha": _number("alpha"),
    "beta": _number("beta"),
    "discover": _choice("discover", "auto", "off"),
}
