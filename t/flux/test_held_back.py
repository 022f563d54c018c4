"""What a running job has and the scheduler cannot read is nobody else's until the job is over."""

import json
import subprocess
import time

import pytest

from broker import Instance
from schemas import conforms

NUMA = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
#: An R whose end is a number that is none in C.
ENDLESS = '{"execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "expiration": 1%s}}'
ENDLESS %= "0" * 400

KEY = {"writer": "TreePool", "children": [{"ranks": "0", "topo": {"numa": NUMA}}]}


@pytest.fixture(scope="module")
def four():
    """Four brokers, one for each of four nodes of 2 numa with 4 cores and a GPU."""
    with Instance(4, 8, 2, KEY, size=4, conf=["resource.noverify=true"]) as instance:
        yield instance
        instance.cancel_all()


@pytest.fixture(autouse=True)
def idle(four):
    four.load("sched-treepool")
    yield
    four.flux("resource", "undrain", "-f", "0-3")
    four.cancel_all()


def key_of_R(four, job):
    return f"{four.flux('job', 'id', '--to=kvs', job)}.R"


def spoil(four, job, R):
    """Let the KVS have the text *R* instead of the R of *job*; without it, none."""
    if R is None:
        four.flux("kvs", "unlink", key_of_R(four, job))
    else:
        four.flux("kvs", "put", "--raw", f"{key_of_R(four, job)}=-", stdin=R)


def running(four, *words):
    job = four.submit(*words)
    four.wait(job, "alloc")
    return job


def ranks_of(four, job):
    return [rank for rank, _, _ in four.placed(job)]


def says(four, text):
    """Whether the scheduler says *text* soon after it was loaded."""
    return four.soon(lambda: text in four.ready())


def never_starts(four, job):
    """Whether *job* waits after the scheduler has had the time to start it."""
    four.settle()
    return four.state(job) == "S"


@pytest.mark.parametrize(
    "R",
    [None, "{}", '{"execution": {"R_lite": [7]}}', "{", "", "null", ENDLESS],
    ids=["gone", "empty", "no entry", "no JSON", "no text", "null", "endless"],
)
def test_nobody_gets_the_nodes_of_a_job_whose_R_is(four, R):
    job = running(four, "-N2", "-n2", "--exclusive")
    spoil(four, job, R)
    four.load("sched-treepool")
    assert says(four, "held back: rank[0-1]/core[0-7],gpu[0-1]")
    all_nodes = four.submit("-N4", "-n4", "--exclusive")
    assert never_starts(four, all_nodes)
    assert "2 of 4 nodes free now" in four.annotation(all_nodes, "reason_pending")
    assert four.state(job) == "R"
    four.flux("cancel", job)
    four.wait(all_nodes, "alloc", timeout=5)
    assert says(four, "nothing is held back any more")


def test_what_is_left_of_a_node_is_still_given(four):
    job = running(four, "-n1", "-c3", "-g1")
    spoil(four, job, None)
    four.load("sched-treepool")
    others = [four.submit("-n1", "-c4", "-g1") for _ in range(7)]
    places = {four.placed(other)[0] for other in others}
    assert len(places) == 7 and ("0", "0-3", "0") not in places
    last = four.submit("-n1", "-g1")
    assert never_starts(four, last)


def test_of_several_such_jobs_one_ends_across_reloads_and_drains(four):
    first, second = (running(four, "-n1", "-c4", "-g1") for _ in range(2))
    assert ranks_of(four, first) == ranks_of(four, second) == ["0"]
    for job in (first, second):
        spoil(four, job, None)
    four.flux("resource", "drain", "0")
    four.load("sched-treepool")
    assert says(four, "held back: rank0/core[0-7],gpu[0-1]")
    four.flux("resource", "undrain", "0")
    fills = running(four, "-N3", "-n3", "--exclusive")
    waits = four.submit("-n1", "-c4", "-g1")
    assert never_starts(four, waits)
    four.load("sched-treepool")
    assert never_starts(four, waits)
    four.flux("cancel", first)
    assert four.placed(waits) == [("0", "0-3", "0")]
    assert four.state(second) == four.state(fills) == "R"
    another = four.submit("-n1")
    assert never_starts(four, another)
    four.flux("cancel", second)
    four.wait(another, "alloc", timeout=5)


def test_a_job_whose_R_says_that_it_has_what_another_has(four):
    # Both are damaged: the first R is gone, the second one says what the first job has.
    first, second = (running(four, "-N1", "-n1", "--exclusive") for _ in range(2))
    R = four.R(first)
    spoil(four, first, None)
    spoil(four, second, json.dumps(R))
    four.load("sched-treepool")
    both = four.submit("-N3", "-n3", "--exclusive")
    assert never_starts(four, both)
    four.flux("cancel", second)
    assert four.placed(both) == [("1-3", "0-7", "0-1")]
    assert four.state(first) == "R"
    other = four.submit("-n1")
    assert never_starts(four, other)
    four.flux("cancel", first)
    assert four.placed(other) == [("0", "0", "")]


def test_the_nodes_of_a_job_that_ends_because_of_a_reload_outlast_another_reload(four):
    stubborn = "trap '' TERM; for i in $(seq 12); do sleep 0.5; done"
    job = four.flux("submit", "-N1", "-n1", "--exclusive", "sh", "-c", stubborn)
    four.wait(job, "shell.start", path="guest.exec.eventlog")
    R = four.R(job)
    R["execution"]["R_lite"][0]["children"]["core"] = "0-99"
    spoil(four, job, json.dumps(R))
    four.load("sched-treepool")
    assert "reallocate" in four.wait(job, "exception")["note"]
    after = four.submit("-N4", "-n4", "--exclusive")
    four.load("sched-treepool")
    assert never_starts(four, after)
    four.wait(after, "alloc", timeout=40)
    assert four.flux("jobs", "-no", "{state}", job) == "INACTIVE"


def held_back(four):
    """A job whose node is held back because its R is gone, and how often hello was said by then."""
    job = running(four, "-N1", "-n1", "--exclusive")
    spoil(four, job, None)
    four.load("sched-treepool")
    assert says(four, "held back: rank0/core[0-7],gpu[0-1]")
    return job, four.log().count("scheduler: hello")


def test_jobs_that_come_and_go_do_not_keep_back_what_is_free_again(four):
    job, hellos = held_back(four)
    four.flux("cancel", job)
    short = "--setattr=system.exec.test.run_duration=0.1s"
    script = f"for i in $(seq 60); do flux submit --quiet --wait {short} -n1 true; done"
    others = subprocess.Popen(["sh", "-c", script], env=four.env)
    try:
        given_back = four.soon(lambda: "nothing is held back any more" in four.log(), 15)
        assert given_back and others.poll() is None
        assert four.log().count("scheduler: hello") <= hellos + 1
    finally:
        others.kill()
        others.wait()


def test_to_wait_for_the_end_of_a_job_asks_for_no_other_hello(four):
    _, hellos = held_back(four)
    time.sleep(4)
    assert four.log().count("scheduler: hello") == hellos


def test_status_tells_what_is_held_back(four):
    job = running(four, "-N2", "-n2", "--exclusive")
    spoil(four, job, None)
    four.load("sched-treepool")
    four.submit("-N3", "-n3", "--exclusive")
    held = "fake[0-1]/core[0-7],gpu[0-1]"
    lines = four.flux("treepool", "status").splitlines()
    assert f"held back for jobs whose R cannot be read: {held}" in lines
    assert lines[0].startswith("4 nodes: 2 idle, 2 full; 16 of 32 cores used")
    facts = [json.loads(line) for line in four.flux("treepool", "status", "--json").splitlines()]
    (told,) = (fact for fact in facts if "held_back" in fact)
    conforms(told, "status-held-back")
    assert told["held_back"] == "rank[0-1]/core[0-7],gpu[0-1]"
    assert told["hosts"] == "fake[0-1]"
    assert facts[-1]["totals"]["cores_used"] == 16
    assert four.stats()["running_jobs"] == 0
    added = four.flux(
        "treepool", "window", "add", "--hosts=fake[0-3]", "--start=+1h", "--duration=1h"
    )
    assert "run" not in added
