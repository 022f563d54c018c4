"""Where a site's hosts are, according to a file."""

from __future__ import annotations

from typing import Container

import attrs

from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import fabric, hostlist, topo
from treepool.rfc.findings import shown

#: The domains that a host is in: locality and name, the highest first.
Location = tuple[tuple[str, str], ...]

#: Most hosts and switches in all lists of a file together.
_MAX_HOSTS = 1 << 20


@attrs.define
class Site:
    """The location of each of the *hosts*, the first one that the file gives.

    Other hosts of the file are dropped: a site has more than an instance. ``twice`` has the hosts
    to which the file gives several locations.
    """

    hosts: Container[str]
    locations: dict[str, Location] = attrs.field(factory=dict)
    twice: dict[str, None] = attrs.field(factory=dict)
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
        if first is not location and first != location:
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

    Of the hosts, those that are not among *hosts* are dropped.
    """

    hosts: Container[str]
    count: int = 0

    def __call__(self, text: object, where: str) -> list[str]:
        """The hosts in the hostlist *text*."""
        return [host for host in self.names(text, where) if host in self.hosts]

    def names(self, text: object, where: str) -> list[str]:
        """All names in the hostlist *text*, which has switches."""
        if not isinstance(text, str):
            raise InvalidHardware(f"{where}: must be a list of hosts, not {shown(text)}")
        try:
            found = hostlist.decode(text)
        except InvalidHostlist as e:
            raise InvalidHardware(f"{where}: {e}") from None
        self.count += len(found)
        if self.count > _MAX_HOSTS:
            raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts and switches so far")
        return found
