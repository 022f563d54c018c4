"""The options of a pool (policy, mix, ...): defaults, values, help. It imports no engine."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import Any, Mapping, Optional

import attrs

from treepool.errors import InvalidOption
from treepool.placement.names import (
    GONE,
    JOB_KEYS,
    LOCALITIES,
    NODE_POLICIES,
    PACKING,
    REPLACED,
    STRADDLE,
)
from treepool.rfc.findings import shown
from treepool.rfc.mix import Kind, read_mix
from treepool.rfc.quote import did_you_mean


@attrs.frozen
class Option:
    """An option of a pool: its ``default``, the ``form`` of its values, and what it is for.

    A value is one of ``choices``, a number from 0 to ``most``, perhaps a ``whole`` one, or if it
    has neither, a mix.
    ``replaced`` has values of earlier releases, and what they are called now.
    """

    default: str
    form: str
    about: str
    choices: tuple[str, ...] = ()
    most: Optional[float] = None
    whole: bool = False
    replaced: Mapping[str, str] = MappingProxyType({})

    def check(self, text: str) -> None:
        """Raise InvalidOption, which does not repeat *text*, if that is no value of the option."""
        if self.most is not None:
            self.number(text)
        elif not self.choices:
            read_mix(text)
        elif text not in self.choices:
            hint = did_you_mean(text, self.choices)
            raise InvalidOption(f"{self.now(text)}known are {', '.join(self.choices)}{hint}")

    def now(self, value: object) -> str:
        """What *value* is called now, for a message; "" if it never was a value."""
        known = isinstance(value, str) and value in self.replaced
        return f"now {self.replaced[str(value)]}, " if known else ""

    def number(self, value: Any) -> float:
        """The *value* of an option that is a number; raises InvalidOption as ``check`` does."""
        assert self.most is not None
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            found = -1.0
        if not 0 <= found <= self.most or (self.whole and found != int(found)):
            what = "whole number" if self.whole else "number"
            raise InvalidOption(f"not a {what} from 0 to {self.most:g}")
        return found


#: The options of a pool by name.
OPTIONS = {
    "locality": Option(
        "preferred",
        "|".join(LOCALITIES),
        "where the cores and GPUs of a slot are: in one domain if possible (preferred), in one "
        "domain or the job waits (required), anywhere on the node (none)",
        LOCALITIES,
    ),
    "policy": Option(
        PACKING,
        "NAME",
        f"which nodes are tried first: {', '.join(NODE_POLICIES)}",
        NODE_POLICIES,
        replaced=REPLACED,
    ),
    "straddle": Option(
        str(STRADDLE),
        "GPUS",
        "with policy packing: what a slot that is not local costs, in GPUs that other jobs could "
        "use; more keeps slots together",
        most=1000,
    ),
    "gpu_cores": Option(
        "0",
        "CORES",
        "how many cores near each GPU are kept for jobs with GPUs",
        most=1024,
        whole=True,
    ),
    "mix": Option(
        "",
        "WEIGHT*SHAPE[,...]",
        "with policy packing: the expected jobs, and how often each is submitted; it keeps what "
        "they can use",
    ),
    "job_key": Option(
        "full",
        "|".join(JOB_KEYS),
        "the scheduling key in the R of a job: that of its nodes (full), or none, so that Fluxion "
        "can take the job over; an instance inside the job then has flat nodes",
        JOB_KEYS,
    ),
}


def checked(options: Mapping[str, object]) -> dict[str, Any]:
    """All options of a pool: *options*, and the defaults of the options that it omits.

    Raises InvalidOption, which names the unknown option or value, or the weight that the policy
    does not use.
    """
    chosen: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()}
    for name, value in options.items():
        if name in GONE:
            raise InvalidOption(f"{name}: {GONE[name]}")
        if name not in OPTIONS:
            raise InvalidOption(f"unknown option {name!r:.60}, known: {', '.join(OPTIONS)}")
        choices = OPTIONS[name].choices
        if choices and value not in choices:
            now, hint = OPTIONS[name].now(value), did_you_mean(value, choices)
            known = f"{now}known: {', '.join(choices)}{hint}"
            raise InvalidOption(f"unknown {name} {value!r:.60}, {known}")
        chosen[name] = value
    check_together(options)
    return chosen


def known(sent: Mapping[str, object]) -> dict[str, str]:
    """Those of *sent*, which are options of a pool of any version, that are options here."""
    found = {}
    for name, value in sent.items():
        if name in OPTIONS and isinstance(value, str):
            with suppress(InvalidOption):
                OPTIONS[name].check(value)
                found[name] = value
    return found


def kinds_of(text: object) -> tuple[Kind, ...]:
    """The kinds of jobs in the value of option ``mix``; raises InvalidOption."""
    try:
        return read_mix(str(text))
    except InvalidOption as e:
        raise InvalidOption(f"mix: {e}") from None


def changed(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """*options* of a pool after those that are *given*; another policy may not weigh locality."""
    kept = {name: v for name, v in options.items() if name != "straddle" or "policy" not in given}
    return {**kept, **given}


def check_together(options: Mapping[str, object]) -> None:
    """Raise InvalidOption if *options* weigh what their policy does not.

    A mix says which GPUs are stranded under any policy.
    """
    name = options.get("policy", PACKING)
    if "straddle" in options and name in NODE_POLICIES and name != PACKING:
        value = shown(options["straddle"])
        raise InvalidOption(f"straddle={value}: node policy {name} does not weigh locality")


def number(name: str, options: Mapping[str, Any]) -> float:
    """The value of the option *name* of *options*; raises InvalidOption."""
    try:
        return OPTIONS[name].number(options[name])
    except InvalidOption as e:
        raise InvalidOption(f"{name}={shown(options[name])}: {e}") from None
