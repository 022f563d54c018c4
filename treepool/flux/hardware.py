"""Asks brokers for the hwloc XML of their nodes: how many at a time, how long, why there is none.

A broker restricts the XML of its node to the cores it may use. Core ids therefore count from zero,
as they do in the instance's R (flux-core's src/modules/resource/topo.c).
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Any, Iterator, Optional, Union

from treepool.flux.libflux import Broker
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: The RPC.
TOPO_GET = "resource.topo-get"

#: Most requests in flight. An answer is at most 1 MiB.
IN_FLIGHT = 32

#: Seconds that one broker may take to answer.
TIMEOUT = 10.0

#: The reason given for a rank whose broker took longer.
LATE = "its broker did not answer in time"


def local_xml(broker: Optional[Broker] = None) -> Optional[bytes]:
    """The hwloc XML that *broker*, or that of FLUX_URI, holds; None if there is none."""
    try:
        return (broker or Broker(None, TIMEOUT)).rpc(TOPO_GET).get_str().encode() or None
    except OSError:
        return None


def resources(handle: Broker) -> ResourceSet:
    """The R of the whole instance; raises OSError or InvalidR."""
    return ResourceSet.read(handle.value("resource.R"))


def topologies(handle: Broker, ranks: int) -> Iterator[tuple[int, Union[bytes, str]]]:
    """The XML of each of *ranks* (bitmask) in turn, or why there is none, in one line."""
    waiting = deque(idset.iterate(ranks))
    asked: deque[tuple[int, Any]] = deque()
    while waiting or asked:
        while waiting and len(asked) < IN_FLIGHT:
            rank = waiting.popleft()
            asked.append((rank, handle.rpc(TOPO_GET, nodeid=rank)))
        rank, future = asked.popleft()
        yield rank, answer_of(future, TIMEOUT)


def answer_of(future: Any, timeout: float = 0.0) -> Union[bytes, str]:
    """The XML in the answer to a TOPO_GET *future*, or why there is none, in one line."""
    try:
        if timeout:
            future.wait_for(timeout)
        text = future.get_str()
    except UnicodeDecodeError as e:
        return f"its broker sent no text: {e.reason}"
    except OSError as e:
        if e.errno == errno.ETIMEDOUT:
            return LATE
        return f"its broker has no topology: {e.strerror or e}"
    return text.encode() if text else "its broker sent no topology"
