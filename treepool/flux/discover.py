"""Discovery of topology if R has no key: whom to ask, how often, how long, and why a node is flat.

Requests are asynchronous, and only a few are open at a time. Only one of many equal nodes is asked
for its XML, see digests.py. XML that several nodes share is parsed once. Ranks are handed over in
batches, because making a new key for the whole pool takes time linear in its nodes. A rank is not
used until its topology is known, or known to be unavailable.

If a broker answers with an error, or does not answer in time, its rank is handed over without
topology. The broker is asked again whenever its node comes up. A late answer is still used.

Time is counted in ticks of the reactor. A busy module cannot receive answers, and the time for
which it is busy does not count towards a broker's timeout.
"""

from __future__ import annotations

import math
import time
from collections import deque
from itertools import islice
from typing import Any, Callable, Optional

import attrs

from treepool.discovery.describe import Describer
from treepool.discovery.key import Nodes
from treepool.discovery.levels import NodeTopo
from treepool.flux.callbacks import Timer, then
from treepool.flux.digests import Digests
from treepool.flux.hardware import IN_FLIGHT, LATE, TIMEOUT, TOPO_GET, answer_of
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: Least time between two batches, in seconds. A batch also waits for ten times as long as the
#: previous one took.
INTERVAL = 0.25

#: Seconds of a tick.
TICK = 1.0

#: How many nodes are asked for their XML immediately. All others are asked for a digest first.
FEW = 64

#: Receives a batch: the topologies found, and the reason for each rank that has none.
Receiver = Callable[[list[Nodes], dict[int, str]], None]


@attrs.frozen
class OpenRequest:
    """A request to the broker of a rank; it is late if tick ``due`` comes before an answer."""

    rank: int
    due: int


class Discovery:
    """Asks brokers for the topology of their nodes, and hands it to *receive* in batches.

    With *exact*, a node must have exactly the cores that R lists: in a sub-instance whose brokers
    see the whole machine, the ids in R do not tell which of its cores the instance has.
    """

    def __init__(self, handle: Any, R: ResourceSet, receive: Receiver, exact: bool) -> None:
        self._handle = handle
        self._receive = receive
        self._exact = exact
        self._entries = R.entries
        self._describer = Describer()
        self._digests = Digests(handle, self._on_digest)
        #: For each rank whose XML is asked for on behalf of others too, its digest; and by digest,
        #: the others, which wait for that XML.
        self._first: dict[int, bytes] = {}
        self._alike: dict[bytes, list[int]] = {}
        #: Ranks to ask for their XML, and ranks to ask for a digest first.
        self._waiting: deque[int] = deque()
        self._many: list[int] = []
        #: Open requests that are not late, by rank.
        self._open: dict[int, OpenRequest] = {}
        self._found: list[Nodes] = []
        self._failed: dict[int, str] = {}
        #: Bitmasks of ranks: those asked for at first that are not handed over yet, -1 before any
        #: is; handed over, asked for, up, and with a known topology, even if not handed over yet.
        self.first = -1
        self.known = 0
        self.wanted = 0
        self.up = 0
        self._described = 0
        #: How many nodes have sent their topology.
        self.nodes = 0
        #: How many bytes of XML arrived.
        self._bytes = 0
        self._due = 0.0
        self._timer = Timer(handle, self._on_timer)
        self._ticks = 0
        self._ticking = False
        self._clock = Timer(handle, self._on_tick)

    @property
    def unknown(self) -> int:
        """The ranks that were asked for and are not handed over yet, as a bitmask."""
        return self.wanted & ~self.known

    @property
    def stats(self) -> dict[str, int]:
        """How many nodes have a topology, how much XML arrived and was parsed, and so on."""
        return {
            "nodes": self.nodes,
            "parsed": self._describer.parsed,
            "waiting": idset.size(self.unknown),
            "digests": self._digests.told,
            "xml-bytes": self._bytes,
        }

    @property
    def _quiet(self) -> bool:
        """Whether no more answers are expected soon."""
        return not (self._open or self._waiting or self._digests.open)

    def want(self, ranks: int) -> None:
        """Ask for the topology of *ranks* (bitmask), which came up, unless it is known already.

        The reactor must be running, or about to: it receives the answers, which can be late.
        """
        new = ranks & ~self._described & ~self.unknown
        if new and self.first < 0:
            self.first = new
        self.wanted |= new
        self.known &= ~new
        few = max(0, FEW - idset.size(self.wanted & ~new))
        self._waiting.extend(islice(idset.iterate(new), few))
        self._many.extend(islice(idset.iterate(new), few, None))
        self._ask()

    def _ask(self) -> None:
        while self._waiting and len(self._open) < IN_FLIGHT:
            rank = self._waiting.popleft()
            if self._described >> rank & 1 or rank in self._open:
                continue
            # One tick more, because the next tick may come at once.
            request = OpenRequest(rank, self._ticks + 1 + math.ceil(TIMEOUT / TICK))
            self._open[rank] = request
            future = self._handle.rpc(TOPO_GET, nodeid=rank)
            then(self._handle, future, self._on_answer, request)
        if self._many:
            many, self._many = self._many, []
            self._digests.ask(many)
        self._keep_ticking()

    def _on_digest(self, rank: int, digest: Optional[bytes]) -> None:
        """Use the topology of nodes with *digest*, wait for it, or ask *rank* for its XML."""
        if self._described >> rank & 1:  # its XML was asked for meanwhile
            return
        node = self._describer.known(digest) if digest else None
        if node is not None:
            self._use(rank, node)
            self._hand_over_soon()
        elif digest in self._alike:
            self._alike[digest].append(rank)
        else:
            if digest:
                self._alike[digest], self._first[rank] = [], digest
            self._waiting.append(rank)
            self._ask()

    def _answered(self, rank: int, sent: bool) -> None:
        """Continue with the ranks that wait for the XML of *rank*, which was *sent* or is late.

        If the XML does not have the digest that its node sent, digests are of no use for the other
        ranks: each of them is asked for its XML.
        """
        digest = self._first.pop(rank, None)
        if digest is not None:
            told = None if sent and self._describer.known(digest) is None else digest
            for other in self._alike.pop(digest):
                self._on_digest(other, told)

    # -- answers

    def _on_answer(self, future: Any, request: OpenRequest) -> None:
        rank = request.rank
        current = self._open.get(rank) is request
        if current:
            del self._open[rank]
        answer = answer_of(future)
        sent = isinstance(answer, bytes)
        if not self._described >> rank & 1:
            if isinstance(answer, bytes):
                self._bytes += len(answer)
                try:
                    self._use(rank, self._describer.of_xml(answer, f"rank {rank}"))
                except Exception as e:  # whatever it sent: others must not wait for it
                    self._failed[rank] = str(e) or type(e).__name__
            elif current:
                self._failed[rank] = answer
        self._answered(rank, sent)
        self._ask()
        self._hand_over_soon()

    def _use(self, rank: int, node: NodeTopo) -> None:
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
            self._failed.pop(rank, None)
            self._described |= 1 << rank
            self._found.append(Nodes(1 << rank, node))

    # -- time

    def _keep_ticking(self) -> None:
        if not self._ticking and (self._open or self._digests.open):
            self._ticking = True
            self._clock.set(TICK)

    def _on_tick(self) -> None:
        self._ticking = False
        self._ticks += 1
        late = [request.rank for request in self._open.values() if request.due <= self._ticks]
        for rank in late:
            del self._open[rank]
            self._failed[rank] = LATE
            self._answered(rank, False)
        self._digests.tick()
        self._ask()
        if late:
            self._hand_over_soon()

    def _hand_over_soon(self) -> None:
        last = self._quiet
        self._timer.set(0.0 if last else self._due - time.monotonic())

    def _on_timer(self) -> None:
        found, failed = self._found, self._failed
        if not found and not failed:
            return
        self._found, self._failed = [], {}
        for ranks in [n.ranks for n in found] + [1 << rank for rank in failed]:
            self.known |= ranks
        self.first &= ~self.known
        self.nodes += len(found)
        began = time.monotonic()
        self._receive(found, failed)
        now = time.monotonic()
        self._due = now + max(INTERVAL, 10 * (now - began))
