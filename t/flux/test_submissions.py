"""Submissions that wait for topology: which are to be judged, and when."""

from treepool.flux.submissions import Submission, Submissions


def submission(jobid, priority=16):
    return Submission(None, jobid, priority, 0.0, {})


def ready(submissions):
    """(job id, priority) of all that are ready, which are taken out."""
    return [(s.jobid, s.priority) for s in iter(submissions.next, None)]


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
    assert ready(held) == [(2, 3), (1, 20)]
