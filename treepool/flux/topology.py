"""Nodes whose topology R lacks: when they go up, which are flat, and what the log says of them.

discover.py decides how their brokers are asked, and for which reasons a node stays flat.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from treepool.discovery.key import Nodes, encode_into
from treepool.flux.context import Context
from treepool.flux.discover import Discovery
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.findings import shown
from treepool.rfc.scheduling import FLUXION


class Topology:
    """The topology of the nodes, which brokers are asked for if *discovers*.

    A node stays down until its topology is known. *changed* is called when nodes got theirs, with
    whether localities changed by that.
    """

    def __init__(self, context: Context, discovers: bool, changed: Callable[[bool], None]) -> None:
        self._log, self._pool = context.log, context.pool
        self._changed = changed
        self._discovery: Optional[Discovery] = None
        self._said = ""
        R = self._pool.inventory.resource_set
        self._log.info(f"topology: {_known(self._pool, discovers)}")
        if discovers:
            exact = int(context.handle.attr_get("instance-level")) > 0
            self._discovery = Discovery(context.handle, R, self._on_topology, exact)

    @property
    def stats(self) -> Optional[dict[str, int]]:
        """How discovery stands; None if nothing is discovered."""
        return self._discovery.stats if self._discovery else None

    @property
    def unknown(self) -> int:
        """The ranks that are asked for their topology (bitmask)."""
        return self._discovery.unknown if self._discovery else 0

    @property
    def starts(self) -> bool:
        """Whether the nodes that were up first have not all got their topology yet."""
        discovery = self._discovery
        return discovery is not None and bool(discovery.first and self._pool.ranks)

    @property
    def asks(self) -> bool:
        """Whether more may be known soon: what is refused now may be served then."""
        return self.starts or bool(self.unknown)

    @property
    def complete(self) -> bool:
        """Whether the topology of all nodes that could be asked is known."""
        return self._discovery is None or not self._pool.ranks & ~self._discovery.known

    def filtered(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resource update without the nodes that must stay down until they are known."""
        discovery, ranks = self._discovery, self._pool.ranks
        if discovery is None:
            return data
        if "up" in data:
            up = ranks if data["up"] == "all" else idset.decode(str(data["up"])) & ranks
            discovery.up |= up
            discovery.want(up)
            data = {**data, "up": idset.encode(up & discovery.known)}
        if "down" in data:
            down = str(data["down"])
            discovery.up &= 0 if down == "all" else ~idset.decode(down)
        return data

    def _on_topology(self, found: list[Nodes], failed: dict[int, str]) -> None:
        """Give nodes the topology that their brokers sent, and use the nodes."""
        discovery, pool = self._discovery, self._pool
        assert discovery is not None
        localities = pool.localities
        if found:
            try:
                encoded = encode_into(pool.inventory.resource_set, found)
                pool.replace_key(encoded.R.scheduling or {})
            except Exception as e:  # the nodes must be of use all the same
                self._log.error(f"topology: {str(e) or type(e).__name__}: nodes stay flat")
        for reason in sorted(set(failed.values())):
            ranks = idset.encode(idset.from_ids(r for r, why in failed.items() if why == reason))
            self._log.warning(f"topology: rank {ranks} is flat: {reason}")
        pool.mark_up(idset.encode(discovery.up & discovery.known))
        if not discovery.unknown:
            said = "topology: none, nodes are flat"
            if pool.localities:
                nodes = f"{discovery.nodes} node" + "s" * (discovery.nodes != 1)
                said = f"topology: {', '.join(pool.localities)} (hwloc of {nodes})"
            if said != self._said:  # nodes may come up one by one
                self._said = said
                self._log.info(said)
        self._changed(pool.localities != localities)


def _known(pool: Pool, discovers: bool) -> str:
    """What the R of *pool* says of the topology."""
    R = pool.inventory.resource_set
    if pool.localities:
        return ", ".join(pool.localities)
    if discovers:
        return "none in R, asking the brokers"
    if R.scheduling is not None and pool.inventory.key is None:
        writer = shown(R.scheduling.get("writer", FLUXION))
        return f"the key in R is that of {writer}, nodes are flat"
    return "none in R, nodes are flat"
