"""What a choice lacked that was interrupted, computed in steps before the next attempt.

To make the choice again and again, a few fits at a time, would take four times as long where nodes
are in a thousand states: each attempt walks over what is known already.
"""

from __future__ import annotations

from typing import Iterator

from treepool.placement.effort import Portion
from treepool.placement.nodes.index import NodeIndex
from treepool.placement.on_node.fit import assess, possible
from treepool.placement.plan.timeline import Timeline
from treepool.placement.request.need import Ask


def prepared(timeline: Timeline, index: NodeIndex, interrupted: Portion) -> Iterator[None]:
    """Compute the fits of all states in *index* for the ask that a choice lacked; yields once.

    An ask that needs searches is left to the attempts: they search for few states.
    """
    ask = interrupted.lacking
    if isinstance(ask, Ask) and not (ask.searched or ask.beside):
        for state in list(index.buckets):
            with timeline.portion(0) as portion:
                if possible(state, ask):
                    assess(state, ask)
            if timeline.should_yield(1 + portion.done):
                yield
    yield
