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

from flux.constants import FLUX_RPC_STREAMING

from treepool.flux.callbacks import then

#: The service that runs programs on a broker's node, and its flag that asks for their stdout.
EXEC = "rexec.exec"
_STDOUT = 1

COMMAND = ("flux", "treepool", "digest")

#: Most programs that run at a time, each on another node.
IN_FLIGHT = 256

#: Seconds that a program may take: Python may come from a slow file system.
TIMEOUT = 30.0

#: After this many failures without a success, no other node is asked.
FAILURES = 8

#: Most characters read of an answer: more than a digest has.
_LONGEST = 128

_FLUX_PATH = re.compile(r"FLUX_\w*PATH\w*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Digests:
    """Asks nodes for their digests; *receive* gets each rank and its digest, or None."""

    def __init__(self, handle: Any, receive: Callable[[int, Optional[bytes]], None]) -> None:
        self._handle = handle
        self._receive = receive
        self._waiting: deque[int] = deque()
        #: For each rank where the program runs, what it has written.
        self._texts: dict[int, str] = {}
        self._failed = 0
        #: How many nodes sent a digest.
        self.told = 0

    @property
    def open(self) -> bool:
        """Whether some answers have not arrived yet."""
        return bool(self._texts or self._waiting)

    def ask(self, ranks: Iterable[int]) -> None:
        """Ask the nodes of *ranks*, not too many at a time."""
        self._waiting.extend(ranks)
        self._next()

    def _next(self) -> None:
        while self._waiting and len(self._texts) < IN_FLIGHT:
            rank = self._waiting.popleft()
            if rank in self._texts:  # it was drained meanwhile; its answer is still to come
                continue
            if self._failed >= FAILURES and not self.told:
                self._receive(rank, None)
                continue
            self._texts[rank] = ""
            future = self._handle.rpc(EXEC, _request(), rank, FLUX_RPC_STREAMING)
            then(self._handle, future, self._on_answer, rank, timeout=TIMEOUT)

    def _on_answer(self, future: Any, rank: int) -> None:
        try:
            answer = future.get()
        except (OSError, ValueError) as e:  # it may be no JSON
            self._end(rank, isinstance(e, OSError) and e.errno == errno.ENODATA)
            return
        output = answer.get("io") if isinstance(answer, dict) else None
        if isinstance(output, dict) and output.get("stream") == "stdout":
            self._texts[rank] += str(output.get("data") or "")
        if len(self._texts[rank]) > _LONGEST:  # it may never stop writing
            self._end(rank, False)
        else:
            future.reset()

    def _end(self, rank: int, finished: bool) -> None:
        text = self._texts.pop(rank).strip()
        found = bytes.fromhex(text) if finished and _DIGEST.fullmatch(text) else None
        if found is None:
            self._failed += 1
        else:
            self.told += 1
        self._receive(rank, found)
        self._next()


def _request() -> dict[str, Any]:
    """The request to run the command; its environment has only what Flux needs to find it."""
    env = {n: v for n, v in os.environ.items() if n == "PATH" or _FLUX_PATH.fullmatch(n)}
    command = {"cmdline": list(COMMAND), "cwd": "/", "env": env, "opts": {}, "channels": []}
    return {"cmd": command, "flags": _STDOUT}
