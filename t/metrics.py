"""What the scheduler counts of a made cluster, without Flux, and the metrics of it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from generators import outcome
from made import alloc, asked, nodes
from treepool.flux.numbers import Numbers
from treepool.flux.totals import totals
from treepool.placement.plan.jobs import Rule, finish
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool
from treepool.rfc.queues import Queues
from treepool.view import prometheus
from treepool.view.jobs import user_lines

#: A queue with a name that tries to be more than that.
HOSTILE = 'b"a\\d\n'

FABRIC = {"rack": [{"name": "r0", "switch": [{"name": "s0", "ranks": "0-1"}, {"ranks": "2-3"}]}]}


def counted() -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers and the totals of a cluster on which a job runs and another waits."""
    pool = Pool(nodes("0-3", "0-7", "0-1", fabric=FABRIC))
    alloc(pool, 1, "slot/[core=6;gpu=1]")
    pool.mark_down("3")
    queue = Queue(pool, Mock(), lambda: 1000.0, Rule("easy", 1))
    request = asked(pool, "slot=3/node{x}", duration=60.0)
    queue.add(queue.waiting(2, 16, request, frozenset(), HOSTILE, 1000.0, 1000.0))
    finish(queue.run())
    numbers: dict[str, Any] = outcome(Numbers(Mock()).report(queue, {}, 0))
    queues = Queues({HOSTILE: {}, "debug": {}}, {})
    waits = iter([(HOSTILE, 7, "in-use")])
    found: dict[str, Any] = outcome(totals(queue, queues, waits, (), lambda _: 7))
    return {**numbers, "version": "1.2.3", "questions": 0, "hwloc": None}, found


def printed(discovers: bool = True) -> list[str]:
    """The metrics of it; with those of discovery if it *discovers*."""
    numbers, found = counted()
    if discovers:
        numbers["hwloc"] = {"nodes": 5, "parsed": 1, "waiting": 2}
    users = user_lines(found["users"], lambda user: f"user{user}")
    return list(prometheus.text(numbers, found, users))
