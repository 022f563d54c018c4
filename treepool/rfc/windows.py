"""Windows as JSON (nodes taken out, or kept for some jobs): keys, forms of times, names, limits.

    {"name": "maint", "hosts": "n[0-99]", "start": 1798790400, "end": "2027-01-01T12:00:00Z"}
    {"name": "course", "hosts": "n7", "start": 1798790400, "end": 1798804800,
     "users": ["alice", 1001], "queues": ["debug"]}

are windows. Without ``users``, ``groups``, ``banks`` and ``queues`` no job may use the nodes.
``hosts`` is an RFC 29 hostlist. Instead of them, a request to add a window may have a ``shape``
(RFC 46), a locality ``within`` which all nodes are, and what they are ``requires`` (RFC 35): the
scheduler chooses the nodes. ``every`` so many days the window comes again, at the same local time.
A time is in seconds since the epoch, an ISO 8601 text (local time if it has no offset), or what
Flux makes of a time in TOML. The KVS, the RPCs and the configuration of an instance all have
windows in this form.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Iterator, Union

import attrs

from treepool.errors import InvalidHostlist, InvalidWindow
from treepool.rfc import document, hostlist, idset
from treepool.rfc.findings import Findings, Readers, integer, number, shown
from treepool.rfc.times import LATEST, TOML_TIME, seconds_of_iso

if TYPE_CHECKING:
    from treepool.rfc.rset import ResourceSet

#: Most windows at a time.
MAX_WINDOWS = 1024

#: Most users, and most queues, of a window.
MAX_NAMES = 1024

#: Longest name of a user or queue, in characters.
MAX_WORD = 256

#: Most days between two times of a window, and how many of its times are planned ahead.
MAX_DAYS, TIMES = 366, 8

#: Largest user id: the next one means "none" to the system.
MAX_USER = (1 << 32) - 2

#: What a window may be called.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


#: The window of the spare nodes, which a scheduler lists with the others: it has no times.
SPARES = "spares"

#: The keys that each window has.
REQUIRED = ("name", "hosts", "start", "end")

#: The keys that say which hosts the scheduler is to choose.
CHOSEN = ("shape", "within", "requires")


@attrs.frozen
class WindowEntry:
    """A window as it was written. Times are in seconds since the epoch.

    ``hosts`` is an RFC 29 hostlist; ``users`` are names or numeric ids. If the scheduler chose the
    hosts, the other texts say which it looks for when one fails. ``every`` is in days, 0 for once.
    """

    name: str
    hosts: str
    start: float
    end: float
    users: tuple[Union[str, int], ...] = ()
    queues: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    banks: tuple[str, ...] = ()
    every: int = 0
    shape: str = ""
    within: str = ""
    requires: str = ""

    @property
    def spare(self) -> bool:
        """Whether these are the spare nodes of an instance."""
        return self.name == SPARES and self.end >= LATEST

    def to_dict(self) -> dict[str, Any]:
        """The window as JSON: what it does not say is left out."""
        found = attrs.asdict(self, filter=lambda field, value: field.name in REQUIRED or value)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}

    def times(self, now: float, most: int = TIMES) -> Iterator[WindowEntry]:
        """The window at each of its times that are not over, as if it came once."""
        if not self.every:
            yield from (self,) if self.end > now else ()
            return
        number = max(0, int((now - self.end) / (self.every * 86400.0)) - 1)
        while most:
            start, end = (_later(at, number * self.every) for at in (self.start, self.end))
            if start > LATEST:
                return
            if end > now:
                most -= 1
                yield attrs.evolve(self, start=start, end=end)
            number += 1

    def at(self, now: float) -> WindowEntry:
        """The window at the first of its times that is not over; as it is if there is none."""
        return next(self.times(now, 1), self)


def _later(time: float, days: int) -> float:
    """The same time of the day, so many *days* later."""
    if not days:
        return time
    try:
        return (datetime.fromtimestamp(time) + timedelta(days)).timestamp()
    except (ValueError, OverflowError, OSError):
        return LATEST + 1.0


def read(value: object) -> WindowEntry:
    """The window in one JSON value, whose hosts may be still to choose.

    Raises InvalidWindow with the first problem and its pointer.
    """
    document.check_depth(value, InvalidWindow, "window")
    findings = Findings()
    entry = _Reader(findings, chosen=True).window(value, "")
    findings.check(InvalidWindow)
    return entry


def read_all(value: object, closed: bool = True) -> tuple[WindowEntry, ...]:
    """The windows in a JSON array, each with a name of its own; raises InvalidWindow.

    An unknown key is wrong if they are *closed*; otherwise it is ignored.
    """
    document.check_depth(value, InvalidWindow, "windows")
    findings = Findings()
    entries = read_into(findings, value, "", closed)
    findings.check(InvalidWindow)
    return entries


def read_into(
    findings: Findings, value: object, at: str, closed: bool = True
) -> tuple[WindowEntry, ...]:
    """The windows in a JSON array at pointer *at*; what is wrong is noted in *findings*."""
    if isinstance(value, list) and len(value) > MAX_WINDOWS:
        findings.note(at, f"more than {MAX_WINDOWS} windows")
        return ()
    return tuple(findings.items(value, at, _Reader(findings, closed).window))


def ranks_of(hosts: str, R: ResourceSet) -> tuple[int, list[str]]:
    """The ranks (bitmask) of *R* on *hosts*, a hostlist, and which of these are not in *R*."""
    wanted = dict.fromkeys(hostlist.decode(hosts))
    ids = [rank for rank, host in zip(idset.iterate(R.mask), R.hosts) if host in wanted]
    known = set(R.hosts)
    return idset.from_ids(ids), [host for host in wanted if host not in known]


class _Reader:
    """Reads windows, and keeps which names are taken."""

    def __init__(self, findings: Findings, closed: bool = True, chosen: bool = False) -> None:
        self.findings = findings
        self.closed = closed
        #: Whether the scheduler may have chosen the hosts, or is to choose them.
        self.chosen = chosen or not closed
        self.names: set[str] = set()
        self.hosts_seen = 0

    def window(self, value: object, at: str) -> WindowEntry:
        findings = self.findings
        known = len(findings)
        readers: Readers = {
            "name": self.name,
            "hosts": self.hosts,
            "start": self.time,
            "end": self.time,
            "users": lambda v, at: self.names_of(v, at, self.user),
            **dict.fromkeys(
                ("queues", "groups", "banks"), lambda v, at: self.names_of(v, at, self.word)
            ),
            "every": lambda v, at: findings.integer(v, at, 1, MAX_DAYS),
            **dict.fromkeys(CHOSEN if self.chosen else (), findings.string),
        }
        found = findings.members(value, at, readers, REQUIRED, self.closed)
        if len(findings) > known:
            return WindowEntry("", "", 0.0, 0.0)
        entry = WindowEntry(**found)
        if not entry.hosts and not entry.shape:
            findings.note(f"{at}/hosts", "must not be empty")
        if entry.end <= entry.start:
            findings.note(f"{at}/end", "must be later than the start")
        if entry.every and entry.end > _later(entry.start, entry.every):
            findings.note(f"{at}/every", "it would come again before it is over")
        if entry.name in self.names:
            findings.note(f"{at}/name", f"an earlier window is called {shown(entry.name)}, too")
        self.names.add(entry.name)
        return entry

    def name(self, value: object, at: str) -> str:
        name = self.findings.string(value, at)
        if isinstance(value, str) and not NAME.fullmatch(name):
            message = f"must be 1 to 64 letters, digits and ._-, not {shown(name)}"
            self.findings.note(at, message)
        return name

    def hosts(self, value: object, at: str) -> str:
        text = self.findings.string(value, at)
        try:
            size = hostlist.size(text) if self.hosts_seen <= hostlist.MAX_HOSTS else 0
        except InvalidHostlist as e:
            self.findings.note(at, str(e))
            return text
        self.hosts_seen += size
        if self.hosts_seen > hostlist.MAX_HOSTS:
            self.findings.note(
                at, f"all windows together have more than {hostlist.MAX_HOSTS} hosts"
            )
        elif text and not size:
            self.findings.note(at, "must have at least one host")
        return text

    def time(self, value: Any, at: str) -> float:
        if number(value):
            return self.findings.number(value, at, 0, LATEST)
        if isinstance(value, dict) and list(value) == [TOML_TIME]:
            value = value[TOML_TIME]
        if not isinstance(value, str):
            self.findings.mistyped(at, "seconds since the epoch or an ISO 8601 time", value)
            return 0.0
        try:
            return seconds_of_iso(value)
        except ValueError as e:
            self.findings.note(at, f"{shown(value)} {e}")
            return 0.0

    def names_of(self, value: object, at: str, read: Any) -> tuple[Any, ...]:
        if isinstance(value, list) and len(value) > MAX_NAMES:
            self.findings.note(at, f"has more than {MAX_NAMES} names")
            return ()
        return tuple(dict.fromkeys(self.findings.items(value, at, read, least=1)))

    def user(self, value: Any, at: str) -> Union[str, int]:
        if integer(value):
            return self.findings.integer(value, at, 0, MAX_USER)
        if not isinstance(value, str):
            self.findings.mistyped(at, "a user's name or id", value)
            return 0
        return self.word(value, at)

    def word(self, value: object, at: str) -> str:
        text = self.findings.string(value, at, least=1)
        if len(text) > MAX_WORD or not text.isprintable() or " " in text:
            self.findings.note(
                at, f"must be {MAX_WORD} printable characters at most, without blanks"
            )
        return text
