"""Run by Flux's Python: what breaks in treepool is told and logged, and the module goes on."""

import re
from unittest.mock import patch

import checks
from loaded import BOTH, Loaded, name_of

from treepool.flux.sched import TreepoolScheduler
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool


def broken(of, name, why="is broken\n\x1b"):
    """Let the next call of a method raise."""
    works, raised = getattr(of, name), []

    def breaks(self, *args, **more):
        if not raised:
            raised.append(True)
            raise RuntimeError(f"{of.__name__}.{name} {why}")
        return works(self, *args, **more)

    return patch.object(of, name, breaks)


def lives(here, what):
    """The module has said what was broken, on one line, and starts jobs."""
    (line,) = [text for _, text in here.handle.logged if f"{what} is broken" in text]
    assert line.isprintable(), line
    while running := [job for job in here.manager.jobs.values() if job.held]:
        here.ended(running[0])
        here.wait(2)
    assert here.started("slot/core", duration=1), what


def window(here, name):
    entry = {"name": name, "hosts": "n0", "start": here.clock.now + 60, "end": here.clock.now + 120}
    msg = here.send("sched-treepool.window-add", entry)
    here.rest()
    return msg


def check_a_job_whose_submission_breaks_is_denied_with_the_reason():
    for of, name in (
        (TreepoolScheduler, "alloc"),
        (Pool, "parse_resource_request"),
        (Queue, "add"),
    ):
        here = Loaded()
        with broken(of, name):
            job = here.submit("slot/core")
            here.rest()
        note = f"the scheduler failed on this job: RuntimeError: {of.__name__}.{name} is broken"
        assert job.msg.answers[-1]["note"].startswith(note)
        if of is not TreepoolScheduler:
            (line,) = [text for _, text in here.handle.logged if " is broken" in text]
            assert re.match(rf"{name_of(job)} \(\w+\.py:\d+\): RuntimeError: ", line), line
            assert (
                "treepool_jobs_failed_total 1"
                in here.typed("status", "--prometheus").out.splitlines()
            )
        lives(here, name)


def check_what_breaks_at_other_messages_is_logged():
    for of, name, act in (
        (Queue, "prioritize", lambda here, job: here.manager.prioritize([[job.jobid, 20]])),
        (Pool, "mark_down", lambda here, job: here.manager.mark(False, {0})),
        (Queue, "run", lambda here, job: here.submit("slot/core")),
        (Queue, "remove", lambda here, job: here.manager.cancel(job)),
        (TreepoolScheduler, "free", lambda here, job: here.ended(here.manager.jobs[1])),
    ):
        here = Loaded(policy="easy")
        here.started("slot/core=8")
        job = here.waits("slot=2/node/core=5")
        with broken(of, name):
            act(here, job)
            here.rest()
            here.wait(2)
        here.manager.mark(True, {0})
        here.rest()
        lives(here, f"{of.__name__}.{name}")


def check_a_question_or_a_change_that_breaks_something_is_answered_with_the_reason():
    for name, ask in (
        ("set_windows", lambda here: window(here, "one")),
        ("set_rules", lambda here: here.configure(policy="fifo")),
        ("ahead", lambda here: here.send("sched-treepool.job", {"id": 2})),
    ):
        here = Loaded(policy="easy")
        here.started(BOTH)
        here.waits(BOTH)
        with broken(Queue, name):
            msg = ask(here)
            here.rest()
        assert f"Queue.{name} is broken" in msg.errors[0][1], (name, msg.answers)
        assert window(here, "two").answers and not here.configure(policy="easy").errors


if __name__ == "__main__":
    checks.run(globals())
