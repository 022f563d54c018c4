"""Which values ``treepool replay`` accepts: sets of rules, nodes to add, numbers, load, files."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Callable

from treepool.errors import InvalidInput
from treepool.flux import options
from treepool.rfc.quote import did_you_mean
from treepool.view.replay import Rules

#: The options that a set of rules may have: those of the module that apply to a replay.
_OPTIONS = (*options.OF_QUEUE, *options.OF_POOL, "fabric")

#: The same with the form of their values, for ``--help``.
FORMS = ", ".join(f"{name}={options.OPTIONS[name].form}" for name in _OPTIONS[:-1])

#: The comma before an option; the values of some have commas, too.
_BEFORE_NAME = re.compile(r",(?=[a-z-]*(?:=|,|\Z))")


def rules_in(text: str) -> Rules:
    """A set of rules, such as ``policy=easy,node-policy=min-span``."""
    given: dict[str, str] = {}
    for word in _BEFORE_NAME.split(text):
        name, equals, _ = word.partition("=")
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            hint = did_you_mean(name, _OPTIONS)
            raise ArgumentTypeError(f"unknown option {name!r:.60}{hint}, known: {known}")
        if not equals:
            raise ArgumentTypeError(f"{name}: {name}=VALUE is needed")
        if name in given:
            raise ArgumentTypeError(f"{name} is given twice in {text!r:.60}")
        given[name] = word
    fabric = given.pop("fabric", "fabric=on")
    if fabric not in ("fabric=on", "fabric=off"):
        raise ArgumentTypeError(f"{fabric!r:.60}: fabric is on or off")
    try:
        read = options.read(given.values())
    except InvalidInput as e:
        raise ArgumentTypeError(str(e)) from None
    on, names = fabric == "fabric=on", frozenset(given)
    return Rules(text, read.rule.policy, read.rule.depth, read.pool, on, names)


#: Nodes to add: how many, and what they are like.
Added = tuple[int, str]

#: A part of ``--add``; a comma ends it only where another one follows.
_ADDED = re.compile(r"([0-9]{1,7})\*(.+?)(?:,(?=[0-9]+\*)|\Z)", re.DOTALL)


def added_in(text: str) -> tuple[Added, ...]:
    """Nodes to add, such as ``10*n0`` or ``10*gpu,4*n17``."""
    found: list[Added] = []
    at = 0
    while at < len(text) or not found:
        match = _ADDED.match(text, at)
        if match is None or not int(match[1]):
            raise ArgumentTypeError(f"{text!r:.60}: NUMBER*NODE is needed, such as 10*n0")
        found.append((int(match[1]), match[2]))
        at = match.end()
    return tuple(found)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A function that reads a whole number from *least* to *most*."""

    def whole(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) < 20
        if not digits or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r:.60} is not a whole number from {least} to {most}")
        return int(text)

    return whole


def load_in(text: str) -> float:
    """A load: 1 asks for all of the cluster."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.01 <= value <= 100:
        raise ArgumentTypeError(f"{text!r:.60} is not a number from 0.01 to 100")
    return value


def file_named(text: str) -> Path:
    """The path of a file to write."""
    if text in ("", "-"):
        raise ArgumentTypeError("needs the name of a file")
    return Path(text)
