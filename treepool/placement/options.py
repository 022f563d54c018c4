"""The options of a pool."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from treepool.errors import InvalidJobspec, InvalidOption
from treepool.placement.choose.fitness import ALPHA, BETA, Weights
from treepool.placement.choose.mix import Mix, smallest_domains
from treepool.placement.choose.policy import POLICIES, STRADDLE, Policy, policy_named
from treepool.placement.nodes.fabric import Fabric
from treepool.placement.request.job_options import LOCALITIES
from treepool.placement.request.vertices import request_of
from treepool.rfc import jobspec
from treepool.rfc.findings import shown
from treepool.rfc.mix import Kind, read
from treepool.rfc.shape import parse_shape

#: The options of a pool and their defaults.
OPTIONS = {
    "locality": "preferred",
    "policy": "packing",
    "straddle": str(STRADDLE),
    "alpha": str(ALPHA),
    "beta": str(BETA),
    "mix": "",
}


def checked(options: Mapping[str, object]) -> dict[str, Any]:
    """All options of a pool: *options*, and the defaults of the options that it omits.

    Raises InvalidOption, which names the unknown option or value, or the weight that the policy
    does not use.
    """
    chosen: dict[str, Any] = {**OPTIONS, **options}
    for name in options:
        if name not in OPTIONS:
            raise InvalidOption(f"unknown option {name!r:.60}, known: {', '.join(OPTIONS)}")
    if chosen["locality"] not in LOCALITIES:
        known = ", ".join(LOCALITIES)
        raise InvalidOption(f"unknown locality {chosen['locality']!r:.60}, known: {known}")
    check_together(options)
    return chosen


def kinds_of(text: object) -> tuple[Kind, ...]:
    """The kinds of jobs in the value of option ``mix``; raises InvalidOption."""
    try:
        return read(str(text))
    except InvalidOption as e:
        raise InvalidOption(f"mix: {e}") from None


def check_mix(mix: Mix, localities: Sequence[str], above: Sequence[str]) -> None:
    """Raise InvalidOption if *mix* has a kind of job that its pool does not understand.

    The nodes of the pool have these *localities*; *above* are those of its fabric.
    """
    for kind in mix.kinds:
        try:
            spec = jobspec.read(jobspec.from_resources(parse_shape(kind.shape)))
            request_of(spec, localities, "preferred", above)
        except InvalidJobspec as e:
            raise InvalidOption(f"mix: {shown(kind.shape)}: {e}") from None


def check_together(options: Mapping[str, object]) -> None:
    """Raise InvalidOption if *options* weigh what their policy does not.

    A mix says which GPUs are stranded under any policy.
    """
    name = options.get("policy", OPTIONS["policy"])
    policy = POLICIES.get(name) if isinstance(name, str) else None
    if "straddle" in options and policy is not None and not policy.weighs:
        value = shown(options["straddle"])
        raise InvalidOption(f"straddle={value}: policy {name} does not weigh locality")


#: The largest value of each option that is a number from 0 up.
MOST = {"straddle": 1000, "alpha": 1, "beta": 1}


def number(name: str, value: Any) -> float:
    """The *value* of option *name*, a number from 0 to MOST; InvalidOption does not repeat them."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = -1.0
    if not 0 <= found <= MOST[name]:
        raise InvalidOption(f"not a number from 0 to {MOST[name]}")
    return found


def _number(name: str, options: Mapping[str, Any]) -> float:
    try:
        return number(name, options[name])
    except InvalidOption as e:
        raise InvalidOption(f"{name}={shown(options[name])}: {e}") from None


def chosen(
    options: Mapping[str, str], fabric: Optional[Fabric]
) -> tuple[dict[str, str], Weights, Policy]:
    """All options, with *options* among them, their weights and policy; raises InvalidOption.

    A weight that the policy does not use is not among them. *fabric* is that of the pool.
    """
    values = checked(options)
    weights = Weights(_number("alpha", values), _number("beta", values))
    mix = Mix(kinds_of(values["mix"]), smallest_domains(fabric))
    policy = policy_named(values["policy"], weights, _number("straddle", values), mix)
    if not policy.weighs:
        del values["straddle"]
    return values, weights, policy
