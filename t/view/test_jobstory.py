"""What ``treepool explain JOBID`` says in each state of a job."""

import pytest

from treepool.view.jobstory import Closed, Facts, answer_to_shape, story

NOW = 1_800_000_000.0
WAITING = {
    "state": "waiting",
    "reason": "2 of 4 nodes free now",
    "t_estimate": None,
    "reserved": False,
    "queue": "batch",
    "policy": "easy",
    "ahead": 3,
    "behind": None,
}


def told(state, **facts):
    return list(story(Facts("f1", state, **facts), NOW))


def test_dependencies_are_named_and_times_are_times():
    lines = told("DEPEND", dependencies=("begin-time=1800000000.000", "after-success=42"))
    assert lines[0].startswith("job f1: waits: it depends on the time: ")
    assert lines[0].endswith(", after-success=42")
    assert lines[1].startswith("     next: ")


@pytest.mark.parametrize(
    ("facts", "first", "second"),
    [
        ({"priority": 0, "urgency": 0}, "is held: its urgency is 0", "flux job urgency f1 default"),
        ({"priority": 0}, "is held: its priority is 0", "another priority"),
        ({"stopped": "hot", "queue": "batch"}, "waits: queue batch is stopped (hot)", "until"),
        (
            {"stopped": "hot", "queue": "express", "stopped_parent": "batch"},
            "waits: queue batch, the parent of express, is stopped (hot)",
            "until an administrator starts it (flux queue start batch)",
        ),
        (
            {"stopped": "Scheduler is offline", "queue": "batch"},
            "waits: no scheduler is loaded",
            "flux module load sched-treepool",
        ),
        ({"answer": {"state": "deferred"}}, "waits: the topology of some nodes", "have answered"),
    ],
)
def test_what_holds_a_job_back_comes_before_what_it_waits_for(facts, first, second):
    lines = told("SCHED", **{"answer": WAITING, **facts})
    assert lines[0].startswith(f"job f1: {first}")
    assert second in lines[1]


def test_a_job_in_the_queue_has_its_reason_its_place_and_what_is_next():
    lines = told("SCHED", queue="batch", answer=WAITING)
    assert lines[0] == "job f1: waits: 2 of 4 nodes free now"
    assert lines[1].strip() == "queue batch: 3 jobs ahead of it, policy easy"
    assert lines[2].strip().startswith("next: when it starts cannot be told")


def test_a_job_of_a_virtual_queue_has_its_place_in_the_order_of_the_parent():
    lines = told("SCHED", queue="express", answer=WAITING)
    said = "queue express in the order of batch: 3 jobs ahead of it, policy easy"
    assert lines[1].strip() == said


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("nodes", "it needs nodes that are down or drained"),
        ("unlimited", "jobs without a time limit hold what it needs"),
        ("ahead", "a job ahead of it has no estimate either"),
        ("many", "too many jobs are ahead of it"),
        ("search", "the search for a place was given up"),
    ],
)
def test_what_has_no_estimate_says_why(why, words):
    *_, last = told("SCHED", answer={**WAITING, "no_estimate": why})
    assert last.strip() == f"next: when it starts cannot be told: {words}"
    later = {"verdict": "later", "reason": "because", "t_estimate": None, "no_estimate": why}
    *_, last = answer_to_shape("slot/core", later, Closed(), NOW)
    assert last.strip() == f"when it would start cannot be told: {words}"


def test_a_job_that_is_over_may_still_be_cleaned_up():
    over = {"started": NOW, "result": "COMPLETED"}
    held = told("INACTIVE", **over, answer={"state": "running"}, summary="n1/core0")
    assert held[0] == "job f1: is over, and is being cleaned up: it completed"
    assert held[1].strip() == "next: n1/core0 is free when housekeeping is done"
    assert told("INACTIVE", **over, answer={"state": "unknown"}) == [
        "job f1: is over: it completed"
    ]


def test_an_estimate_is_not_a_promise_and_a_reservation_is():
    (*_, about) = told("SCHED", answer={**WAITING, "t_estimate": NOW + 60})
    assert "about" in about
    (*_, latest) = told("SCHED", answer={**WAITING, "t_estimate": NOW + 60, "reserved": True})
    assert "at the latest" in latest


@pytest.mark.parametrize("reserved", [True, False])
def test_a_time_that_has_passed_is_no_promise(reserved):
    answer = {**WAITING, "t_estimate": NOW - 600, "reserved": reserved}
    (*_, late) = told("SCHED", answer=answer)
    assert "next: it starts as soon as others make room: they are late" in late
    assert "latest" not in late and "about" not in late


@pytest.mark.parametrize("result", ["COMPLETED", "ODD"])
def test_a_job_that_is_over(result):
    lines = told("INACTIVE", result=result, over=NOW, exception="alloc: no\nroom")
    assert lines[0].startswith("job f1: is over: ")
    assert lines[1] == r"     alloc: no\nroom"
    assert lines[2].strip() == "it never had resources"


def test_why_a_job_was_cancelled_is_said_if_there_is_a_reason():
    assert len(told("INACTIVE", result="CANCELED", started=1.0, exception="cancel")) == 1
    said = told("INACTIVE", result="CANCELED", started=1.0, exception="cancel: too long")
    assert said[1].strip() == "cancel: too long"


@pytest.mark.parametrize(
    "state", ["NEW", "DEPEND", "PRIORITY", "SCHED", "RUN", "CLEANUP", "INACTIVE", "x\x1b[31m"]
)
def test_every_state_has_a_line_and_none_of_them_controls_a_terminal(state):
    bad = "a\x1b[2J\nb"
    facts = {
        "queue": bad,
        "stopped": bad,
        "stopped_parent": bad,
        "dependencies": (bad,),
        "result": bad,
        "exception": bad,
    }
    for more in (facts, {**facts, "stopped": None, "answer": {**WAITING, "reason": bad}}, {}):
        lines = told(state, **more)
        assert lines[0].startswith("job f1: ")
        assert all(line.isprintable() for line in lines)


def test_answers_to_shapes():
    now = {"verdict": "now", "fitness": 0.5, "summary": "n0/core0"}
    got = answer_to_shape("slot/core", now, Closed(), NOW)
    assert got[1].strip() == "on n0/core0"
    later = {"verdict": "later", "reason": "because", "t_estimate": None}
    assert "cannot be told" in answer_to_shape("slot/core", later, Closed(), NOW)[1]
    soon = {**later, "t_estimate": NOW, "summary": "n1/core0"}
    _, line = answer_to_shape("slot/core", soon, Closed(), NOW)
    assert "about" in line and line.endswith(" on n1/core0")
    held = answer_to_shape("slot/core", now, Closed(), NOW, ["it is held"])
    assert held == [*got, "     but first: it is held"]


@pytest.mark.parametrize("verdict", ["now", "later"])
def test_a_queue_that_is_stopped_or_disabled_comes_before_the_answer(verdict):
    answer = {"verdict": verdict, "fitness": 0.5, "reason": "because", "t_estimate": NOW}
    stopped, next_ = answer_to_shape("slot/core", answer, Closed("b", "cooling"), NOW)
    assert stopped == "slot/core: would wait: queue b is stopped (cooling)"
    assert next_.endswith("starts it (flux queue start b)"), "with queues, it needs a name"
    assert "until an administrator starts it" in next_
    closed = Closed("x", "cooling", None, "b")
    stopped, next_ = answer_to_shape("slot/core", answer, closed, NOW)
    assert stopped == "slot/core: would wait: queue b, the parent of x, is stopped (cooling)"
    assert next_.endswith("starts it (flux queue start b)")
    both = answer_to_shape("slot/core", answer, Closed("", "", ""), NOW)
    assert both == ["slot/core: would be refused: the queue is disabled"]
    never = {"verdict": "infeasible", "reason": "too large"}
    (line,) = answer_to_shape("slot/core", never, Closed("b", "cooling"), NOW)
    assert line == "slot/core: infeasible: too large"
