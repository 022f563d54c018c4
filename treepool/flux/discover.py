"""Topology of an instance whose R has no key: asked of the brokers as they come up.

Requests are asynchronous and few at a time; the XML of nodes that are alike is read once. Ranks
are handed over in batches, because a new key for the whole pool takes time linear in its nodes.
A rank is not used before its topology is known, or known not to be had.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable

from treepool.discovery.describe import Describer
from treepool.discovery.key import Nodes
from treepool.errors import InvalidHardware
from treepool.flux.hardware import IN_FLIGHT, TIMEOUT, TOPO_GET, answer_of
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: Least time between two batches, in seconds; a batch also waits ten times as long as the last
#: one took.
INTERVAL = 0.25

#: Receives a batch: what was learnt, and why not of each other rank. Together, all its ranks.
Receiver = Callable[[list[Nodes], dict[int, str]], None]


class Discovery:
    """Asks brokers for the topology of their nodes, and hands it to *receive* in batches.

    With *exact* a node must have just the cores that R says: in a sub-instance whose brokers see
    the whole machine, R's ids say nothing about it.
    """

    def __init__(self, handle: Any, R: ResourceSet, receive: Receiver, exact: bool) -> None:
        self._handle = handle
        self._receive = receive
        self._exact = exact
        self._entries = R.entries
        self._describer = Describer()
        self._waiting: deque[int] = deque()
        self._in_flight: dict[int, Any] = {}
        self._found: list[Nodes] = []
        self._failed: dict[int, str] = {}
        #: Bitmasks of ranks: handed over; asked for; up.
        self.known = 0
        self.wanted = 0
        self.up = 0
        #: How many nodes told their topology.
        self.nodes = 0
        self._due = 0.0
        self._timer = handle.timer_watcher_create(0.0, self._on_timer)

    @property
    def pending(self) -> bool:
        """Whether there are ranks that were asked for and not handed over."""
        return bool(self.wanted & ~self.known)

    @property
    def stats(self) -> dict[str, int]:
        """How many nodes told their topology, how many different XMLs that were, who is asked."""
        waiting = idset.size(self.wanted & ~self.known)
        return {"nodes": self.nodes, "parsed": self._describer.parsed, "waiting": waiting}

    def want(self, ranks: int) -> None:
        """Ask for the topology of *ranks* (bitmask), if that was not done already."""
        new = ranks & ~self.wanted
        self.wanted |= new
        self._waiting.extend(idset.iterate(new))
        self._ask()

    def _ask(self) -> None:
        while self._waiting and len(self._in_flight) < IN_FLIGHT:
            rank = self._waiting.popleft()
            future = self._handle.rpc(TOPO_GET, nodeid=rank)
            self._in_flight[rank] = future
            future.then(self._on_answer, rank, timeout=TIMEOUT)

    def _on_answer(self, future: Any, rank: int) -> None:
        if self._in_flight.pop(rank, None) is None:
            return
        answer = answer_of(future)
        if isinstance(answer, bytes):
            try:
                self._take(rank, answer)
            except InvalidHardware as e:
                self._failed[rank] = str(e)
        else:
            self._failed[rank] = answer
        self._ask()
        last = not self._in_flight and not self._waiting
        self._timer.reset(after=0.0 if last else max(0.0, self._due - time.monotonic()))

    def _take(self, rank: int, xml: bytes) -> None:
        node = self._describer.of_xml(xml, f"rank {rank}")
        entry = next(e for e in self._entries if e.ranks >> rank & 1)
        machine = node.machine
        gpus = idset.from_ids(gpu.id for gpu in machine.gpus)
        stray_cores, stray_gpus = entry.cores & ~machine.cores, entry.gpus & ~gpus
        if stray_cores or stray_gpus:
            what = "cores" if stray_cores else "gpus"
            ids = idset.encode(stray_cores or stray_gpus)
            self._failed[rank] = f"R has {what} {ids}, which its hwloc topology does not"
        elif self._exact and entry.cores != machine.cores:
            self._failed[rank] = "its hwloc topology has more cores than R, so ids may differ"
        else:
            self._found.append(Nodes(1 << rank, node))

    def _on_timer(self, *_: Any) -> None:
        found, failed = self._found, self._failed
        if not found and not failed:
            return
        self._found, self._failed = [], {}
        for ranks in [n.ranks for n in found] + [1 << rank for rank in failed]:
            self.known |= ranks
        self.nodes += len(found)
        began = time.monotonic()
        self._receive(found, failed)
        now = time.monotonic()
        self._due = now + max(INTERVAL, 10 * (now - began))
