"""Jobs that wait for a close place in a real instance, and no longer than they want to."""

import json

import pytest

from broker import Instance
from schemas import conforms

SWITCHES = [{"name": "a", "ranks": "0-1"}, {"name": "b", "ranks": "2-3"}]
TOPO = {"socket": [{"cores": "0-1"}, {"cores": "2-3"}]}
KEY = {"writer": "TreePool", "children": [{"topo": TOPO}], "fabric": {"switch": SWITCHES}}
TREEPOOL = ("sched-treepool", "policy=easy")


@pytest.fixture(scope="module")
def four():
    """Four nodes of four cores below two switches."""
    with Instance(4, 4, 0, KEY) as instance:
        yield instance


@pytest.fixture
def split(four):
    """The same with a job on a node of each switch; their ids."""
    four.load(*TREEPOOL)
    jobs = [four.submit("-N1", "--exclusive", f"--requires=rank:{rank}") for rank in (0, 2)]
    for job in jobs:
        four.wait(job, "alloc")
    yield jobs
    four.cancel_all()


def ranks(instance, job):
    return [rank for rank, _, _ in instance.placed(job)]


def test_without_a_wait_a_job_spans_switches(four, split):
    assert ranks(four, four.submit("-N2", "-n2", "--exclusive")) == ["1,3"]


@pytest.mark.parametrize("option", ["--locality-wait=4s", "--switches=1@0:04"])
def test_a_job_waits_for_one_switch_and_starts_anyway_when_it_has_waited(four, split, option):
    job = four.submit("-N2", "-n2", "--exclusive", option)
    four.settle()
    assert four.state(job) == "S"
    reason = four.soon(lambda: four.annotation(job, "reason_pending"))
    assert reason.startswith("no close place is free, any will do at ")
    assert ranks(four, job) == ["1,3"]
    submit, alloc = (
        float(line.split()[0])
        for line in four.flux(
            "job", "eventlog", "-f", "text", "--time-format=raw", job
        ).splitlines()
        if line.split()[1] in ("submit", "alloc")
    )
    assert alloc - submit >= 4


@pytest.mark.parametrize(
    "option, ends, then", [("--locality-wait=1h", 1, "2-3"), ("--switches=1", 0, "0-1")]
)
def test_a_job_starts_in_one_switch_as_soon_as_there_is_room(four, split, option, ends, then):
    job = four.submit("-N2", "-n2", "--exclusive", option)
    four.settle()
    assert four.state(job) == "S"
    four.flux("cancel", split[ends])
    assert ranks(four, job) == [then]


@pytest.fixture(scope="module")
def six():
    """Six nodes of four cores below three switches."""
    switches = [
        {"name": name, "ranks": f"{i},{i + 1}"} for name, i in (("a", 0), ("b", 2), ("c", 4))
    ]
    key = {**KEY, "fabric": {"switch": switches}}
    with Instance(6, 4, 0, key) as instance:
        instance.load(*TREEPOOL)
        yield instance


def test_a_job_in_two_switches_at_most_waits_for_them(six):
    jobs = [six.submit("-N1", "--exclusive", f"--requires=rank:{rank}") for rank in (0, 2, 4)]
    for job in jobs:
        six.wait(job, "alloc")
    job = six.submit("-N3", "-n3", "--exclusive", "--switches=2")
    six.settle()
    assert six.state(job) == "S"
    six.flux("cancel", jobs[2])
    assert ranks(six, job) == ["1,4-5"]
    six.cancel_all()


def test_a_job_in_two_switches_at_most_takes_three_when_it_has_waited(six):
    jobs = [six.submit("-N1", "--exclusive", f"--requires=rank:{rank}") for rank in (0, 2, 4)]
    for job in jobs:
        six.wait(job, "alloc")
    job = six.submit("-N3", "-n3", "--exclusive", "--switches=2@0:02")
    assert ranks(six, job) == ["1,3,5"]
    six.cancel_all()


def test_a_job_that_needs_more_switches_on_an_idle_machine_is_refused(six):
    job = six.submit("-N5", "-n5", "--switches=2")
    assert "in 2 switch domains at most: those with the most have 4, and it needs 3" in six.flux(
        "job", "eventlog", job
    )


def test_a_new_scheduler_goes_by_the_time_of_submission(four, split):
    job = four.submit("-N2", "-n2", "--exclusive", "--locality-wait=6s")
    four.settle()
    assert four.state(job) == "S"
    four.load(*TREEPOOL)
    assert ranks(four, job) == ["1,3"]


def test_explain_says_until_when_it_waits(four, split):
    job = four.submit("-N2", "-n2", "--exclusive", "--locality-wait=1h")
    four.settle()
    told = four.run("treepool", "explain", job).stdout
    assert "no close place is free, any will do at" in told


def test_status_counts_the_nodes_of_each_domain(four, split):
    found = four.flux("treepool", "status").splitlines()
    assert found[1] == (
        "switch: 2 domains, 2 with idle nodes; a job of up to 1 idle node fits into one (a)"
    )
    table = four.flux("treepool", "status", "--domains").splitlines()
    assert table[4].split() == ["switch", "a", "2", "1", "0", "1", "0", "4", "0"]
    told = [json.loads(line) for line in four.flux(
        "treepool", "status", "--domains", "--json").splitlines()]  # fmt: skip
    (line,) = [line for line in told if "fabric" in line]
    conforms(line, "status-fabric")
    fabric = line["fabric"]
    assert [line["domain"] for line in fabric["domains"]] == ["switch a", "switch b"]
    assert fabric["localities"][0]["largest"] == 1


def test_show_has_a_map_of_the_instance(four, split):
    said = four.flux("treepool", "show", "--instance")
    assert "switch a #.  switch b #." in said
    said = four.flux("treepool", "show", "--instance", "--domain", "b")
    assert "fake3" in said
    assert "fake1" not in said
