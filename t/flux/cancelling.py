"""Run by Flux's Python: checks of how the module waits for all cancels, without a broker."""

import math
from random import Random

import checks
from loaded import Loaded, asked_later


def cancel(here):
    """A request to cancel arrives, of a job that the module does not have."""
    here.send("sched.cancel", {"id": 99})


def check_jobs_that_are_cancelled_after_others_but_before_these_are_done_hold_passes_back():
    here = Loaded()
    asked = asked_later(here.handle, "job-manager.getinfo")
    job = here.submit()
    cancel(here)
    here.handle.turn()
    here.handle.turn()
    (first,) = asked
    first.add({})  # its answer waits in the inbox, behind the cancel
    cancel(here)
    here.rest()
    assert len(asked) == 2 and job.R is None, "more of the second series may come"
    asked[1].add({})
    here.rest()
    assert job.R


def storm(here, change, others=20, turns=400):
    """What *change* sends for the jobs of one user never ends; how long that of another waits.

    Both nodes have jobs of which the others wait; the job needs what one of them gives back.
    """
    first, second = here.submit("slot/core=8"), here.submit("slot/core=8")
    waiting = [here.submit().jobid for _ in range(others)]
    here.rest()
    assert first.R and second.R
    job = here.submit("slot/core=8", jobid=1000, duration=10)
    job.userid = 2
    here.manager.free(first)
    for turn in range(turns):
        change(waiting, turn)
        here.clock.now += 0.002
        for _ in range(8):
            here.handle.turn()
        if job.R:
            return here.clock.now - job.submitted
    return math.inf


def check_a_storm_of_new_priorities_does_not_keep_the_job_of_another_waiting():
    here = Loaded(policy="easy")

    def change(jobs, turn):
        here.clock.chance = Random(turn)  # from now on time passes while the module works
        here.manager.prioritize([[job, turn % 15] for job in jobs])

    waited = storm(here, change, 200, 3000)
    assert waited < 2, waited


def check_a_storm_of_requests_that_come_and_are_cancelled_does_not_either():
    here = Loaded(policy="easy")
    asked = asked_later(here.handle, "job-manager.getinfo")

    def again(jobs, turn):
        """As flux-core tells of a new urgency since 0.89: a cancel, and another request."""
        while asked:
            asked.pop().add({})
        job = here.manager.jobs[jobs[turn % len(jobs)]]
        here.send("sched.cancel", {"id": job.jobid})
        job.cancelled, job.answer = True, None
        job.msg = here.send("sched.alloc", {**job.msg.payload, "priority": turn % 15})

    waited = storm(here, again)
    assert waited < 0.6, waited


def check_who_always_cancels_takes_half_of_the_time_from_passes_and_no_more():
    here, starts, job = Loaded(), 0, None
    asked = asked_later(here.handle, "job-manager.getinfo")
    for _ in range(200):
        here.clock.now += 0.1
        if job is None:
            job = here.submit()
        cancel(here)
        here.rest()
        asked.pop().add({})
        cancel(here)
        here.rest()
        if job.R:
            starts += 1
            here.manager.free(job)
            job = None
    assert here.scheduler.cancelling
    assert 80 <= starts <= 120, starts


if __name__ == "__main__":
    checks.run(globals())
