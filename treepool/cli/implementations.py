"""What plays test vectors, treepool or a program: features, time limit, form of its answers.

Both take one message at a time and answer with an object, as doc/conformance.md says.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Mapping, Optional, Protocol

from treepool.cli.answers import Refusal, allocate_jobspec, allocate_shape
from treepool.cli.screen import USAGE, Stop
from treepool.errors import InvalidInput, PoolConflict
from treepool.placement.pool import Pool
from treepool.rfc.findings import Findings, Readers, shown

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

#: What an allocator may answer instead of an allocation.
_REFUSALS = ("invalid", "infeasible", "insufficient", "unsupported")

#: What an implementation is asked.
Message = Mapping[str, Any]


class Implementation(Protocol):
    """An allocator: its name, the features that it has, and its answers."""

    name: str
    features: frozenset[str]

    def ask(self, message: Message) -> dict[str, Any]:
        """The answer to *message*: {} if that is all, ``R``, or ``error`` and ``message``.

        The error is ``broken`` if it failed and answers no more, and ``malformed`` if the answer
        has not the form that doc/conformance.md describes.
        """


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
        if "jobspec" in message:
            answer = allocate_jobspec(self._pool, message["id"], message["jobspec"], "jobspec")
        else:
            answer = allocate_shape(self._pool, message["id"], message["shape"])
        if isinstance(answer.outcome, Refusal):
            return answer.facts
        return {"R": answer.outcome.to_dict()}

    def _done(self, act: Callable[..., None], *words: Any, **named: Any) -> dict[str, Any]:
        try:
            act(*words, **named)
        except (PoolConflict, InvalidInput) as e:
            return {"error": "conflict", "message": str(e)}
        return {}


class _Failed(Exception):
    """A program has failed; the text says what it did."""


class Program:
    """A program that reads a message on each line, and answers each with a line."""

    def __init__(self, command: str) -> None:
        self.name = command
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError) as e:
            raise Stop(f"--with {command:.60}: cannot be started: {e}", USAGE) from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        for pipe in (self._to, self._from):
            os.set_blocking(pipe.fileno(), False)
        self._rest = b""
        hello = self.ask({"op": "hello", "format": FORMAT})
        if "error" in hello:
            self.end()
            raise Stop(f"--with {command:.60}: {hello.get('message', 'refuses hello')}", USAGE)
        self.features = frozenset(hello.get("features", ()))

    def ask(self, message: Message) -> dict[str, Any]:
        """The answer to *message*, see Implementation."""
        try:
            line = self._exchange(json.dumps(message).encode() + b"\n")
            answer = _object(line)
        except _Failed as e:
            return {"error": "broken", "message": f"the program {e}"}
        wrong = malformed(message["op"], answer)
        return {"error": "malformed", "message": wrong} if wrong else answer

    def _exchange(self, line: bytes) -> bytes:
        """The line that answers *line*."""
        if self._rest:
            raise _Failed("answers with more than one line")
        end = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._from, selectors.EVENT_READ)
            waiting.register(self._to, selectors.EVENT_WRITE)
            while line or b"\n" not in self._rest:
                ready = waiting.select(max(0.0, end - time.monotonic()))
                if not ready:
                    raise _Failed(f"did not answer in {PATIENCE:.0f} seconds")
                for key, _ in ready:
                    if key.fileobj is self._from:
                        self._receive()
                    else:
                        line = self._send(line)
                        if not line:
                            waiting.unregister(self._to)
        found, _, self._rest = self._rest.partition(b"\n")
        return found

    def _send(self, line: bytes) -> bytes:
        try:
            return line[os.write(self._to.fileno(), line) :]
        except OSError:
            raise _Failed("has ended") from None

    def _receive(self) -> None:
        more = os.read(self._from.fileno(), 1 << 20)
        if not more:
            raise _Failed("has ended")
        self._rest += more
        if len(self._rest) > LONGEST:
            raise _Failed(f"answers with more than {LONGEST >> 20} MiB")

    def end(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._to, self._from):
            with suppress(OSError):
                pipe.close()


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object of *line*; raises _Failed if it is none."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise _Failed(f"answers {shown(line[:80].decode('utf-8', 'replace'))}") from None
    if not isinstance(answer, dict):
        raise _Failed("answers with what is no object")
    return answer


def malformed(op: str, answer: dict[str, Any]) -> str:
    """What is wrong with the form of the *answer* to a message; "" if nothing is."""
    findings = Findings()
    if op == "hello" and "features" in answer:
        findings.items(
            answer["features"], "/features", lambda v, at: findings.one_of(v, at, FEATURES)
        )
    elif "error" in answer:
        kinds: Readers = {
            "error": lambda v, at: (
                findings.one_of(v, at, _REFUSALS) if op == "alloc" else findings.string(v, at)
            ),
            "message": findings.string,
        }
        findings.members(answer, "", kinds)
        if "R" in answer:
            findings.note("", "has both 'R' and 'error'")
    elif op == "alloc" and "R" not in answer:
        findings.note("", "has neither 'R' nor 'error'")
    elif op == "alloc":
        _check_R(findings, answer["R"])
    return str(findings.problems()[0]) if len(findings) else ""


def _check_R(findings: Findings, R: object) -> None:
    """Note what is wrong with the part of an allocated *R* that is compared."""

    def ids(value: object, at: str) -> int:
        return findings.idset(value, at, empty=True)

    def children(value: object, at: str) -> None:
        findings.members(value, at, {"core": ids, "gpu": ids}, ("core",))

    def entry(value: object, at: str) -> None:
        readers: Readers = {"rank": findings.idset, "children": children}
        findings.members(value, at, readers, readers)

    def execution(value: object, at: str) -> None:
        readers: Readers = {
            "R_lite": lambda v, at: findings.items(v, at, entry, least=1),
            "nslots": lambda v, at: findings.integer(v, at, least=1),
        }
        findings.members(value, at, readers, ("R_lite",))

    findings.members(R, "/R", {"execution": execution}, ("execution",))


@contextmanager
def started(command: Optional[str]) -> Iterator[Implementation]:
    """The implementation that ``--with`` *command* names, None for treepool's own; raises Stop."""
    if command is None:
        yield Own()
    elif not command.strip():
        raise Stop("argument --with: needs a command, or flux-core", USAGE)
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
