"""Texts of users that break flux-core's Python bindings: deep JSON, and % in what is logged.

flux_log() takes its text for a format of printf, and so do the bindings: %n in a jobspec whose
error is logged ends the module, and with it the instance.
"""

from __future__ import annotations

from typing import Any, Union

from _flux._core import ffi, lib
from flux.core.handle import Flux

from treepool.flux import libflux


def allow() -> None:
    """Let this process read all that Flux lets through, and log it as it is."""
    libflux.allow_depth()
    Flux.log = _log


def _log(self: Any, level: int, text: Union[str, bytes]) -> None:
    data = text.encode(errors="backslashreplace") if isinstance(text, str) else text
    lib.flux_log(self.handle, level, b"%s", ffi.new("char[]", data))
