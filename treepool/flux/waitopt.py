"""How long to wait for a close place: ``--locality-wait=TIME``, Slurm's ``--switches=N[@TIME]``.

A time is a number with a unit. A number alone is refused: it would be minutes for ``flux submit
-t``, and seconds in RFC 23. A time of ``--switches`` may also be in Slurm's forms (minutes,
minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds).
Imports no flux.
"""

from __future__ import annotations

import re
from typing import Optional

from treepool.errors import InvalidOption
from treepool.rfc.findings import shown

_SLURM = re.compile(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?", re.ASCII)
_FLUX = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)

#: The units of a Flux Standard Duration (RFC 23) in seconds.
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def wait(text: str) -> float:
    """The seconds in *text*, a number with a unit; raises InvalidOption."""
    match = _FLUX.fullmatch(text)
    if match is None:
        raise InvalidOption(f"{shown(text)} is not a time such as 10m, 1.5h or 90s")
    return _plain(float(match[1]) * _UNITS[match[2]])


def switches(text: str) -> tuple[int, Optional[float]]:
    """The number in *text*, and the seconds behind its @, if there are any.

    Raises InvalidOption.
    """
    number, at, time = text.partition("@")
    if not re.fullmatch("[0-9]{1,6}", number, re.ASCII):
        raise InvalidOption(f"{shown(text)} is not a number, such as 1 or 1@10:00")
    return int(number), _time(time) if at else None


def _time(text: str) -> float:
    match = _SLURM.fullmatch(text)
    if match is None:
        return wait(text)
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:  # hours first
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return _plain(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)


def _plain(seconds: float) -> float:
    """*seconds* without a fraction where there is none."""
    return int(seconds) if seconds == int(seconds) else seconds
