"""Which numbers of a replay tables show, and in which order: a label and a text for each."""

from __future__ import annotations

from typing import Optional, Sequence

from treepool.view.replay import Outcome
from treepool.view.tally import Waits

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The label of each number of *outcomes*, and its text for each of them."""
    found = [_numbers(outcome) for outcome in outcomes]
    longest = max(found, key=len)  # clusters may have no GPUs, or other levels above the nodes
    labels = dict.fromkeys([*longest, *(label for one in found for label in one)])
    return [(label, *(one.get(label, "-") for one in found)) for label in labels]


def names(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """A name for each of *outcomes*: the cluster, if there are several, and its options."""
    several = len({outcome.cluster for outcome in outcomes}) > 1
    return tuple(f"{o.cluster}: {o.rules.name}" if several else o.rules.name for o in outcomes)


def heading(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """What sets each of *outcomes* apart: the cluster, if there are several, then its options."""
    several = len({outcome.cluster for outcome in outcomes}) > 1
    return [[o.cluster] * several + list(map(_option, o.rules.name.split(","))) for o in outcomes]


def wait_texts(waits: Optional[Waits]) -> tuple[str, str, str]:
    """The number of jobs, their mean wait, and within how long 95 % of them started."""
    if waits is None:
        return "0", "-", "-"
    return f"{waits.jobs:,}", time_shown(waits.mean), time_shown(waits.p95)


def _numbers(outcome: Outcome) -> dict[str, str]:
    left = sum(start.start is None for start in outcome.starts) - outcome.nrefused
    waiting = {"jobs with no start told": f"{left:,}"} if outcome.starts else {}
    if outcome.unstarted is not None:
        waiting["jobs not started (interrupted)"] = f"{outcome.unstarted:,}"
    preempted = {}
    if outcome.preempted:
        preempted["jobs preempted"] = f"{outcome.preempted:,}"
        preempted["core hours lost by it"] = f"{outcome.lost / _HOUR:,.1f}"
    found = {
        "jobs run": f"{outcome.jobs:,}",
        "jobs refused": f"{outcome.nrefused:,}",
        **waiting,
        **preempted,
        "time in all": time_shown(outcome.span),
        "until the last start": time_shown(outcome.last_start),
        "cores in use": _percent(outcome.cores_used),
    }
    if outcome.gpus:
        found["GPUs in use"] = _percent(outcome.gpus_used)
        found["GPUs stranded"] = _percent(outcome.gpus_stranded)
    found["wait, mean"] = time_shown(outcome.wait.mean)
    found["wait, median"] = time_shown(outcome.wait.median)
    found["wait, 95 % within"] = time_shown(outcome.wait.p95)
    found["wait, longest"] = time_shown(outcome.wait.max)
    local = _percent(outcome.local / outcome.slots) if outcome.slots else "-"
    found["slots placed locally"] = local
    for spread in outcome.spreads:
        found[f"{spread.locality} over the fewest, mean"] = _ratio(spread.mean)
        found[f"{spread.locality} over the fewest, 95 %"] = _ratio(spread.p95)
    return found


def _option(word: str) -> str:
    """A short form of an option; for a policy the value alone is clear."""
    name, _, value = word.partition("=")
    if name in ("policy", "node-policy"):
        return value
    return f"{name.rpartition('-')[2]} {value}"


def _ratio(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def time_shown(seconds: Optional[float]) -> str:
    """A time in its usual one or two units: "3 h 05 min", "12.5 s"."""
    if seconds is None:
        return "-"
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < _HOUR:
        return _two(seconds, _MINUTE, 1, "min", "s")
    if seconds < _DAY:
        return _two(seconds, _HOUR, _MINUTE, "h", "min")
    return _two(seconds, _DAY, _HOUR, "d", "h")


def _two(seconds: float, large: int, small: int, unit: str, smaller: str) -> str:
    whole, rest = divmod(round(seconds / small), large // small)
    return f"{whole:,} {unit} {rest:02} {smaller}"
