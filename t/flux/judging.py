"""Run by Flux's Python: checks of the order in which waiting jobs are judged again."""

from unittest.mock import Mock

import checks
from steps import applied, judged_again, scheduler_of_two_jobs

from treepool.flux.submissions import Submission


def check_jobs_are_judged_again_in_the_order_of_the_queue():
    """Passes come between two judgements: what is ahead in the queue must be there first."""
    scheduler = scheduler_of_two_jobs()
    scheduler.prioritize([(2, 20)])
    applied(scheduler)
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


def job_1_is_on_its_way():
    """A scheduler whose job 1 has been taken out of the queue, to be judged again, and 2 not."""
    scheduler = scheduler_of_two_jobs()
    scheduler._intake.held.cancel.return_value = None
    scheduler._pending.judge_again()
    while 1 in scheduler.queue.jobs:
        assert scheduler._pending.apply()
    return scheduler


def check_jobs_on_their_way_go_on_if_all_that_came_after_them_are_cancelled():
    scheduler = job_1_is_on_its_way()
    scheduler._pending.judge_again()
    scheduler.cancel(2)
    applied(scheduler)
    assert scheduler._intake.release.call_count == 1


def check_jobs_on_their_way_go_on_if_no_other_is_left_to_be_judged_again():
    scheduler = job_1_is_on_its_way()
    scheduler.cancel(2)
    scheduler._pending.judge_again()
    applied(scheduler)
    assert scheduler._intake.release.call_count == 1


def check_a_job_whose_attributes_are_no_table_is_denied():
    # flux-core refuses them, unless plugins of the job manager are taken out.
    scheduler = scheduler_of_two_jobs()
    scheduler._intake.hold.return_value = False
    jobspec = scheduler._pending._submissions[1].jobspec
    for bad in ("x", {"system": "x"}, [1]):
        request = Mock()
        spec = {**jobspec, "attributes": bad}
        scheduler._pending.judge(Submission(request, 3, 16, 0, 0.0, spec))
        request.deny.assert_called_once()
        assert 3 not in scheduler.queue.jobs


if __name__ == "__main__":
    checks.run(globals())
