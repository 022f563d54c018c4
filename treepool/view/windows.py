"""Windows in words: one line for each, with its hosts, its times and for whom it is."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional

from treepool.rfc.times import clock
from treepool.rfc.windows import WindowEntry
from treepool.view import words


def line(entry: WindowEntry, now: float) -> str:
    """A window on a line, such as "window maint: n[0-3], from 08:00 to 12:00, for nobody"."""
    if entry.spare:
        return f"spare nodes: {words.listed(entry.hosts) or 'none left'}, {whom(entry)}"
    when = f"from {clock(entry.start, now)} to {clock(entry.end, now)}{again(entry)}"
    state = ", open now" if entry.start <= now else ""
    return f"window {entry.name}: {words.listed(entry.hosts)}, {when}{state}, for {whom(entry)}"


def whom(entry: WindowEntry) -> str:
    """Whose jobs may use the nodes."""
    if entry.spare:
        return "until others fail"
    named: list[tuple[str, tuple[object, ...]]] = [
        *(("user", entry.users), ("group", entry.groups)),
        *(("bank", entry.banks), ("queue", entry.queues)),
    ]
    texts = [f"{what} {words.plain(str(name))}" for what, names in named for name in names]
    return words.listed(", ".join(texts)) or "nobody"


def again(entry: WindowEntry) -> str:
    """How often it comes, such as ", every 7 days"; "" if it does once."""
    days = "day" if entry.every == 1 else f"{entry.every} days"
    return f", every {days}" if entry.every else ""


def behind(
    answer: Mapping[str, Any], entries: Callable[[], Iterable[WindowEntry]]
) -> Optional[WindowEntry]:
    """The one of *entries* for which a job waits, if the scheduler's *answer* says that."""
    if answer.get("code") not in ("window", "opens"):
        return None
    return next((entry for entry in entries() if entry.name == answer.get("subject")), None)
