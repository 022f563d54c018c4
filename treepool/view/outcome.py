"""The numbers of a replay in words, as tables show them: a label and a text for each."""

from __future__ import annotations

from typing import Optional

from treepool.rfc.quote import printable
from treepool.view.replay import Outcome

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def numbers(outcome: Outcome) -> list[tuple[str, str]]:
    """The label of each number, and its text for *outcome*."""
    gpus = outcome.gpus > 0
    found = [
        ("jobs run", f"{outcome.jobs:,}"),
        ("jobs refused", f"{outcome.nrefused:,}"),
        ("time in all", _time(outcome.span)),
        ("cores in use", _percent(outcome.cores_used)),
    ]
    if gpus:
        found.append(("GPUs in use", _percent(outcome.gpus_used)))
    found += [
        ("wait, mean", _time(outcome.wait_mean)),
        ("wait, median", _time(outcome.wait_median)),
        ("wait, 95 % within", _time(outcome.wait_p95)),
        ("wait, longest", _time(outcome.wait_max)),
        ("slots placed locally", _percent(outcome.local / outcome.slots) if outcome.slots else "-"),
        ("cores fragmented", _percent(outcome.cores_fragmented)),
    ]
    if gpus:
        found.append(("GPUs fragmented", _percent(outcome.gpus_fragmented)))
    for spread in outcome.spreads:
        name = printable(spread.locality)
        found.append((f"{name} over the fewest, mean", _ratio(spread.mean)))
        found.append((f"{name} over the fewest, 95 %", _ratio(spread.p95)))
    return found


def _ratio(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _time(seconds: Optional[float]) -> str:
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
