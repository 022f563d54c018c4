"""What running jobs hold when a scheduler starts, and when each ends (RFC 27, ``hello``).

The job manager tells a scheduler which jobs have resources. What they have is in their Rs in the
KVS; if the end of a job was changed, that is in its events.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Mapping, Sequence, Union

import attrs
from flux.constants import FLUX_RPC_STREAMING
from flux.core.inner import ffi, lib
from flux.job import JobID

from treepool.errors import InvalidR
from treepool.flux.libflux import each
from treepool.rfc import idset
from treepool.rfc.rset import MAX_TIME, ResourceSet, RLiteEntry, merge_entries

_HELLO = "job-manager.sched-hello"

#: So many jobs' Rs and events are asked for together: one after another, each takes 0.7 ms.
_IN_FLIGHT = 256

#: The text of a key of the KVS, or why it has none.
Value = Union[str, OSError]


def ask_hello(handle: Any) -> Any:
    """The job manager's stream of jobs that have resources, as a future."""
    return handle.rpc(_HELLO, {"partial-ok": True}, flags=FLUX_RPC_STREAMING)


def running_jobs(handle: Any) -> Iterator[tuple[Mapping[str, Any], Value, Value, Value]]:
    """What the job manager tells of each job that has resources, its R, events, and jobspec.

    Raises OSError if the job manager does not tell them.
    """
    told = list(_told(handle))
    for first in range(0, len(told), _IN_FLIGHT):
        some = told[first : first + _IN_FLIGHT]
        places = [JobID(job["id"]).kvs for job in some]
        keys = [f"{place}.{name}" for place in places for name in ("R", "eventlog", "jobspec")]
        values = kvs_values(handle, keys)
        yield from zip(some, values[::3], values[1::3], values[2::3])


def _told(handle: Any) -> Iterator[Mapping[str, Any]]:
    future = ask_hello(handle)
    try:
        yield from each(future)
    except OSError as e:
        raise OSError(e.errno, f"{_HELLO}: {e.strerror}") from None


def kvs_values(handle: Any, keys: Sequence[str]) -> list[Value]:
    """The values of keys of the KVS; all are asked for before the first is waited for."""
    futures = [lib.flux_kvs_lookup(handle.handle, ffi.NULL, 0, key.encode()) for key in keys]
    return [_value(future) for future in futures]


def _value(future: Any) -> Value:
    text = ffi.new("char *[1]")
    if not future or lib.flux_kvs_lookup_get(future, text) < 0:
        value: Value = OSError(ffi.errno, os.strerror(ffi.errno))
    else:
        value = ffi.string(text[0]).decode("utf-8", "replace") if text[0] else ""
    lib.flux_future_destroy(future)
    return value


def read_held(told: Mapping[str, Any], R: Value, events: Value) -> ResourceSet:
    """What a job still holds of its *R*, and until when, by what was *told* of it and its *events*.

    Raises OSError if its R is not in the KVS, and ValueError if that is not valid.
    """
    if isinstance(R, OSError):
        raise R
    try:
        held = held_of(json.loads(R)["execution"])
    except (AttributeError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise InvalidR(f"its form is not that of RFC 20 ({type(e).__name__}: {e})") from None
    if not held.entries:
        raise InvalidR("it has no resources")
    freed = idset.decode(told.get("free") or "")
    left = (attrs.evolve(entry, ranks=entry.ranks & ~freed) for entry in held.entries)
    entries = tuple(entry for entry in left if entry.ranks)
    end = held.expiration if isinstance(events, OSError) else end_in(events, held.expiration)
    return attrs.evolve(held, entries=entries, expiration=end)


def end_in(events: str, end: float) -> float:
    """When a job with these *events* ends whose R has *end* (seconds since the epoch, 0 for never).

    The R in the KVS stays as the scheduler wrote it. Changes are in the events of the job
    (RFC 21, resource-update), and flux-core's hello does not tell of them.
    """
    # Not splitlines, which also splits at characters of texts that users wrote.
    for line in reversed(events.split("\n")):
        if '"resource-update"' in line:
            try:
                event = json.loads(line)
                if event["name"] == "resource-update" and "expiration" in event["context"]:
                    return _time(event["context"]["expiration"])
            except Exception:  # a job must not end because of its events, which users can write
                continue
    return end


def _time(value: Any) -> float:
    end = float(value or 0.0)
    if not 0 <= end <= MAX_TIME:
        raise InvalidR(f"/execution/expiration: must be a number from 0 to {MAX_TIME:.0f}")
    return end


def held_of(execution: Any) -> ResourceSet:
    """The resources in the ``execution`` of an R, without its start time and key.

    Raises ValueError, or another error if it has not the form of RFC 20.
    """
    entries = []
    for entry in execution.get("R_lite") or ():
        children = {name: idset.decode(ids) for name, ids in entry["children"].items() if ids}
        cores, gpus = children.get("core", 0), children.get("gpu", 0)
        entries.append(RLiteEntry(idset.decode(entry["rank"]), cores, gpus))
    end = _time(execution.get("expiration"))
    return ResourceSet(merge_entries(entries), (), expiration=end)
