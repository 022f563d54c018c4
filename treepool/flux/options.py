"""The options of sched-treepool and their values: module arguments, table ``[sched-treepool]``.

``flux module load sched-treepool NAME=VALUE...`` and the configuration have the same names and
values; an argument overrides the key of its name. Imports no flux.
"""

from __future__ import annotations

import math
from typing import Callable, Container, Iterable, Mapping, Union

import attrs

from treepool.errors import InvalidOption
from treepool.flux.preemption import ATTRIBUTE, Preemption, duration
from treepool.placement.names import GONE
from treepool.placement.options import OPTIONS as POOL_OPTIONS
from treepool.placement.options import Option as PoolOption
from treepool.placement.options import check_together
from treepool.placement.plan.jobs import POLICIES, Rule
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean

#: The table of the configuration, and in it the table of tables for single queues.
TABLE = "sched-treepool"
QUEUES = "queues"


@attrs.frozen
class _Option:
    """An option; ``form`` says what its value looks like.

    ``read`` converts the text of a value, or raises InvalidOption, which says what is wrong.
    """

    form: str
    read: Callable[[str], Union[str, float]]


class InvalidSetting(InvalidOption):
    """A wrong entry of the configuration: the ``keys`` that lead to it, and the ``reason``."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(f"{'.'.join(map(_plain, keys))}: {message}")
        self.keys, self.reason = keys, message


@attrs.frozen
class Options:
    """How to run the queue: ``rule``, and the rules of the ``queues`` that have others.

    ``preemption`` says which jobs may be ended for which, ``spares`` how many nodes are kept idle
    in case others fail. ``pool`` has the pool's options. With ``discover``, a missing key is made
    from the topology that the brokers know.
    flux.scheduler.Scheduler has the other options, too.
    """

    rule: Rule = attrs.field(factory=Rule)
    queues: Mapping[str, Rule] = attrs.field(factory=dict)
    preemption: Preemption = attrs.field(factory=Preemption)
    spares: int = 0
    pool: dict[str, str] = attrs.field(factory=dict)
    discover: bool = True
    log_level: str = "info"
    queue_depth: Union[str, int] = "unlimited"

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules of the queues that have their own, and as "" that of all others."""
        return {"": self.rule, **self.queues}


def read(
    arguments: Iterable[str] = (),
    table: object = None,
    queues: Container[str] = (),
) -> Options:
    """The options in *arguments* of the module and *table*, for an instance with *queues*.

    Raises InvalidOption, a ValueError; for the table it is an InvalidSetting.
    """
    given = _table(table, (*OPTIONS, QUEUES, "windows"), TABLE)
    tables = _table(given.pop(QUEUES, None), None, TABLE, QUEUES)
    given.pop("windows", None)  # see windows.py
    by = given.get(PREEMPT_BY)
    if isinstance(by, list) and all(isinstance(name, str) for name in by):
        given[PREEMPT_BY] = ",".join(by) or NOBODY
    texts = {name: _text(value, TABLE, name) for name, value in given.items()}
    read = {name: _checked(name, text, TABLE, name) for name, text in texts.items()}
    in_table = set(given)
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if name in OPTIONS and not equals:
            raise InvalidOption(f"{name}: needs a value: {name}={OPTIONS[name].form}")
        if name in GONE:
            raise InvalidOption(f"{name}: {GONE[name]}")
        if name not in OPTIONS or name in (*_OF_FLUX, CORES_WITH_GPUS):
            known = ", ".join(f"{name}={option.form}" for name, option in OPTIONS.items())
            hint = did_you_mean(name, OPTIONS)
            raise InvalidOption(f"unknown argument {argument!r:.60}{hint}, known: {known}")
        try:
            read[name], texts[name] = OPTIONS[name].read(text), text
            in_table.discard(name)
        except InvalidOption as e:
            raise InvalidOption(f"{name}={_plain(text)}: {e}") from None
    rule = _rule(read, Rule())
    rules, after = {}, {}
    for queue, value in tables.items():
        if queue not in queues:
            raise InvalidSetting("this instance has no such queue", TABLE, QUEUES, queue)
        own = _table(value, OF_QUEUE, TABLE, QUEUES, queue)
        keys = {name: (TABLE, QUEUES, queue, name) for name in own}
        checked = {n: _checked(n, _text(v, *keys[n]), *keys[n]) for n, v in own.items()}
        if ATTRIBUTE in checked:
            after[queue] = float(checked[ATTRIBUTE])
        if checked.keys() != {ATTRIBUTE}:
            rules[queue] = _rule(checked, rule)
    depth = read.get("queue-depth", math.inf)
    pool = {OF_POOL[name]: texts[name] for name in OF_POOL if name in texts}
    try:
        check_together(pool)
    except InvalidOption as e:
        for name in ("straddle", "node-policy"):
            if name in in_table:
                raise InvalidSetting(str(e), TABLE, name) from None
        raise
    by = None
    if PREEMPT_BY in read:
        by = frozenset(str(read[PREEMPT_BY]).split(",")) - {NOBODY}
        for queue in sorted(by):
            if queue not in queues:
                raise InvalidSetting(
                    f"this instance has no queue {_plain(queue)}", TABLE, PREEMPT_BY
                )
    return Options(
        rule,
        rules,
        preemption=Preemption(after, by),
        spares=int(read.get("spares", 0)),
        pool=pool,
        discover=read.get("discover") != "off",
        log_level=str(read.get("log-level", "info")),
        queue_depth="unlimited" if depth == math.inf else int(depth),
    )


def _rule(given: Mapping[str, Union[str, float]], default: Rule) -> Rule:
    """*default* with the options *given*; another policy has a depth of its own."""
    policy = str(given.get("policy", default.policy))
    depth = default.depth if policy == default.policy else POLICIES[policy]
    return Rule(policy, float(given.get("reservation-depth", depth)))


def _table(value: object, known: Union[tuple[str, ...], None], *keys: str) -> dict[str, object]:
    """The entries of a table, whose names must be *known*; none if there is no table."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidSetting(f"must be a table, not {shown(value)}", *keys)
    for name in value:
        if name in GONE and keys == (TABLE,):
            raise InvalidSetting(GONE[name], *keys, name)
        if known is not None and name not in known:
            hint = did_you_mean(name, known)
            raise InvalidSetting(f"unknown{hint}, known are {', '.join(known)}", *keys, name)
    return dict(value)


def _text(value: object, *keys: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InvalidSetting(f"must be a text or a number, not {shown(value)}", *keys)
    return value if isinstance(value, str) else shown(value)


def _checked(name: str, text: str, *keys: str) -> Union[str, float]:
    try:
        return duration(text) if name == ATTRIBUTE else OPTIONS[name].read(text)
    except InvalidOption as e:
        raise InvalidSetting(f"{_plain(text)}: {e}", *keys) from None


def _plain(text: str) -> str:
    """*text* for a message, quoted only if it is long or cannot be printed."""
    return text if text.isprintable() and len(text) <= 60 else shown(text)


def _choice(*known: str, form: str = "") -> _Option:
    return _of_pool(PoolOption("", form or "|".join(known), "", known))


def _of_pool(option: PoolOption) -> _Option:
    def read(text: str) -> str:
        option.check(text)
        return text

    return _Option(option.form, read)


def _depth(text: str) -> float:
    return math.inf if text == "unlimited" else _count(text, 1, " or unlimited")


def _count(text: str, least: int = 0, more: str = "") -> int:
    digits = text.isascii() and text.isdigit() and len(text) < 10
    if not digits or int(text) < least:
        raise InvalidOption(f"not a number from {least} to 999999999{more}")
    return int(text)


#: Options that flux.scheduler.Scheduler itself reads from the arguments.
_OF_FLUX = ("queue-depth", "log-level")

#: The name of the pool option that each module option sets: ``policy`` is the queue's here.
OF_POOL = {
    "node-policy" if name == "policy" else name.replace("_", "-"): name for name in POOL_OPTIONS
}

#: The option that names the queues whose jobs may preempt others, and what it is for none.
PREEMPT_BY, NOBODY = "preempt-by", "none"

#: What ``flux submit -g1`` without ``-c`` asks for: its plugin reads this in the configuration.
CORES_WITH_GPUS = "cores-with-gpus"

#: The options of its rule that a single queue may have, and all that it may have.
OF_RULE = ("policy", "reservation-depth")
OF_QUEUE = (*OF_RULE, ATTRIBUTE)

_DEPTH = _Option("N|unlimited", _depth)

_LOG_LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")

#: The options of the module, in the order in which they are told.
OPTIONS = {
    "policy": _choice(*POLICIES),
    "reservation-depth": _DEPTH,
    PREEMPT_BY: _Option(f"QUEUE[,...]|{NOBODY}", str),
    "spares": _Option("N", _count),
    **{name: _of_pool(POOL_OPTIONS[own]) for name, own in OF_POOL.items()},
    CORES_WITH_GPUS: _choice("one", "share"),
    "discover": _choice("auto", "off"),
    "queue-depth": _DEPTH,
    "log-level": _choice(*_LOG_LEVELS, form="LEVEL"),
}
