"""TOML as Flux reads it from the files of its configuration (flux-config(5)); imports no flux."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from importlib import import_module
from typing import Any, Callable

from treepool.errors import InvalidInput, SetupError
from treepool.rfc import document
from treepool.rfc.times import TOML_TIME

#: Modules that read TOML: Python's own from 3.11 on, Flux's, and a package.
_READERS = ("tomllib", "flux.utils.tomli", "tomli")

#: Most characters of a file.
MAX_TEXT = 1 << 20


def read(text: str) -> dict[str, Any]:
    """The tables in *text* as Flux makes JSON of them; raises InvalidInput.

    Raises SetupError if this Python has no module that reads TOML.
    """
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"more than {MAX_TEXT} characters of TOML")
    loads = _reader()
    try:
        return {name: _as_json(value) for name, value in loads(text).items()}
    except RecursionError:
        raise InvalidInput(f"nested deeper than {document.MAX_DEPTH} levels") from None
    except ValueError as e:
        raise InvalidInput(f"not valid TOML: {e}") from None


def _reader() -> Callable[[str], dict[str, Any]]:
    for name in _READERS:
        try:
            loads: Callable[[str], dict[str, Any]] = import_module(name).loads
            return loads
        except ImportError:
            continue
    raise SetupError("TOML needs Python 3.11 or newer, Flux's Python, or the package tomli")


def _as_json(value: Any, depth: int = 1) -> Any:
    """A *value* of TOML as JSON; raises ValueError for one that Flux refuses."""
    if depth > document.MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {name: _as_json(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each, depth + 1) for each in value]
    if isinstance(value, datetime):
        when = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return {TOML_TIME: when.isoformat()}
    if isinstance(value, (date, time)):
        raise ValueError(f"{value} must be a date with a time: Flux reads no other")
    return value
