"""Topology of an instance whose R has no key: asked of the brokers as they come up.

Requests are asynchronous and few at a time; the XML of nodes that are alike is read once. Ranks
are handed over in batches, because a new key for the whole pool takes time linear in its nodes.
A rank is not used before its topology is known, or known not to be had.

A rank whose broker does not answer in time, or with an error, is handed over without topology. It
is asked again a few times, and whenever it comes up again. An answer that is late is used, too.

Time is counted in ticks of the reactor. While the module is busy it cannot receive answers, so this
time is not held against the brokers.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from typing import Any, Callable

import attrs

from treepool.discovery.describe import Describer
from treepool.discovery.key import Nodes
from treepool.errors import InvalidHardware
from treepool.flux.hardware import IN_FLIGHT, LATE, TIMEOUT, TOPO_GET, answer_of
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: Least time between two batches, in seconds; a batch also waits ten times as long as the last
#: one took.
INTERVAL = 0.25

#: Seconds of a tick.
TICK = 1.0

#: Ticks after which a broker that did not tell its topology is asked again, each time.
RETRIES = (10, 30, 120)

#: Receives a batch: what was learnt, and why not of each other rank. Together, all its ranks.
Receiver = Callable[[list[Nodes], dict[int, str]], None]


@attrs.frozen
class Question:
    """A request to the broker of a rank; it is late if there is no answer at tick ``due``."""

    rank: int
    due: int


class Discovery:
    """Asks brokers for the topology of their nodes, and hands it to *receive* in batches.

    With *exact* a node must have just the cores that R says: in a sub-instance whose brokers see
    the whole machine, R's ids say nothing about it. Nothing is asked before ``begin``.
    """

    def __init__(self, handle: Any, R: ResourceSet, receive: Receiver, exact: bool) -> None:
        self._handle = handle
        self._receive = receive
        self._exact = exact
        self._entries = R.entries
        self._describer = Describer()
        self._begun = False
        #: Ranks to ask; the questions without an answer that are not late, by rank; the ticks at
        #: which to ask ranks again; and how often each was asked again since it came up.
        self._waiting: deque[int] = deque()
        self._open: dict[int, Question] = {}
        self._again: list[tuple[int, int]] = []
        self._tries: dict[int, int] = {}
        self._found: list[Nodes] = []
        self._failed: dict[int, str] = {}
        #: Why each rank was handed over without topology, as far as that is known.
        self._told: dict[int, str] = {}
        #: Bitmasks of ranks: handed over; asked for; up; with a topology, handed over or not.
        self.known = 0
        self.wanted = 0
        self.up = 0
        self._described = 0
        #: How many nodes told their topology.
        self.nodes = 0
        self._due = 0.0
        self._timer = handle.timer_watcher_create(0.0, self._on_timer)
        self._ticks = 0
        self._ticking = False
        self._clock = handle.timer_watcher_create(0.0, self._on_tick)

    @property
    def unknown(self) -> int:
        """The ranks that were asked for and not handed over, as bitmask."""
        return self.wanted & ~self.known

    @property
    def stats(self) -> dict[str, int]:
        """How many nodes told their topology, how many different XMLs that were, who is asked."""
        waiting = idset.size(self.unknown)
        return {"nodes": self.nodes, "parsed": self._describer.parsed, "waiting": waiting}

    def begin(self) -> None:
        """Ask; to be called when the reactor is about to run, and answers can be received."""
        self._begun = True
        self._ask()

    def want(self, ranks: int) -> None:
        """Ask for the topology of *ranks* (bitmask), which came up, where it is not known yet."""
        new = ranks & ~self._described & ~self.unknown
        for rank in idset.iterate(new):
            self._tries.pop(rank, None)
            self._told.pop(rank, None)
        self.wanted |= new
        self.known &= ~new
        self._waiting.extend(idset.iterate(new))
        self._ask()

    def _ask(self) -> None:
        while self._begun and self._waiting and len(self._open) < IN_FLIGHT:
            rank = self._waiting.popleft()
            if self._described >> rank & 1 or rank in self._open:
                continue
            # The tick that comes next may be near.
            question = Question(rank, self._ticks + 1 + math.ceil(TIMEOUT / TICK))
            self._open[rank] = question
            self._handle.rpc(TOPO_GET, nodeid=rank).then(self._on_answer, question)
        self._keep_ticking()

    # -- answers

    def _on_answer(self, future: Any, question: Question) -> None:
        rank = question.rank
        current = self._open.get(rank) is question
        if current:
            del self._open[rank]
        if not self._described >> rank & 1:
            answer = answer_of(future)
            if isinstance(answer, bytes):
                try:
                    self._take(rank, answer)
                except InvalidHardware as e:
                    self._fail(rank, str(e))
            elif current:
                self._fail(rank, answer)
                self._ask_again(rank)
        self._ask()
        self._hand_over_soon()

    def _take(self, rank: int, xml: bytes) -> None:
        node = self._describer.of_xml(xml, f"rank {rank}")
        entry = next(e for e in self._entries if e.ranks >> rank & 1)
        machine = node.machine
        gpus = idset.from_ids(gpu.id for gpu in machine.gpus)
        stray_cores, stray_gpus = entry.cores & ~machine.cores, entry.gpus & ~gpus
        if stray_cores or stray_gpus:
            what = "cores" if stray_cores else "gpus"
            ids = idset.encode(stray_cores or stray_gpus)
            self._fail(rank, f"R has {what} {ids}, which its hwloc topology does not")
        elif self._exact and entry.cores != machine.cores:
            self._fail(rank, "its hwloc topology has more cores than R, so ids may differ")
        else:
            self._failed.pop(rank, None)
            self._described |= 1 << rank
            self._found.append(Nodes(1 << rank, node))

    def _fail(self, rank: int, why: str) -> None:
        """Take note that *rank* has no topology; that of a rank is told once for each reason."""
        if self._told.get(rank) != why:
            self._failed[rank] = self._told[rank] = why

    def _ask_again(self, rank: int) -> None:
        tries = self._tries.get(rank, 0)
        if tries < len(RETRIES):
            self._tries[rank] = tries + 1
            heapq.heappush(self._again, (self._ticks + RETRIES[tries], rank))

    # -- time

    def _keep_ticking(self) -> None:
        if not self._ticking and (self._open or self._again):
            self._ticking = True
            self._clock.reset(after=TICK)

    def _on_tick(self, *_: Any) -> None:
        self._ticking = False
        self._ticks += 1
        late = [question.rank for question in self._open.values() if question.due <= self._ticks]
        for rank in late:
            del self._open[rank]
            self._fail(rank, LATE)
            self._ask_again(rank)
        while self._again and self._again[0][0] <= self._ticks:
            self._waiting.append(heapq.heappop(self._again)[1])
        self._ask()
        if late:
            self._hand_over_soon()

    def _hand_over_soon(self) -> None:
        last = not self._open and not self._waiting
        self._timer.reset(after=0.0 if last else max(0.0, self._due - time.monotonic()))

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
