"""Times in words (14:30, with the date if not today), and which ISO 8601 texts are read."""

from __future__ import annotations

import re
import time
from datetime import datetime

#: Latest time, in seconds since the epoch: the end of the year 9999.
LATEST = 253_402_300_799

#: The only key of an object that Flux makes of a time in TOML.
TOML_TIME = "iso-8601-ts"


def clock(when: float, now: float) -> str:
    """A time in local time, with the date if it is not today, and the year if it is not this year.

    *when* and *now* are in seconds since the epoch. A time after LATEST is shown as LATEST.
    """
    then, today = time.localtime(min(when, LATEST)), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%b %d %H:%M" if then[0] == today[0] else "%Y-%m-%d %H:%M", then)


def iso_time(text: str) -> datetime:
    """The ISO 8601 time in *text*, without a zone if it has no offset; raises ValueError."""
    # Before 3.11 Python does not know Z.
    return datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text))


def seconds_of_iso(text: str) -> float:
    """The ISO 8601 time in *text*, in seconds since the epoch; raises ValueError.

    A time without an offset is local time; a date alone is its midnight.
    """
    try:
        when = iso_time(text).timestamp()
    except (ValueError, OverflowError, OSError):
        when = -1.0
    if not 0 <= when <= LATEST:
        raise ValueError("is not an ISO 8601 time from 1970 to 9999")
    return when
