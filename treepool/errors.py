"""Every exception; how a problem shows its place (pointer, caret); reasons and their codes.

Malformed input is a ``ValueError``, and an allocation that cannot be served is an ``OSError``. Code
that was written for flux-core's own pools therefore catches both without knowing treepool.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, Union

import attrs


@attrs.frozen
class Problem:
    """One problem in a JSON document.

    ``pointer`` is the RFC 6901 JSON pointer of the offending value ("" is the whole document),
    ``message`` one line of plain English. ``str()`` has both; for the whole document it is the
    message.
    """

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message

    @classmethod
    def of(cls, error: InvalidInput) -> Problem:
        """The problem that *error* is about; its message may begin with a pointer, as ``str``."""
        pointer, colon, message = str(error).partition(": ")
        return cls(pointer, message) if colon and pointer[:1] == "/" else cls("", str(error))


#: The codes of reasons, see doc/json.md.
Code = Literal[
    "cores",
    "gpus",
    "memory",
    "gpu-memory",
    "storage",
    "links",
    "together",
    "whole",
    "locality",
    "domains",
    "slots",
    "nodes",
    "constraint",
    "search",
    "expired",
    "in-use",
    "down",
    "apart",
    "wait",
    "turn",
    "ahead",
    "reserved",
    "window",
    "opens",
    "late",
    "preempting",
    "soon",
]


@attrs.frozen
class Reason:
    """Why a request cannot be served, or why its job waits.

    ``code`` says what kind of reason it is (doc/json.md lists the codes), ``subject`` what it is
    about, such as "numa domain" or the name of a window. ``need`` and ``have`` are numbers: cores,
    GPUs, nodes and so on by the code, and bytes of memory. ``message`` is one line of plain
    English. Programs match the code, which stays; messages may change.
    """

    code: Code
    message: str
    subject: str = ""
    need: Optional[float] = None
    have: Optional[float] = None

    def __str__(self) -> str:
        return self.message

    def said(self, message: str) -> Reason:
        """The same reason in other words, such as a sentence around its message."""
        return attrs.evolve(self, message=message)

    @property
    def facts(self) -> dict[str, Any]:
        """What stands in JSON beside the message: the code, and of the others what there is."""
        found = attrs.asdict(self)
        del found["message"]
        return {name: value for name, value in found.items() if value not in (None, "")}


class TreepoolError(Exception):
    """Base of every exception treepool raises."""


class InvalidInput(TreepoolError, ValueError):
    """Input that breaks the rules of its format; the message names the place.

    In a JSON document that is ``pointer``, with which the message begins if it is not "".
    """

    @property
    def pointer(self) -> str:
        """The RFC 6901 JSON pointer of what is wrong; "" if it is the whole, or no JSON."""
        return Problem.of(self).pointer

    @property
    def line(self) -> str:
        """The message on one line, for logs, tables and stderr."""
        return str(self)


class InvalidIdset(InvalidInput):
    """Text that is not an RFC 22 idset."""


class InvalidHostlist(InvalidInput):
    """Text that is not an RFC 29 hostlist."""


class InvalidCount(InvalidInput):
    """A value that is not an RFC 14 count or RFC 45 range.

    ``keys`` leads from the value to the wrong part of it, if it is an object.
    """

    def __init__(self, message: str, *keys: object) -> None:
        super().__init__(message)
        self.keys = keys


class InvalidShape(InvalidInput):
    """Text that is not an RFC 46 shape; ``column`` is where in ``text``, counted from zero.

    ``str()`` has three lines: the message with the column, counted from one, and the text with a
    caret.
    """

    def __init__(self, message: str, text: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.column = column

    def __str__(self) -> str:
        return f"{self.line}\n{self.caret()}" if self.text else self.line

    @property
    def line(self) -> str:
        """The message with the column, without the text."""
        return f"column {self.column + 1}: {self.message}"

    def caret(self) -> str:
        """The text with a caret under the error, as two lines (at most 72 columns of it)."""
        start = max(0, self.column - 60)
        shown = "".join(c if c.isprintable() else "?" for c in self.text[start : start + 72])
        return f"{shown}\n{' ' * (self.column - start)}^"


class InvalidJobspec(InvalidInput):
    """A jobspec (RFC 14, 25, 31) that is malformed or asks for something unknown."""


class InvalidR(InvalidInput):
    """A resource set that breaks RFC 20."""


class InvalidKey(InvalidInput):
    """A scheduling key that breaks RFC 49."""


class InvalidWindow(InvalidInput):
    """A window that is malformed, or that names hosts, users or queues that there are not."""


class InvalidHardware(InvalidInput):
    """A description of hardware (hwloc XML, nvidia-smi) that treepool cannot read."""


class InvalidOption(InvalidInput):
    """An unknown pool option, or an unknown value of a known one."""


class PoolConflict(TreepoolError, ValueError):
    """A call that contradicts what the pool holds, such as a second alloc for a live job."""


class _NotServed(TreepoolError, OSError):
    """A request that cannot be served; ``reason`` and the message say why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class InfeasibleRequest(_NotServed):
    """A request that even an idle pool could not serve."""


class TooComplex(InfeasibleRequest):
    """A request for which the search for a placement is given up even on an idle pool."""


class InsufficientResources(_NotServed):
    """A request that an idle pool could serve, but that this pool cannot serve now."""


def refused(error: Union[InvalidInput, InfeasibleRequest, InsufficientResources]) -> dict[str, Any]:
    """Why a request is refused, as JSON: the kind of *error*, its message and its reason."""
    if isinstance(error, InvalidInput):
        return {"error": "invalid", "message": str(error)}
    kind = "infeasible" if isinstance(error, InfeasibleRequest) else "insufficient"
    return {"error": kind, "message": str(error), **error.reason.facts}


class SetupError(TreepoolError, OSError):
    """treepool could not be installed for a Flux, or taken away; the message says why."""
