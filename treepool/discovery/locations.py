"""Where a site's hosts are, according to a file."""

from __future__ import annotations

import attrs

from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import fabric, hostlist
from treepool.rfc.findings import shown

#: The domains that a host is in: locality and name, the highest first.
Location = tuple[tuple[str, str], ...]

#: Most hosts and switches in all lists of a file together, and most levels of domains.
_MAX_HOSTS, MAX_LEVELS = 1 << 20, 64


@attrs.define
class Site:
    """The location of each host, the first one that the file gives.

    ``twice`` has the hosts that it gives several locations.
    """

    locations: dict[str, Location] = attrs.field(factory=dict)
    twice: dict[str, None] = attrs.field(factory=dict)
    #: The last location that was checked: hosts of the same domain share it.
    _checked: Location = attrs.field(default=(), init=False, eq=False, repr=False)

    def put(self, host: str, location: Location) -> None:
        """Note the *location* of *host*.

        Raises InvalidHardware if a key may not have such localities, or names as long.
        """
        if location is not self._checked:
            self._check(host, location)
            self._checked = location
        first = self.locations.setdefault(host, location)
        if first is not location and first != location:
            self.twice[host] = None

    def _check(self, host: str, location: Location) -> None:
        if len(location) > MAX_LEVELS:
            raise InvalidHardware(f"host {shown(host)} is in more than {MAX_LEVELS} domains")
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
    """Reads the hostlists of a file, at most _MAX_HOSTS hosts in all of them together."""

    count: int = 0

    def __call__(self, text: object, where: str) -> list[str]:
        """The hosts in the hostlist *text*."""
        if not isinstance(text, str):
            raise InvalidHardware(f"{where}: must be a list of hosts, not {shown(text)}")
        try:
            found = list(hostlist.decode(text))
        except InvalidHostlist as e:
            raise InvalidHardware(f"{where}: {e}") from None
        self.count += len(found)
        if self.count > _MAX_HOSTS:
            raise InvalidHardware(f"{where}: more than {_MAX_HOSTS} hosts and switches so far")
        return found
