"""Brokers lost for good: Flux takes their ranks out of an instance that runs inside a job."""

import pytest

from broker import QUICK_BROKERS

WAYS = {
    "sched-treepool": ("sched-treepool", "policy=easy"),
    "sched-simple, by the writer of R": ("sched-simple", "queue-depth=unlimited"),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def inner(four, request):
    """An instance in a job on all four; every broker is a leaf, so that each can be lost alone."""
    four.load("sched-treepool")
    options = ["exit-timeout=none", "cpu-affinity=off", "gpu-affinity=off"]
    conf = ["--conf=tbon.topo=kary:0", "--conf=resource.noverify=true", *QUICK_BROKERS]
    job = four.flux(
        *("submit", "-N4", "-n4", "--exclusive", *(f"-o{option}" for option in options)),
        *("flux", "broker", *conf, "sh", "-c", "flux kvs put ready=1; exec sleep inf"),
    )
    instance = four.inside(job)
    instance.load(*request.param)
    assert instance.soon(lambda: instance.resources("free") == (4, 32, 8))
    yield instance
    four.cancel_all()


def lose(instance, rank):
    """Have the broker of *rank* leave for good."""
    instance.flux("overlay", "disconnect", rank)


def of_scheduler(instance, state):
    """(nodes, cores, GPUs) in *state* as the scheduler itself tells."""
    return instance.with_env(FLUX_RESOURCE_LIST_RPC="sched.resource-status").resources(state)


def test_the_scheduler_forgets_the_ranks_that_leave_and_jobs_on_others_go_on(inner):
    # Jobs that wait and can never run any more end, the others wait on.
    inner.wait(first := inner.submit("-t1h", "-N1", "-n1", "--exclusive"), "alloc")
    head = inner.submit("-t1h", "-N3", "-n3", "--exclusive", "--requires=rank:0-2")
    behind = inner.submit("-t1h", "-N4", "-n4", "--exclusive")
    last = inner.submit("-t1h", "-n1", "--requires=rank:0")
    inner.wait(last, "priority")
    lose(inner, 3)
    assert inner.soon(lambda: inner.resources("all") == (3, 24, 6))
    assert [inner.state(job) for job in (first, head)] == ["R", "S"], inner.log()
    inner.flux("cancel", first)
    inner.wait(head, "alloc")
    assert "node" in inner.wait(behind, "exception")["note"]
    inner.flux("cancel", head)
    inner.wait(last, "alloc")
    inner.cancel_all()

    # A job on a rank that leaves gives back what it has elsewhere.
    stays = inner.submit("-N1", "-n1", "--exclusive")
    assert inner.placed(stays) == [("0", "0-7", "0-1")]
    part = inner.submit("-n1", "-c2", "-g1", "--requires=rank:2")
    inner.wait(part, "alloc")
    loses = inner.submit("-N2", "-n2", "-c6", "--requires=rank:1-2")
    inner.wait(loses, "alloc")
    lose(inner, 1)
    assert inner.soon(lambda: of_scheduler(inner, "all") == (2, 16, 4))
    assert of_scheduler(inner, "allocated") == (2, 16, 3)
    told = inner.run("treepool", "explain", "--instance", "slot=1/core=1").stdout
    assert not told or loses in told, "the others do not tell"
    inner.run("cancel", loses)
    inner.wait(loses, "clean")
    assert inner.soon(lambda: of_scheduler(inner, "allocated") == (2, 10, 3))
    assert inner.resources("all") == (2, 16, 4)
    assert of_scheduler(inner, "down") == (0, 0, 0)
    assert inner.flux("treepool", "where", "--taskmap=2") == "[[0,2,2,1]]"
    assert inner.flux("treepool", "where", "--hostfile").split() == ["fake0", "fake2"]
    assert [inner.state(job) for job in (stays, part)] == ["R", "R"]

    # Others get what is left, and nothing of what is gone.
    job = inner.submit("-n1", "-c4", "-g1")
    assert inner.placed(job) == [("2", "4-7", "1")], "beside its GPU, on a node that is left"
    assert [child["ranks"] for child in inner.R(job)["scheduling"]["children"]] == ["2"]
    waits = inner.submit("-n1", "-c4", "-g1")
    inner.flux("cancel", job)
    assert inner.placed(waits) == [("2", "4-7", "1")], "not on what left, although it was free"
    gone = inner.submit("-N3", "-n3")
    assert "node" in inner.wait(gone, "exception")["note"]
    inner.cancel_all()
    assert inner.resources("free") == of_scheduler(inner, "free") == (2, 16, 4)
    assert inner.placed(inner.submit("-N2", "-n2", "--exclusive")) == [("0,2", "0-7", "0-1")]
    inner.cancel_all()
