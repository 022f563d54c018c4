"""Virtual queues, as RFC 33 has them since 2026."""

import json

import pytest

from broker import Instance
from features import needs_virtual_queues
from schemas import conforms

pytestmark = needs_virtual_queues

#: Queue batch has nodes 0 and 1, and so has its virtual queue express.
CONF = [
    'queues.batch.requires=["batch"]',
    'queues.batch.policy.jobspec.defaults.system.duration="1h"',
    'queues.express.parent="batch"',
    "queues.other.requires=[]",
]
ENV = {"TREEPOOL_TEST_PROPERTIES": '{"batch": "0-1"}'}


@pytest.fixture(scope="module")
def instance():
    """Three nodes of 4 cores, with policy fifo."""
    with Instance(3, 4, 0, conf=[*CONF, 'sched-treepool.policy="fifo"'], env=ENV) as instance:
        instance.load("sched-treepool")
        yield instance


@pytest.fixture
def site(instance):
    """The instance with a job on node 0, of which node 1 is free."""
    instance.flux("queue", "start", "--all", "--quiet")
    instance.first = submit(instance, "batch", "-N1", "--exclusive")
    instance.wait(instance.first, "alloc")
    yield instance
    instance.cancel_all()


def submit(instance, queue, *words):
    return instance.submit(f"--queue={queue}", "-n1", *words)


def both_nodes(instance, queue):
    """A job that waits for both nodes of batch."""
    return submit(instance, queue, "-N2", "-n2", "--exclusive")


def explained(instance, *words):
    """What ``explain`` says, as text and as JSON."""
    kind = "explain-instance" if words[0] == "--instance" else "explain-job"
    line = json.loads(instance.run("treepool", "explain", "--json", *words).stdout)
    conforms(line, kind)
    return instance.run("treepool", "explain", *words).stdout, line


def test_a_job_has_its_place_in_the_order_of_the_parent(site):
    head = both_nodes(site, "batch")
    small = submit(site, "express", "-t1m")
    assert site.waits(small)
    text, line = explained(site, small)
    assert "queue express in the order of batch: 1 job ahead of it, policy fifo" in text
    assert (line["queue"], line["answer"]["queue"]) == ("express", "batch")
    text, line = explained(site, "--instance", "slot/core=1", "--queue=express")
    assert f"{head} is ahead in the queue" in text
    assert line["answer"]["queue"] == "express"


def test_jobs_of_a_virtual_queue_wait_for_the_start_of_its_parent(site):
    site.flux("queue", "stop", "--quiet", "--message=cooling", "batch")
    job = submit(site, "express")
    site.wait(job, "priority")
    for words in ([job], ["--instance", "slot/core=1", "--queue=express"]):
        text, line = explained(site, *words)
        assert "queue batch, the parent of express, is stopped (cooling)" in text
        assert "starts it (flux queue start batch)" in text
        assert (line["stopped"], line["stopped_parent"]) == ("cooling", "batch")
    site.flux("queue", "start", "--quiet", "batch")
    site.wait(job, "alloc")


def test_a_virtual_queue_has_the_nodes_of_its_parent(site):
    said, line = explained(site, "--instance", "node=3/slot/core", "--queue=express")
    assert (
        "infeasible: the request asks for 3 nodes: of those that satisfy the constraints, 2" in said
    )
    assert line["answer"]["constraints"] == {"and": [{"properties": ["batch"]}]}
    said, line = explained(site, "--instance", "slot/core", "--queue=express")
    assert "would start now" in said
    assert line["placement"].startswith("rank1")
