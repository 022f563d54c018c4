"""What a queue of RFC 33 has of its own, of its parent, and of the instance."""

import pytest

from treepool.rfc.queues import Queues


def limits(duration, **most):
    return {"limits": {"duration": duration, "job-size": {"max": most}}}


CONF = {
    "policy": limits("1d", nnodes=9, ncores=40),
    "queues": {
        "batch": {"requires": ["fast", "big"], "policy": limits("4h", nnodes=2)},
        "express": {"parent": "batch", "policy": limits("1h")},
        "some": {"hosts": "n[0-7]"},
        "few": {"parent": "some"},
        "every": {"hosts": "all"},
        "rest": {},
    },
}

QUEUES = Queues.of(lambda key, default: CONF.get(key, default))


@pytest.mark.parametrize("queue, line", [("express", "batch"), ("batch", "batch"), ("few", "some")])
def test_the_jobs_of_a_virtual_queue_stand_in_the_order_of_its_parent(queue, line):
    assert QUEUES.line(queue) == line


@pytest.mark.parametrize(
    ("queue", "properties"),
    [
        ("batch", ["fast", "big"]),
        ("express", ["fast", "big"]),
        ("some", ["+some"]),
        ("few", ["+some"]),
        ("every", ["+every"]),
        ("rest", []),
    ],
)
def test_a_queue_has_the_nodes_that_it_requires_or_those_with_its_membership_property(
    queue, properties
):
    assert QUEUES.requires(queue) == properties


@pytest.mark.parametrize(
    ("queue", "duration", "nodes"),
    [("express", "1h", 2), ("batch", "4h", 2), ("rest", "1d", 9), ("few", "1d", 9)],
)
def test_the_policy_of_a_queue_counts_more_than_its_parents_and_that_more_than_the_instances(
    queue, duration, nodes
):
    assert QUEUES.policy_in(queue, "limits")["duration"] == duration
    limits = {"nnodes": nodes, "ncores": 40}
    assert QUEUES.policy_in(queue, "limits", "job-size", "max") == limits


def test_without_queues_there_is_the_policy_of_the_instance_alone():
    alone = Queues({}, CONF["policy"])
    assert alone.lineage("") == ("",)
    assert alone.requires("") == []
    assert alone.policy_in("", "limits") == CONF["policy"]["limits"]


@pytest.mark.parametrize("table", [7, [], {"parent": 7}, {"parent": "express"}, {"parent": "gone"}])
def test_what_flux_would_refuse_is_read_all_the_same(table):
    queues = Queues({"odd": table, "express": {"parent": "batch"}}, {})
    assert queues.line("odd") in ("odd", "express", "gone")
    assert queues.requires("odd") == []
    assert queues.policy_in("odd", "limits") == {}
