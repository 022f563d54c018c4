"""Requests to a broker by flux-core's C library alone, for commands that run in every task.

``import flux.job`` loads readers of YAML, TOML and dates: it takes 60 ms of CPU, this module 3.
With it ``treepool bind`` takes 100 ms instead of 160, of which 35 are Python's own start.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any, Callable, Iterator, Optional

from _flux._core import ffi, lib

#: flux-core's numbers for any broker, and for a request with several answers.
_ANY, _STREAMING = 0xFFFFFFFF, 2


class Broker:
    """The broker at *uri*, or that of FLUX_URI; raises OSError if there is none.

    No request may take more than *patience* seconds for an answer.
    """

    def __init__(self, uri: Optional[str], patience: float) -> None:
        self._patience = patience
        self._handle = lib.flux_open(ffi.NULL if uri is None else uri.encode(), 0)
        if not self._handle:
            raise OSError(ffi.errno, os.strerror(ffi.errno))

    def attribute(self, name: str) -> str:
        """The value of a broker attribute; raises OSError."""
        value = lib.flux_attr_get(self._handle, name.encode())
        if not value:
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        return _text(value)

    def ask(self, topic: str, payload: Any = None, rank: int = _ANY) -> str:
        """The text that answers a request, "" if it has none; raises OSError."""
        return next(self._answers(self._rpc(topic, payload, 0, rank), lib.flux_rpc_get))

    def watch(self, topic: str, payload: Any) -> Iterator[str]:
        """The texts that answer a request, until the end of its answers; raises OSError."""
        return self._answers(self._rpc(topic, payload, _STREAMING), lib.flux_rpc_get)

    def value(self, key: str) -> str:
        """The value of a key of the instance's KVS; raises OSError."""
        # In a task's environment, the default namespace is the job's own.
        future = lib.flux_kvs_lookup(self._handle, b"primary", 0, key.encode())
        return next(self._answers(future, lib.flux_kvs_lookup_get))

    def _rpc(self, topic: str, payload: Any, flags: int, rank: int = _ANY) -> Any:
        text = ffi.NULL if payload is None else json.dumps(payload).encode()
        return lib.flux_rpc(self._handle, topic.encode(), text, rank, flags)

    def _answers(self, future: Any, get: Callable[[Any, Any], int]) -> Iterator[str]:
        if not future:
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        answer = ffi.new("char *[1]")
        try:
            while True:
                late = lib.flux_future_wait_for(future, self._patience) < 0
                if late or get(future, answer) < 0:
                    if ffi.errno == errno.ENODATA:
                        return
                    raise OSError(ffi.errno, os.strerror(ffi.errno))
                yield _text(answer[0]) if answer[0] else ""
                lib.flux_future_reset(future)
        finally:
            lib.flux_future_destroy(future)


def job_id(text: str) -> int:
    """The number of a job id in any of Flux's forms; raises ValueError for other text."""
    number = ffi.new("uint64_t *")
    if lib.flux_job_id_parse(text.encode(), number) < 0:
        raise ValueError("it is not a job id")
    return int(number[0])


def _text(value: Any) -> str:
    return str(ffi.string(value).decode())
