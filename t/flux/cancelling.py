"""Run by Flux's Python: checks of how the module waits for all cancels, without a broker."""

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
