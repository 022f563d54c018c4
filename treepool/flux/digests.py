"""Asks nodes for the digests of their topologies: how many at a time, how long, when it gives up.

The hwloc XML of a node has up to a megabyte. On a machine of ten thousand nodes, all of it would
pass through rank 0. The broker of each node therefore runs ``flux treepool digest``, whose answer
has some hundred bytes, and only one of many equal nodes sends its XML. A node where that fails has
no digest; its broker is asked for the XML. discovery/describe.py decides what counts as equal.
"""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from typing import Any, Callable, Iterable, Optional

import attrs
from flux.constants import FLUX_RPC_STREAMING

from treepool.flux.callbacks import then

#: The service that runs programs on a broker's node, and its flag that asks for their stdout.
EXEC = "rexec.exec"
_STDOUT = 1

COMMAND = ("flux", "treepool", "digest")

#: Most programs that run at a time, each on another node.
IN_FLIGHT = 256

#: Seconds (ticks) that a program may take: Python may come from a slow file system.
TIMEOUT = 30

#: After this many failures without a success, no other node is asked.
FAILURES = 8

#: Most characters read of an answer: more than a digest has.
_LONGEST = 128

_FLUX_PATH = re.compile(r"FLUX_\w*PATH\w*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@attrs.define(eq=False)
class _Program:
    """A program on the node of ``rank``, in how many ticks it is late, and what it wrote."""

    rank: int
    left: int
    text: str = ""


class Digests:
    """Asks nodes for their digests; *receive* gets each rank and its digest, or None.

    Whoever has this calls ``tick`` once a second. Flux must not limit the time: it gives the
    matchtag of a stream that it gave up to the next request, which then gets the late answers.
    """

    def __init__(self, handle: Any, receive: Callable[[int, Optional[bytes]], None]) -> None:
        self._handle = handle
        self._receive = receive
        self._waiting: deque[int] = deque()
        #: By rank, the programs that run and are not late.
        self._running: dict[int, _Program] = {}
        self._failed = 0
        #: How many nodes sent a digest.
        self.told = 0

    @property
    def open(self) -> bool:
        """Whether some answers have not arrived yet."""
        return bool(self._running or self._waiting)

    def ask(self, ranks: Iterable[int]) -> None:
        """Ask the nodes of *ranks*, not too many at a time."""
        self._waiting.extend(ranks)
        self._next()

    def tick(self) -> None:
        """A second is over: do not wait for programs that are late."""
        for program in list(self._running.values()):
            program.left -= 1
            if program.left <= 0:
                self._end(program, False)

    def _next(self) -> None:
        while self._waiting and len(self._running) < IN_FLIGHT:
            rank = self._waiting.popleft()
            if rank in self._running:  # it was drained meanwhile; its answer is still to come
                continue
            if self._failed >= FAILURES and not self.told:
                self._receive(rank, None)
                continue
            # One tick more, because the next tick may come at once.
            program = self._running[rank] = _Program(rank, 1 + TIMEOUT)
            future = self._handle.rpc(EXEC, _request(), rank, FLUX_RPC_STREAMING)
            then(self._handle, future, self._on_answer, program)

    def _on_answer(self, future: Any, program: _Program) -> None:
        try:
            answer = future.get()
        except (OSError, ValueError) as e:  # it may be no JSON
            self._end(program, isinstance(e, OSError) and e.errno == errno.ENODATA)
            return
        output = answer.get("io") if isinstance(answer, dict) else None
        if isinstance(output, dict) and output.get("stream") == "stdout":
            program.text += str(output.get("data") or "")
        if len(program.text) > _LONGEST:  # it may never stop writing
            self._end(program, False)
        else:
            future.reset()

    def _end(self, program: _Program, finished: bool) -> None:
        if self._running.get(program.rank) is not program:  # it was late
            return
        del self._running[program.rank]
        text = program.text.strip()
        found = bytes.fromhex(text) if finished and _DIGEST.fullmatch(text) else None
        if found is None:
            self._failed += 1
        else:
            self.told += 1
        self._receive(program.rank, found)
        self._next()


def _request() -> dict[str, Any]:
    """The request to run the command; its environment has only what Flux needs to find it."""
    env = {n: v for n, v in os.environ.items() if n == "PATH" or _FLUX_PATH.fullmatch(n)}
    command = {"cmdline": list(COMMAND), "cwd": "/", "env": env, "opts": {}, "channels": []}
    return {"cmd": command, "flags": _STDOUT}
