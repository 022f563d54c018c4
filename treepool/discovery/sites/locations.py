"""Where a site's hosts are, what levels of switches are called, how several topologies merge."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Container, Iterable, Mapping

import attrs

from treepool.discovery.slurmlines import File, alone
from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import fabric, hostlist, topo
from treepool.rfc.findings import shown
from treepool.rfc.quote import shortened

#: The domains that a host is in: locality and name, the highest first.
Location = tuple[tuple[str, str], ...]

#: What switches are called by the levels of switches below them.
_SWITCHES = ("switch", "spine", "superspine")

#: Most hosts and switches in all lists of a file together.
_MAX_HOSTS = 1 << 20

#: Longest list of hosts in a warning.
_MOST_SHOWN = 200


def switch_at(level: int) -> str:
    """What a switch is called that has *level* levels of switches below it."""
    return _SWITCHES[level] if level < len(_SWITCHES) else f"level{level}"


def listed(hosts: list[str]) -> str:
    """*hosts* in a warning."""
    return shortened(hostlist.encode(hosts), _MOST_SHOWN)


@attrs.define
class Site:
    """The location of each of the *hosts*, the first one that the file gives.

    Other hosts of the file are dropped: a site has more than an instance. ``twice`` has the hosts
    to which the file gives another location that is not around the first. ``topology`` is the one
    to read of a file of several, "" for all of them.
    """

    hosts: Container[str]
    locations: dict[str, Location] = attrs.field(factory=dict)
    twice: dict[str, None] = attrs.field(factory=dict)
    topology: str = ""
    #: A line for whatever was left out, and how many lines of the file were, in a few words each.
    warnings: list[str] = attrs.field(factory=list)
    left_out: list[str] = attrs.field(factory=list)
    #: Reads a file that is included.
    beside: Callable[[str], File] = alone
    #: The adapter by which hosts are placed, "" for the one that most have.
    rail: str = ""
    #: The last location that was checked: hosts of the same domain share it.
    _checked: Location = attrs.field(default=(), init=False, eq=False, repr=False)

    def put(self, host: str, location: Location) -> None:
        """Note the *location* of *host*, if it is one of the hosts.

        Raises InvalidHardware if a key may not have such localities, or names as long.
        """
        if location is not self._checked:
            self._check(host, location)
            self._checked = location
        if host not in self.hosts:
            return
        first = self.locations.setdefault(host, location)
        if first is not location and first[: len(location)] != location:
            self.twice[host] = None

    def _check(self, host: str, location: Location) -> None:
        if len(location) > topo.MAX_LEVELS:
            raise InvalidHardware(f"host {shown(host)} is in more than {topo.MAX_LEVELS} domains")
        above: set[str] = set()
        for locality, name in location:
            if locality in above:
                text = f"locality {shown(locality)} is inside one of the same name"
                raise InvalidHardware(f"host {shown(host)}: {text}")
            above.add(locality)
            if locality in fabric.RESERVED or not locality:
                text = f"{shown(locality)} cannot be the name of a locality"
                raise InvalidHardware(f"host {shown(host)}: {text}")
            if len(name) > fabric.MAX_NAME:
                text = f"longer than {fabric.MAX_NAME} characters"
                raise InvalidHardware(
                    f"host {shown(host)}: the name of its {shown(locality)} is {text}"
                )


@attrs.define
class HostLists:
    """Reads the hostlists of a file, at most _MAX_HOSTS names in all of them together.

    Of the hosts, those that are not among *hosts* are dropped. *decode* reads a hostlist.
    """

    hosts: Container[str]
    decode: Callable[[str], list[str]] = hostlist.decode
    count: int = 0

    def __call__(self, text: object, where: str) -> list[str]:
        """The hosts in the hostlist *text*."""
        return [host for host in self.names(text, where) if host in self.hosts]

    def names(self, text: object, where: str) -> list[str]:
        """All names in the hostlist *text*, which has switches."""
        if not isinstance(text, str):
            raise InvalidHardware(f"{where}: must be a list of hosts, not {shown(text)}")
        try:
            found = self.decode(text)
        except InvalidHostlist as e:
            raise InvalidHardware(f"{where}: {e}") from None
        self.count += len(found)
        if self.count > _MAX_HOSTS:
            raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts and switches so far")
        return found


# -- several topologies of the same hosts

#: The domain of each host in one locality, as its location down to there.
_Level = dict[str, Location]


def put_merged(site: Site, sites: Mapping[str, Site]) -> None:
    """Put into *site* the locations of several *sites*, by the names of their topologies.

    Their localities nest: of two domains that share hosts, one is in the other. Raises
    InvalidHardware, with two domains that cross, or a locality that two topologies have.
    """
    order: list[tuple[str, str]] = []  # names of a topology and a locality, the highest first
    levels: dict[tuple[str, str], _Level] = {}
    for name, one in sites.items():
        for locality in _highest_first(one.locations.values()):
            new = _level(one, locality)
            place = 0
            for i, above in enumerate(order):
                if above[1] == locality and above[0] != name:
                    raise InvalidHardware(
                        f"topologies {shown(above[0])} and {shown(name)} both have localities "
                        f"called {shown(locality)}: choose one with --topology"
                    )
                if above[0] == name or _is_around(levels[above], new):
                    place = i + 1
            for below in order[:place]:
                if below[0] != name and not _is_around(levels[below], new):
                    _refuse(below[0], levels[below], name, new)
            for below in order[place:]:
                if not _is_around(new, levels[below]):
                    _refuse(below[0], levels[below], name, new)
            order.insert(place, (name, locality))
            levels[name, locality] = new
            if len(order) > topo.MAX_LEVELS:
                raise InvalidHardware(f"more than {topo.MAX_LEVELS} localities")
    hosts = dict.fromkeys(host for one in sites.values() for host in one.locations)
    for host in hosts:
        site.put(host, tuple(levels[at][host][-1] for at in order if host in levels[at]))
    for one in sites.values():
        site.twice.update(one.twice)


def _highest_first(locations: Iterable[Location]) -> list[str]:
    """The localities of *locations*, those with the most others below them first."""
    below: dict[str, int] = {}
    for location in set(locations):
        for i, (locality, _) in enumerate(reversed(location)):
            below[locality] = max(below.get(locality, 0), i)
    return sorted(below, key=lambda locality: -below[locality])


def _level(site: Site, locality: str) -> _Level:
    return {
        host: location[: i + 1]
        for host, location in site.locations.items()
        for i, (name, _) in enumerate(location)
        if name == locality
    }


def _is_around(outer: _Level, inner: _Level) -> bool:
    """Whether each domain of *inner* that shares hosts with one of *outer* is in it."""
    sizes = Counter(inner.values())
    shared = Counter((outer[host], domain) for host, domain in inner.items() if host in outer)
    return all(number == sizes[domain] for (_, domain), number in shared.items())


def _refuse(old_name: str, old: _Level, new_name: str, new: _Level) -> None:
    """Raise InvalidHardware with two domains that cross, or nest the other way than others."""
    pairs = Counter((old[host], domain) for host, domain in new.items() if host in old)
    sizes, others = Counter(old.values()), Counter(new.values())
    crossing = [
        pair for pair, n in pairs.items() if n < sizes[pair[0]] and n < others[pair[1]]
    ] or list(pairs)
    (a, b) = crossing[0]
    raise InvalidHardware(
        f"{a[-1][0]} {shown(a[-1][1])} of topology {shown(old_name)} and {b[-1][0]} "
        f"{shown(b[-1][1])} of {shown(new_name)} cross: choose one with --topology"
    )
