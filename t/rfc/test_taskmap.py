"""RFC 34 task maps: its own examples, and maps that are made for an order of nodes."""

import json

import pytest

from treepool.errors import InvalidInput
from treepool.rfc import taskmap


def nodes_of(value):
    """The node of each task."""
    return [node for node, tasks in taskmap.tasks_of(taskmap.read(value)) for _ in tasks]


@pytest.mark.parametrize(
    "value, nodes",
    [
        ([[0, 4, 4, 1]], [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4),
        ([[0, 4, 1, 4]], [0, 1, 2, 3] * 4),
        ([[0, 4, 2, 2]], [0, 0, 1, 1, 2, 2, 3, 3] * 2),
        ({"version": 1, "map": [[0, 1, 2, 1], [1, 2, 1, 2]]}, [0, 0, 1, 2, 1, 2]),
        ([], []),
    ],
)
def test_a_map_says_on_which_node_each_task_is(value, nodes):
    assert nodes_of(value) == nodes
    assert [taskmap.tasks_on(taskmap.read(value), n) for n in range(5)] == [
        nodes.count(n) for n in range(5)
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "[[0,1,1,1]]",
        [0, 1, 1, 1],
        [[0, 1, 1]],
        [[0, 1, 1, 1.5]],
        [[-1, 1, 1, 1]],
        [[0, 0, 1, 1]],
        [[0, 1, 1, 1 << 40]],
    ],
)
def test_other_values_are_refused(value):
    with pytest.raises(InvalidInput, match="task map"):
        taskmap.read(value)


@pytest.mark.parametrize(
    "counts", [[(0, 2), (2, 2), (1, 2)], [(0, 8), (1, 8), (2, 8)], [(1, 1), (0, 3), (2, 0)]]
)
def test_a_map_in_order_numbers_the_tasks_through_the_nodes(counts):
    found = nodes_of(json.loads(taskmap.in_order(counts)))
    assert found == [node for node, tasks in counts for _ in range(tasks)]


def test_equal_nodes_in_a_row_are_one_block():
    assert taskmap.in_order([(0, 8), (1, 8), (2, 8)]) == "[[0,3,8,1]]"
