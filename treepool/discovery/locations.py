"""Where a site's hosts are, as a file says it."""

from __future__ import annotations

import attrs

from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import fabric, hostlist
from treepool.rfc.findings import shown

#: The domains that a host is in: locality and name, the highest first.
Path = tuple[tuple[str, str], ...]

#: Most hosts and switches that the lists of a file name in all, and most levels of domains.
_MAX_HOSTS, MAX_LEVELS = 1 << 20, 64


@attrs.define
class Site:
    """Where each host is, and the hosts that were given more than one place: the first counts."""

    places: dict[str, Path] = attrs.field(factory=dict)
    twice: dict[str, None] = attrs.field(factory=dict)

    def put(self, host: str, path: Path) -> None:
        """Note that *host* is in the domains of *path*, whose localities a key may have."""
        if len(path) > MAX_LEVELS:
            raise InvalidHardware(f"host {shown(host)} is in more than {MAX_LEVELS} domains")
        for name, _ in path:
            if name in fabric.RESERVED or not name:
                text = f"{shown(name)} cannot be the name of a locality"
                raise InvalidHardware(f"host {shown(host)}: {text}")
        if self.places.setdefault(host, path) != path:
            self.twice[host] = None


@attrs.define
class HostLists:
    """Reads the hostlists of a file, which have at most _MAX_HOSTS hosts in all."""

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
