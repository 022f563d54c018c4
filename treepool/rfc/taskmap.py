"""RFC 34 task maps: how many tasks of a job are on each of its nodes, and which these are.

A task map is a list of blocks [first node, number of nodes, tasks on each, repetitions]. Tasks are
numbered through the blocks in order. Nodes are numbered within the job, in the order of ranks.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator, Sequence

from treepool.errors import InvalidInput
from treepool.rfc.findings import integer

#: A block, and a map of them.
Block = tuple[int, int, int, int]
Taskmap = Sequence[Block]

#: Most tasks of a job, more than Flux starts.
MAX_TASKS = 1 << 22


def read(value: Any) -> Taskmap:
    """The map in JSON *value*: a list of blocks, or an object that has it as ``map``.

    Raises InvalidInput, also for more than MAX_TASKS tasks.
    """
    if isinstance(value, dict):
        value = value.get("map")
    blocks = []
    for block in value if isinstance(value, list) else [None]:
        if not isinstance(block, list) or len(block) != 4 or not all(map(integer, block)):
            raise InvalidInput("the task map is not a list of blocks of four numbers (RFC 34)")
        first, nodes, tasks, repeats = block
        if first < 0 or min(nodes, tasks, repeats) < 1:
            raise InvalidInput(f"the task map has a block that says nothing: {block!r:.80}")
        blocks.append((first, nodes, tasks, repeats))
    if sum(nodes * tasks * repeats for _, nodes, tasks, repeats in blocks) > MAX_TASKS:
        raise InvalidInput(f"the task map has more than {MAX_TASKS} tasks")
    return blocks


def tasks_on(taskmap: Taskmap, node: int) -> int:
    """The number of tasks on node number *node*."""
    return sum(
        tasks * repeats for first, nodes, tasks, repeats in taskmap if first <= node < first + nodes
    )


def tasks_of(taskmap: Taskmap) -> Iterator[tuple[int, range]]:
    """The tasks in order: the number of a node, and its next tasks."""
    number = 0
    for first, nodes, tasks, repeats in taskmap:
        for _ in range(repeats):
            for node in range(first, first + nodes):
                yield node, range(number, number + tasks)
                number += tasks


def in_order(counts: Iterable[tuple[int, int]]) -> str:
    """The map, as JSON text, of tasks that are numbered through nodes: each node and its number."""
    blocks: list[list[int]] = []
    for node, tasks in counts:
        last = blocks[-1] if blocks else None
        if last and last[0] + last[1] == node and last[2] == tasks:
            last[1] += 1
        elif tasks:
            blocks.append([node, 1, tasks, 1])
    return json.dumps(blocks, separators=(",", ":"))
