"""Run by Flux's Python: what breaks in treepool is told and logged, and the module goes on."""

from unittest.mock import patch

import checks
from loaded import BOTH, Loaded

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
    assert "\n" not in line
    while running := [job for job in here.manager.jobs.values() if job.held]:
        here.ended(running[0])
        here.wait(2)
    assert here.started("slot/core"), what


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
        answer = job.msg.errors[-1][1] if job.msg.errors else job.msg.answers[-1]["note"]
        assert f"{name} is broken" in answer, answer
        lives(here, name)


def check_what_breaks_at_other_messages_is_logged():
    for of, name, act in (
        (Queue, "prioritize", lambda here, job: here.manager.prioritize([[job.jobid, 20]])),
        (Pool, "mark_down", lambda here, job: here.manager.mark(False, {0})),
        (Queue, "run", lambda here, job: here.submit("slot/core")),
    ):
        here = Loaded(policy="easy")
        here.started(BOTH)
        job = here.waits(BOTH)
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
