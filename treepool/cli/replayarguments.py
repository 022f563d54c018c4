"""Which values ``treepool replay`` accepts: sets of rules, nodes to add, numbers, load, files."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from pathlib import Path

from treepool.errors import InvalidInput
from treepool.flux import options
from treepool.flux.preemption import duration
from treepool.rfc.quote import did_you_mean
from treepool.view.replay import Rules

#: What a set of rules may leave out: what is above the nodes, and that jobs are ended for others.
_SWITCHES = ("fabric", "preemption")

#: The options that a set of rules may have: those of the module that apply to a replay.
_OPTIONS = (*options.OF_RULE, *options.OF_POOL, *_SWITCHES)

#: The same with the form of their values, for ``--help``.
FORMS = ", ".join(f"{name}={options.OPTIONS[name].form}" for name in _OPTIONS[: -len(_SWITCHES)])

#: The comma before an option; the values of some have commas, too.
_BEFORE_NAME = re.compile(r",(?=[a-z-]*(?:=|,|\Z))")


def rules_in(text: str) -> Rules:
    """A set of rules, such as ``policy=easy,node-policy=worst-fit``."""
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
    on = {}
    for name in _SWITCHES:
        word = given.pop(name, f"{name}=on")
        if word not in (f"{name}=on", f"{name}=off"):
            raise ArgumentTypeError(f"{word!r:.60}: {name} is on or off")
        on[name] = word.endswith("=on")
    try:
        read = options.read(given.values())
    except InvalidInput as e:
        raise ArgumentTypeError(str(e)) from None
    rule, names = read.rule, frozenset(given)
    return Rules(text, rule.policy, rule.depth, read.pool, on["fabric"], on["preemption"], names)


def preemptible_in(text: str) -> tuple[str, float]:
    """A queue whose jobs are preemptible, and after how many seconds: ``standby=10m``."""
    name, equals, time = text.partition("=")
    try:
        return name, duration(time) if equals else 0.0
    except InvalidInput as e:
        raise ArgumentTypeError(str(e)) from None


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
