"""What a job asks for while it waits for a close place (job option ``wait``), and afterwards.

This is delay scheduling, the job option ``wait``. A *strict* request asks for local slots and,
above the nodes, for one domain of the locality in which an idle pool would place it. If there is
none, it spans no more of the highest domains than there. Afterwards the request is *relaxed*.
"""

from __future__ import annotations

from typing import Iterator, Optional

import attrs

from treepool.placement.choose.choice import Situation
from treepool.placement.choose.selection import Selection
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.request.job_options import Wait, Within
from treepool.placement.request.need import Level
from treepool.placement.request.vertices import Request
from treepool.rfc.count import Count

_ONE = Count(1, 1)


def relaxed(request: Request) -> Request:
    """*request* of a job that has waited."""
    return attrs.evolve(request, wait=None)


def strict(request: Request, idle: Situation) -> Request:
    """*request* of a job that waits for a close place; *idle* is the pool without jobs.

    That pool can serve it, or it cannot serve *request* either.
    """
    ask, last = request.ask, relaxed(request)
    local = attrs.evolve(last, ask=attrs.evolve(ask, locality="required"))
    selection = idle.choice(local).selection
    if selection is None:  # the slots of the job cannot all be local
        local, selection = last, idle.choice(last).selection
    close = _closer(local, selection, request.wait, idle.inventory.fabric)
    return next((one for one in close if idle.choice(one).selection is not None), local)


def _closer(
    local: Request,
    selection: Optional[Selection],
    wait: Optional[Wait],
    fabric: Optional[Fabric],
) -> Iterator[Request]:
    """*local* in fewer domains above the nodes, the strictest first.

    *selection* is what an idle pool gives it.
    """
    if wait is not None and wait.within is not None:
        yield _within(local, wait.within)
    one_node = local.form.most == 1 and not local.above
    if one_node or fabric is None or selection is None:
        return
    name = _around(fabric, selection.ranks)
    if name is not None:
        yield _within(local, Within(name))
    elif not local.above and local.number is not None:  # others may span more when less is free
        yield attrs.evolve(local, at_most=Within("", len(fabric.highest(selection.ranks))))


def _within(request: Request, within: Within) -> Request:
    """*request* in no more domains than *within* says."""
    if within.domains > 1:
        return attrs.evolve(request, at_most=within)
    level = Level(within.locality, _ONE)
    if request.levels[:1] == (level,):
        return request
    return attrs.evolve(request, levels=(level, *request.levels))


def _around(fabric: Fabric, ranks: int) -> Optional[str]:
    """The locality of the smallest domain that has all *ranks* (bitmask); None if only the pool."""
    shared = set.intersection(*(set(fabric.paths[leaf]) for leaf, _ in fabric.leaves_of(ranks)))
    # Children have higher numbers than their parents. Ranks that stand alone have no locality.
    names = (fabric.locality[domain] for domain in sorted(shared, reverse=True))
    return next(filter(None, names), None)
