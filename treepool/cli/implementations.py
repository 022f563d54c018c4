"""What plays test vectors: treepool's own pool, or another allocator that answers lines of JSON.

Both take one message at a time and answer with an object, as doc/conformance.md says.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import subprocess
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Mapping, Protocol

from treepool.cli.answers import Refusal, allocate_jobspec, allocate_shape
from treepool.cli.screen import USAGE, Stop
from treepool.errors import InvalidInput, PoolConflict
from treepool.placement.pool import Pool
from treepool.rfc.findings import shown

#: Seconds that another allocator may take for each answer, and the longest answer, in bytes.
PATIENCE, LONGEST = 60.0, 64 << 20

#: The version of the messages, and of the form of files.
FORMAT = 1

#: What a file may need, beyond RFC 49's own vectors. treepool has all of it.
FEATURES = (
    "fabric",
    "job-options",
    "links",
    "mig",
    "policies",
    "pool-options",
    "properties",
    "shapes",
    "tiers",
)

#: What an implementation is asked.
Message = Mapping[str, Any]


class Implementation(Protocol):
    """An allocator: its name, the features that it has, and its answers."""

    name: str
    features: frozenset[str]

    def ask(self, message: Message) -> dict[str, Any]:
        """The answer to *message*: {} if that is all, ``R``, or ``error`` and ``message``."""


class Own:
    """treepool's pool."""

    name = "treepool"
    features = frozenset(FEATURES)

    def __init__(self) -> None:
        self._pool: Pool

    def ask(self, message: Message) -> dict[str, Any]:
        """The answer to *message*."""
        acts: dict[str, Callable[[Message], dict[str, Any]]] = {
            "pool": self._make,
            "alloc": self._alloc,
            "free": lambda m: self._done(self._pool.free, m["id"], final=True),
            "register": lambda m: self._done(self._pool.register_alloc, m["id"], m["R"]),
            "up": lambda m: self._done(self._pool.mark_up, m["ranks"]),
            "down": lambda m: self._done(self._pool.mark_down, m["ranks"]),
        }
        return acts[message["op"]](message)

    def _make(self, message: Message) -> dict[str, Any]:
        self._pool = Pool(message["R"], **message.get("options", {}))
        self._pool.set_expiration(0.0)  # what vectors expect holds at all times
        return {}

    def _alloc(self, message: Message) -> dict[str, Any]:
        options = message.get("options")
        if "shape" in message:
            answer = allocate_shape(self._pool, message["id"], message["shape"], options=options)
        else:
            spec = message["jobspec"]
            answer = allocate_jobspec(self._pool, message["id"], spec, "jobspec", options)
        if isinstance(answer.outcome, Refusal):
            return answer.facts
        return {"R": answer.outcome.to_dict()}

    def _done(self, act: Callable[..., None], *words: Any, **named: Any) -> dict[str, Any]:
        try:
            act(*words, **named)
        except (PoolConflict, InvalidInput) as e:
            return {"error": "conflict", "message": str(e)}
        return {}


class Program:
    """A program that is started once, reads a message on each line, and answers with a line."""

    def __init__(self, command: str) -> None:
        self.name = command
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except (OSError, ValueError, IndexError) as e:
            raise Stop(f"--with {command:.60}: cannot be started: {e}", USAGE) from None
        assert self._process.stdout is not None
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._process.stdout, selectors.EVENT_READ)
        self._rest = b""
        told = self.ask({"op": "hello", "format": FORMAT}).get("features", [])
        names = told if isinstance(told, list) else []
        self.features = frozenset(name for name in names if isinstance(name, str))

    def ask(self, message: Message) -> dict[str, Any]:
        """The answer to *message*; raises Stop if there is none, or no JSON object."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._stop("has ended") from None
        line = self._line()
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise self._stop(f"answers {shown(line[:80].decode('utf-8', 'replace'))}") from None
        if not isinstance(answer, dict):
            raise self._stop("answers with what is no object")
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            if not self._waiting.select(PATIENCE):
                raise self._stop(f"did not answer in {PATIENCE:.0f} seconds")
            more = os.read(self._process.stdout.fileno(), 1 << 20)
            if not more:
                raise self._stop("has ended")
            self._rest += more
            if len(self._rest) > LONGEST:
                raise self._stop(f"answers with more than {LONGEST >> 20} MiB")
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _stop(self, what: str) -> Stop:
        return Stop(f"--with {self.name:.60}: the program {what}", USAGE)

    def end(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@contextmanager
def started(command: str) -> Iterator[Implementation]:
    """The implementation that ``--with`` *command* names, "" for treepool's own; raises Stop."""
    if not command:
        yield Own()
    elif command == "flux-core":
        yield _flux_core()
    else:
        program = Program(command)
        try:
            yield program
        finally:
            program.end()


def _flux_core() -> Implementation:
    try:
        from treepool.flux.peer import FluxCore
    except ImportError as e:
        raise Stop(f"--with flux-core: {e} (use flux treepool conformance)", USAGE) from None
    return FluxCore()
