"""Run by Flux's Python: checks of the order in which waiting jobs are judged again."""

from unittest.mock import patch

import checks
from steps import judged_again, scheduler_of_two_jobs


def check_jobs_are_judged_again_in_the_order_of_the_queue():
    """Passes come between two judgements: what is ahead in the queue must be there first."""
    scheduler = scheduler_of_two_jobs()
    scheduler.prioritize([(2, 20)])
    list(scheduler._pending.apply())
    assert [each.jobid for each in judged_again(scheduler)] == [2, 1]


def check_a_priority_that_is_not_applied_yet_counts_for_the_order():
    scheduler = scheduler_of_two_jobs()
    scheduler.prioritize([(1, 5)])
    assert [each.jobid for each in judged_again(scheduler)] == [2, 1]


def check_a_job_that_is_cancelled_before_its_turn_is_not_judged_again():
    scheduler = scheduler_of_two_jobs()
    scheduler._intake.held.cancel.return_value = None
    scheduler._pending.judge_again()
    scheduler.cancel(1)
    assert [each.jobid for each in judged_again(scheduler)] == [2]


def check_jobs_on_their_way_go_on_if_all_that_came_after_them_are_cancelled():
    scheduler = scheduler_of_two_jobs()
    scheduler._intake.held.cancel.return_value = None
    scheduler._pending.judge_again()
    clock = iter(range(1000))
    with patch("treepool.flux.pending.time.monotonic", lambda: next(clock)):
        for _ in scheduler._pending.apply():
            if 1 not in scheduler.queue.jobs:
                break
    scheduler._pending.judge_again()  # while job 1 is on its way
    scheduler.cancel(2)
    list(scheduler._pending.apply())
    assert scheduler._intake.release.call_count == 1


if __name__ == "__main__":
    checks.run(globals())
