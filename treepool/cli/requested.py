"""Options of alloc and explain: what a job asks for beside its shape, as of ``flux submit``."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Optional, Sequence

import attrs

from treepool.cli.screen import USAGE, Stop
from treepool.errors import InvalidInput, InvalidOption
from treepool.flux import joboptions, waitopt
from treepool.placement.names import LOCALITIES
from treepool.rfc import constraint, document
from treepool.rfc.findings import shown

#: The options that a shape, which says all that the job asks for, leaves.
_OPTIONS = [one for one in joboptions.OPTIONS if joboptions.dest(one[0]) not in joboptions.ADDING]


@attrs.frozen
class Asked:
    """What jobs ask for; None where the command line does not say."""

    constraints: Optional[dict[str, Any]] = None
    options: Optional[dict[str, Any]] = None
    queue: Optional[str] = None
    duration: Optional[float] = None

    def into(self, spec: Any) -> Any:
        """Jobspec *spec* with what the command line says; it says no less than *spec*.

        If a value on the way there is not an object, it stays, and its reader reports the error.
        """
        way = [spec]
        for key in ("attributes", "system", "treepool"):
            way.append(way[-1].get(key, {}) if isinstance(way[-1], dict) else None)
        if not all(isinstance(one, dict) for one in way):
            return spec
        _, attributes, system, there = way
        changed = dict(system)
        if self.options:
            changed["treepool"] = {**there, **self.options}
        if self.constraints is not None:
            theirs = [system["constraints"]] if system.get("constraints") else []
            changed["constraints"] = {"and": [*theirs, self.constraints]}
        if self.queue is not None:
            changed["queue"] = self.queue
        if self.duration is not None:
            changed["duration"] = self.duration
        if changed == system:
            return spec
        return {**spec, "attributes": {**attributes, "system": changed}}


def add(parser: Any) -> None:
    """Add the options to *parser*."""
    group = parser.add_argument_group("the job, as flux submit takes it")
    for flag, value, text in _OPTIONS:
        form: dict[str, Any] = {"metavar": value}
        if value is None:
            form = {"action": "store_true"}
        elif flag == "--locality":
            form = {"choices": LOCALITIES}
        group.add_argument(flag, help=text, **form)
    group.add_argument("--requires", metavar="QUERY", help="which nodes it may use (RFC 35)")
    group.add_argument("--constraint", metavar="JSON", help="the same as JSON (RFC 31)")
    group.add_argument("--queue", metavar="NAME", help="its queue, in an instance")
    group.add_argument("--duration", metavar="FSD", help="its time limit, such as 4h")
    group.add_argument(
        "--option",
        "--wish",  # its name in 0.1
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option as in attributes.system.treepool of a jobspec; repeatable",
    )


def read(arguments: Namespace, resources: Sequence[Any]) -> Asked:
    """What *arguments* say of jobs that ask for *resources* between them; raises Stop."""
    return Asked(
        _constraints(arguments),
        _options(arguments, resources) or None,
        arguments.queue,
        _seconds(arguments.duration),
    )


def are_given(arguments: Namespace) -> list[str]:
    """The options of this module that *arguments* have."""
    names = [joboptions.dest(flag) for flag, _, _ in _OPTIONS]
    names += ["requires", "constraint", "queue", "duration", "option"]
    given = [name for name in names if getattr(arguments, name) not in (None, False, [])]
    return list(map(joboptions.flag, given))


def _constraints(arguments: Namespace) -> Optional[dict[str, Any]]:
    if arguments.requires is not None:
        if arguments.constraint is not None:
            raise Stop("--requires and --constraint say the same: give one of them", USAGE)
        from treepool.rfc.requires import constraint_of

        return _read("--requires", arguments.requires, lambda text, _: constraint_of(text))
    if arguments.constraint is None:
        return None
    load = lambda text, place: document.load(text, InvalidInput, place)  # noqa: E731
    return _read("--constraint", arguments.constraint, load)


def _read(flag: str, text: str, reader: Any) -> dict[str, Any]:
    """The RFC 31 constraint that *reader* finds in the *text* of an option."""
    place = f"argument {flag}"
    try:
        value: dict[str, Any] = reader(text, place)
    except InvalidInput as e:
        message = str(e)
        raise Stop(message if message.startswith(place) else f"{place}: {e}", USAGE) from None
    try:
        constraint.parse(value, place)
    except InvalidInput as e:
        raise Stop(str(e), USAGE) from None
    return value


def _options(arguments: Namespace, resources: Sequence[Any]) -> dict[str, Any]:
    """The options of jobs, from ``--option`` and those of ``flux submit``."""
    options = _texts(arguments.option)
    dests = [joboptions.dest(flag) for flag, _, _ in _OPTIONS]
    values = {name: getattr(arguments, name) for name in dests}
    given = {name: value for name, value in values.items() if value not in (None, False)}
    if not given:
        return options
    system = {"treepool": options} if options else {}
    job = SimpleNamespace(attributes={"system": system}, resources=resources)
    try:
        joboptions.add(given, job)
    except ValueError as e:
        raise Stop(str(e).replace("--setattr=treepool.", "--option "), USAGE) from None
    found: dict[str, Any] = system.get("treepool", {})
    return found


def _texts(given: Sequence[str]) -> dict[str, Any]:
    """The options given by ``--option``; a value that is not valid JSON is text."""
    options: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not name or not equals:
            raise Stop(f"argument --option: {shown(one)} is not NAME=VALUE", USAGE)
        if name in options:
            raise Stop(f"argument --option: {shown(name)} is given twice", USAGE)
        try:
            options[name] = document.load(text, InvalidInput, "argument --option")
        except InvalidInput:
            options[name] = text
    return options


def _seconds(text: Optional[str]) -> Optional[float]:
    """The seconds of ``--duration``, a Flux Standard Duration (RFC 23)."""
    if text is None:
        return None
    seconds = 0.0
    with suppress(InvalidOption):
        seconds = float(waitopt.wait(text if text[-1:].isalpha() else f"{text}s"))
    if not 0 < seconds < 1e9:
        raise Stop(f"argument --duration: {shown(text)} is not a time such as 4h", USAGE)
    return seconds
