"""Texts of users that break flux-core's Python bindings: deep JSON, and % in what is logged.

Flux reads JSON with jansson, which allows 2,048 levels of nesting. Python reads it recursively, and
its limit of recursion is 1,000.

flux_log() takes its text for a format of printf, and so do the bindings: %n in a jobspec whose
error is logged ends the module, and with it the instance.
"""

from __future__ import annotations

import sys
from typing import Any, Union

from _flux._core import ffi, lib
from flux.core.handle import Flux

#: Levels of recursion; more than jansson's, because the reader is called from somewhere.
_DEEPEST = 4096


def allow() -> None:
    """Let this process read all that Flux lets through, and log it as it is."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
    Flux.log = _log


def _log(self: Any, level: int, text: Union[str, bytes]) -> None:
    data = text.encode(errors="backslashreplace") if isinstance(text, str) else text
    lib.flux_log(self.handle, level, b"%s", ffi.new("char[]", data))
