"""The options of the scheduler module: ``flux module load sched-treepool NAME=VALUE...``.

They are all checked at load, where an error reaches the person who loads the module.
"""

from __future__ import annotations

import math
from typing import Callable, Iterable, Union

import attrs

from treepool.errors import InvalidOption
from treepool.placement.policy import policy_named
from treepool.placement.request import LOCALITIES

#: Queue policies, and how many waiting jobs get a start time unless ``reservation-depth`` says so.
#: With fifo the times are estimates only: nothing passes the first job that waits.
POLICIES: dict[str, float] = {"fifo": 8, "easy": 1, "conservative": 64}

KNOWN = (
    "policy=fifo|easy|conservative, reservation-depth=N|unlimited, "
    "locality=preferred|required|none, node-policy=NAME, discover=off, "
    "queue-depth=N|unlimited, log-level=LEVEL"
)


#: Makes a value of an option's text, or raises InvalidOption.
Reader = Callable[[str], Union[str, float]]


@attrs.frozen
class Options:
    """What to do with the queue: ``depth`` jobs get reservations. ``pool`` is for the pool."""

    policy: str = "fifo"
    depth: float = POLICIES["fifo"]
    pool: dict[str, str] = attrs.field(factory=dict)


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
    return Options(policy, float(depth), pool)


def check(arguments: Iterable[str]) -> None:
    """Raise InvalidOption if the module would refuse *arguments*, those of Flux's own included."""
    read(argument for argument in arguments if argument.partition("=")[0] not in _OF_FLUX)


def _choice(name: str, *known: str) -> Reader:
    def check(value: str) -> str:
        if value not in known:
            raise InvalidOption(f"{name}={value:.60}: known are {', '.join(known)}")
        return value

    return check


def _depth(value: str) -> float:
    if value == "unlimited":
        return math.inf
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise InvalidOption(f"reservation-depth={value:.60}: not a positive number or unlimited")
    return int(value)


def _node_policy(value: str) -> str:
    return policy_named(value).name


#: What flux.scheduler.Scheduler reads itself.
_OF_FLUX = ("queue-depth", "log-level")

#: What each option is in the pool.
_OF_POOL = {"locality": "locality", "node-policy": "policy"}

_READERS: dict[str, Reader] = {
    "policy": _choice("policy", *POLICIES),
    "reservation-depth": _depth,
    "locality": _choice("locality", *LOCALITIES),
    "node-policy": _node_policy,
    "discover": _choice("discover", "off"),
}
