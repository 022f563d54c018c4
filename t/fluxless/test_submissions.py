"""Submissions that wait for topology: which are to be judged, and when."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treepool.flux.submissions import Submission, Submissions
from work import Lines


def submission(jobid, priority=16):
    return Submission(None, jobid, priority, 0, 0.0, {})


def ready(submissions):
    """(job id, priority) of all that are ready, which are taken out."""
    found = []
    while submissions.ready:
        submission = submissions.next()
        if submission is not None:  # otherwise one of them was put in order
            found.append((submission.jobid, submission.priority))
    return found


def test_each_waits_for_its_own_ranks_only():
    held = Submissions()
    held.hold(submission(1), 0b011)
    held.hold(submission(2), 0b100)
    held.hold(submission(3), 0)
    assert (len(held), held.ready, held.next()) == (3, False, None)
    held.release(0b010)
    assert held.ready
    assert ready(held) == [(2, 16), (3, 16)]
    held.release(0b100)
    assert ready(held) == [(1, 16)]
    assert len(held) == 0


def test_one_that_is_cancelled_is_not_judged():
    held = Submissions()
    for jobid in (1, 2, 3):
        held.hold(submission(jobid), jobid & 1)
    held.release(1)  # 2 is ready, the others wait
    assert [held.cancel(jobid).jobid for jobid in (1, 2)] == [1, 2]
    assert held.cancel(2) is None
    held.release(0)
    assert ready(held) == [(3, 16)]


def test_a_new_priority_counts_whether_it_waits_or_is_ready():
    held = Submissions()
    held.hold(submission(1), 1)
    held.hold(submission(2), 0)
    held.release(1)
    held.prioritize([(1, 20), (2, 3), (4, 5)])
    held.release(0)
    assert ready(held) == [(1, 20), (2, 3)]


def test_one_that_comes_back_after_a_cancellation_is_judged_once():
    held = Submissions()
    held.hold(submission(1), 0)
    held.release(0)
    held.cancel(1)
    assert not held.ready
    held.hold(submission(1, priority=9), 0)
    held.release(0)
    assert ready(held) == [(1, 9)]
    assert (len(held), held.ready) == (0, False)


@pytest.mark.depth
@pytest.mark.parametrize("unknown", [0b00, 0b10])
def test_a_release_looks_at_groups_and_not_at_each_of_50000_jobs(unknown):
    held = Submissions()
    for jobid in range(50_000):
        held.hold(submission(jobid), 0b01 if jobid % 2 else 0b11)
    with Lines(most=100) as work:
        held.release(unknown)
    assert work.count < 40
    assert len(ready(held)) == 50_000 - 25_000 * (unknown > 0)


@pytest.mark.depth
def test_the_next_of_50000_jobs_is_found_at_once_and_also_after_many_were_cancelled():
    held = Submissions()
    for jobid in range(50_000):
        held.hold(submission(jobid), 0)
    held.release(0)
    for jobid in range(0, 50_000, 2):
        held.cancel(jobid)
    with Lines(most=1_000_000) as work:
        assert len(ready(held)) == 25_000
    assert work.count < 40 * 25_000


def test_groups_that_wait_for_the_same_ranks_are_joined():
    held = Submissions()
    for jobid in range(200):  # one after another, 200 nodes send what they are
        held.hold(submission(jobid), (1 << 201) - (1 << jobid))
        held.release((1 << 201) - (2 << jobid))
    held.release(0)
    assert [jobid for jobid, _ in ready(held)] == list(range(200))


def test_those_that_became_ready_can_still_be_cancelled_and_get_other_priorities():
    held = Submissions()
    for jobid in (2, 1, 3):
        held.hold(submission(jobid), 1)
    held.release(0)
    held.cancel(3)
    held.prioritize([(1, 20)])
    assert ready(held) == [(1, 20), (2, 16)]
    assert len(held) == 0


def test_they_are_judged_in_the_order_of_the_queue():
    held = Submissions()
    for jobid, priority, ranks in ((1, 16, 1), (4, 16, 2), (3, 31, 2), (2, 16, 0), (5, 0, 1)):
        held.hold(submission(jobid, priority), ranks)
    held.release(1)
    assert held.next() is held.next() is None, "two are put in order"
    held.prioritize([(4, 20), (4, 15), (2, 16)])
    held.release(0)
    held.prioritize([(1, 30), (2, 17)])
    assert ready(held) == [(3, 31), (1, 30), (2, 17), (4, 15), (5, 0)]
    assert len(held) == 0


@settings(deadline=None)
@given(st.data())
def test_whatever_happens_to_them_each_is_judged_once_after_all_before_it_that_are_ready(data):
    held, waiting = Submissions(), {}
    for _ in range(data.draw(st.integers(1, 40))):
        jobid, priority = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))
        step = data.draw(st.sampled_from(["hold", "cancel", "prioritize", "release", "next"]))
        if step == "hold" and jobid not in waiting:
            held.hold(submission(jobid, priority), 0)
            waiting[jobid] = [priority, False]
        elif step == "cancel":
            assert (held.cancel(jobid) is None) == (waiting.pop(jobid, None) is None)
        elif step == "prioritize":
            held.prioritize([(jobid, priority)])
            if jobid in waiting:
                waiting[jobid][0] = priority
        elif step == "release":
            held.release(0)
            for one in waiting.values():
                one[1] = True
        elif step == "next":
            found = held.next()
            if found is not None:
                first = min((-p, job) for job, (p, is_ready) in waiting.items() if is_ready)
                assert (-found.priority, found.jobid) == first
                del waiting[found.jobid]
        assert held.ready == any(is_ready for _, is_ready in waiting.values())
        assert len(held) == len(waiting)
