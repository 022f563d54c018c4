"""What running jobs hold when a scheduler starts, and when each ends (RFC 27, ``hello``).

The job manager tells a scheduler which jobs have resources. What they have is in their Rs in the
KVS; if the end of a job was changed, that is in its events.
"""

from __future__ import annotations

import errno
import json
from typing import Any, Iterator, Mapping

import attrs
from flux.constants import FLUX_RPC_STREAMING
from flux.job import JobID
from flux.kvs import get_key_direct

from treepool.errors import InvalidR
from treepool.rfc import idset
from treepool.rfc.rset import MAX_TIME, ResourceSet, RLiteEntry, merge_entries

_HELLO = "job-manager.sched-hello"


def ask_hello(handle: Any) -> Any:
    """The job manager's stream of jobs that have resources, as a future."""
    return handle.rpc(_HELLO, {"partial-ok": True}, flags=FLUX_RPC_STREAMING)


def running_jobs(handle: Any) -> Iterator[Mapping[str, Any]]:
    """What the job manager tells of each job that has resources; raises OSError."""
    future = ask_hello(handle)
    while True:
        try:
            told = future.get()
        except OSError as e:
            if e.errno == errno.ENODATA:
                return
            raise OSError(e.errno, f"{_HELLO}: {e.strerror}") from None
        yield told
        future.reset()


def read_held(handle: Any, told: Mapping[str, Any]) -> ResourceSet:
    """What the job still holds of which the job manager *told*.

    Raises OSError if its R is not in the KVS, and ValueError if that is not valid.
    """
    R = get_key_direct(handle, f"{JobID(told['id']).kvs}.R")
    try:
        held = held_of(R["execution"])
    except (AttributeError, KeyError, TypeError) as e:
        raise InvalidR(f"its form is not that of RFC 20 ({type(e).__name__}: {e})") from None
    if not held.entries:
        raise InvalidR("it has no resources")
    freed = idset.decode(told.get("free") or "")
    left = (attrs.evolve(entry, ranks=entry.ranks & ~freed) for entry in held.entries)
    return attrs.evolve(held, entries=tuple(entry for entry in left if entry.ranks))


def end_time(handle: Any, jobid: int, held: ResourceSet) -> float:
    """When job *jobid* ends, which was given *held*, in seconds since the epoch, 0 for never.

    The R in the KVS stays as the scheduler wrote it. Changes are in the events of the job
    (RFC 21, resource-update), and flux-core's hello does not tell of them.
    """
    try:
        events = str(get_key_direct(handle, f"{JobID(jobid).kvs}.eventlog"))
        # Not splitlines, which also splits at characters of texts that users wrote.
        lines = [line for line in events.split("\n") if '"resource-update"' in line]
        updates = [e for e in map(json.loads, lines) if e["name"] == "resource-update"]
        ends = [float(e["context"]["expiration"]) for e in updates if "expiration" in e["context"]]
    except Exception:  # a job must not end because of its events, which users can write
        ends = []
    return ends[-1] if ends else held.expiration


def held_of(execution: Any) -> ResourceSet:
    """The resources in the ``execution`` of an R, without its start time and key.

    Raises ValueError, or another error if it has not the form of RFC 20.
    """
    entries = []
    for entry in execution.get("R_lite") or ():
        children = {name: idset.decode(ids) for name, ids in entry["children"].items() if ids}
        cores, gpus = children.get("core", 0), children.get("gpu", 0)
        entries.append(RLiteEntry(idset.decode(entry["rank"]), cores, gpus))
    end = float(execution.get("expiration") or 0.0)
    if not 0 <= end <= MAX_TIME:
        raise InvalidR(f"/execution/expiration: must be a number from 0 to {MAX_TIME:.0f}")
    return ResourceSet(merge_entries(entries), (), expiration=end)
