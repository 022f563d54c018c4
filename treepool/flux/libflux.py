"""Requests to a broker by flux-core's C library alone, for commands; ids and states of jobs.

``import flux`` loads readers of YAML, TOML and dates, and ``flux.job`` more: together they take
100 ms of CPU, this module 3. No command is to be slower than ``flux jobs``, which imports both.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from functools import lru_cache
from typing import Any, Callable, Iterator, Optional

from _flux._core import ffi, lib

from treepool.rfc.queues import inner

#: flux-core's numbers for any broker, and for a request with several answers.
_ANY, _STREAMING = 0xFFFFFFFF, 2

#: Seconds after which a wait looks whether the user has pressed Ctrl-C.
_SLICE = 0.2

#: Levels of recursion; more than jansson's 2,048, because the reader is called from somewhere.
_DEEPEST = 4096


def allow_depth() -> None:
    """Let this process read all JSON that Flux lets through.

    Flux reads JSON with jansson, which allows 2,048 levels of nesting. Python reads it recursively,
    and its limit of recursion is 1,000.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))


class Future:
    """The answer to a request, which is still to come; its methods are those of flux-core's own.

    They raise OSError for an answer that is an error, or if there is none in *patience* seconds.
    """

    def __init__(
        self, handle: Any, future: Any, patience: float, read: Callable[[Any, Any], int]
    ) -> None:
        if not future:
            raise _error()
        self._handle = handle  # which must live as long
        self._future = ffi.gc(future, lib.flux_future_destroy)
        self._patience = patience
        self._read = read

    def wait_for(self, seconds: float) -> Future:
        """Wait at most so many *seconds*."""
        end = _now() + seconds
        # In C, Python cannot tell of a signal.
        while lib.flux_future_wait_for(self._future, max(0.0, min(_SLICE, end - _now()))) < 0:
            if ffi.errno != errno.ETIMEDOUT or _now() >= end:
                raise _error()
        return self

    def get_str(self) -> str:
        """The text of the answer, "" if it has none."""
        self.wait_for(self._patience)
        answer = ffi.new("char *[1]")
        if self._read(self._future, answer) < 0:
            number, said = ffi.errno, lib.flux_future_error_string(self._future)
            raise OSError(number, _text(said) if said else os.strerror(number))
        return _text(answer[0]) if answer[0] else ""

    def get(self) -> Any:
        """The JSON of the answer, None if it has none."""
        text = self.get_str()
        return json.loads(text) if text else None

    def reset(self) -> None:
        """Go on to the next answer of a request that has several."""
        lib.flux_future_reset(self._future)


class Broker:
    """The broker at *uri*, or that of FLUX_URI; raises OSError if there is none.

    No request may take more than *patience* seconds for an answer.
    """

    def __init__(self, uri: Optional[str], patience: float) -> None:
        self._patience = patience
        self._configuration: Any = None
        self._handle = lib.flux_open(ffi.NULL if uri is None else uri.encode(), 0)
        if not self._handle:
            raise _error()

    def attribute(self, name: str) -> str:
        """The value of a broker attribute; raises OSError."""
        value = lib.flux_attr_get(self._handle, name.encode())
        if not value:
            raise _error()
        return _text(value)

    def rpc(self, topic: str, payload: Any = None, nodeid: int = _ANY, flags: int = 0) -> Future:
        """Send a request, whose *payload* becomes JSON, to a rank; raises OSError."""
        # Flux encodes no string that is not valid Unicode. Escaped, who is asked refuses it.
        text = ffi.NULL if payload is None else json.dumps(payload).encode()
        future = lib.flux_rpc(self._handle, topic.encode(), text, nodeid, flags)
        return Future(self._handle, future, self._patience, lib.flux_rpc_get)

    def watch(self, topic: str, payload: Any, nodeid: int = _ANY) -> Iterator[Any]:
        """The answers to a request, until the last of them; raises OSError."""
        return each(self.rpc(topic, payload, nodeid, _STREAMING))

    def value(self, key: str) -> str:
        """The value of a key of the instance's KVS; raises OSError."""
        # In a task's environment, the default namespace is the job's own.
        future = lib.flux_kvs_lookup(self._handle, b"primary", 0, key.encode())
        return Future(self._handle, future, self._patience, lib.flux_kvs_lookup_get).get_str()

    def configured(self, key: str, default: Any) -> Any:
        """The value of a *key* of the configuration, in dotted form; raises OSError."""
        if self._configuration is None:
            self._configuration = self.rpc("config.get").get()
        *tables, last = key.split(".")
        return inner(self._configuration, *tables).get(last, default)


def each(future: Any) -> Iterator[Any]:
    """The answers to a request that has several; raises OSError.

    *future* is a Future, or one of flux-core's own.
    """
    while True:
        try:
            answer = future.get()
        except OSError as e:
            if e.errno == errno.ENODATA:
                return
            raise
        yield answer
        future.reset()


def job_id(text: str) -> int:
    """The number of a job id in any of Flux's forms; raises ValueError for other text."""
    number = ffi.new("uint64_t *")
    if lib.flux_job_id_parse(text.encode(), number) < 0:
        raise ValueError("it is not a job id")
    return int(number[0])


def job_name(jobid: int, form: str = "f58") -> str:
    """How Flux prints the id of a job; *form* may be "f58plain", too, which is ASCII."""
    text = ffi.new("char[64]")
    if lib.flux_job_id_encode(jobid, form.encode(), text, 64) < 0:
        raise ValueError(f"{jobid} is not a job id")
    return _text(text)


@lru_cache(maxsize=None)
def job_state(number: int) -> str:
    """The name of a state of jobs, such as ``SCHED``."""
    return _text(lib.flux_job_statetostr(number, b"L"))


def job_result(number: int) -> str:
    """The name of a result of jobs, such as ``COMPLETED``."""
    return _text(lib.flux_job_resulttostr(number, b"L"))


def _now() -> float:
    return time.monotonic()


def _error() -> OSError:
    return OSError(ffi.errno, os.strerror(ffi.errno))


def _text(value: Any) -> str:
    return str(ffi.string(value).decode())
