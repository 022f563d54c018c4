"""Questions to the ``sched-treepool`` of a running instance, for commands; see doc/questions.md."""

from __future__ import annotations

import errno
import json
from typing import Any, Iterator, Mapping, Optional

from flux.constants import FLUX_RPC_STREAMING

#: The requests are called ``sched-treepool.NAME``.
TOPIC = "sched-treepool."

#: Seconds that the scheduler may take for each answer.
PATIENCE = 60.0


def ask(handle: Any, name: str, payload: Optional[Mapping[str, Any]] = None) -> Any:
    """The answer to one question; raises OSError."""
    # Flux encodes no string that is not valid Unicode. Escaped, the scheduler refuses it.
    text = json.dumps(dict(payload or {}))
    try:
        return handle.rpc(TOPIC + name, text, nodeid=0).wait_for(PATIENCE).get()
    except OSError as e:
        raise _explained(e) from None


def answers(handle: Any, name: str) -> Iterator[Any]:
    """The answers to a question that has several; raises OSError."""
    future = handle.rpc(TOPIC + name, {}, nodeid=0, flags=FLUX_RPC_STREAMING)
    while True:
        try:
            answer = future.wait_for(PATIENCE).get()
        except OSError as e:
            if e.errno == errno.ENODATA:
                return
            raise _explained(e) from None
        yield answer
        future.reset()


def _explained(error: OSError) -> OSError:
    if error.errno == errno.ENOSYS:
        return OSError(errno.ENOSYS, "this instance does not run sched-treepool")
    if error.errno == errno.ETIMEDOUT:
        return OSError(errno.ETIMEDOUT, f"sched-treepool did not answer in {PATIENCE:.0f} seconds")
    return error
