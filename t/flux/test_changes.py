"""Who starts when, as Flux tells it: urgency, holds, limits that change, queues that stop.

The rules of policies are tested in t/placement, and the module beside a job manager in ``driven``.
"""

import json
import re
import time

import pytest

from broker import REPOSITORY

HOUR = 3600


@pytest.fixture
def waiting(small):
    """An instance under easy in which a job has one of two nodes, and the next job needs both."""
    small.load("sched-treepool", "policy=easy")
    small.first = small.submit("-t1h", "-N1", "-n1", "--exclusive", "--requires=rank:0")
    small.wait(small.first, "alloc")
    small.head = small.submit("-t1h", "-N2", "-n2", "--exclusive")
    assert small.soon(lambda: estimate(small, small.head) == 1)
    yield small
    small.run("queue", "start", "--all")
    small.cancel_all()


def estimate(instance, job):
    """In how many hours from now *job* says that it will start, rounded; None if it does not."""
    said = instance.annotation(job, "t_estimate")
    return round((float(said) - time.time()) / HOUR) if said else None


def test_one_that_is_overtaken_or_held_has_another_estimate_or_none(waiting):
    other = waiting.submit("-t2h", "-N2", "-n2", "--exclusive", "--urgency=31")
    assert waiting.soon(lambda: estimate(waiting, other) == 1)
    assert waiting.soon(lambda: estimate(waiting, waiting.head) == 3)
    waiting.flux("job", "urgency", other, "hold")
    assert waiting.soon(lambda: estimate(waiting, waiting.head) == 1)
    assert estimate(waiting, other) is None
    waiting.flux("cancel", waiting.first)
    waiting.wait(waiting.head, "alloc")
    assert waiting.annotation(waiting.head, "t_estimate") == ""
    waiting.flux("job", "urgency", other, "16")
    waiting.flux("cancel", waiting.head)
    assert waiting.placed(other) == [("0-1", "0-7", "0-1")]


def test_limits_that_change_count_and_each_job_is_told_how_it_was_selected(waiting):
    job = waiting.submit("-t10h", "-n1")
    assert waiting.waits(job)
    waiting.flux("update", job, "duration=10m")
    waiting.wait(job, "alloc")
    assert waiting.annotation(job, "backfill") == waiting.head
    had = waiting.R(waiting.first)["execution"]
    waiting.flux("update", waiting.first, "duration=+1h")
    change = waiting.wait(waiting.first, "resource-update")
    assert change["expiration"] == had["expiration"] + HOUR
    assert waiting.soon(lambda: estimate(waiting, waiting.head) == 2)
    waiting.load("sched-treepool", "policy=easy")  # which reads it from the events
    told = json.loads(waiting.flux("treepool", "explain", waiting.first, "--json"))
    assert told["answer"]["expiration"] == pytest.approx(had["expiration"] + HOUR)
    waiting.flux("update", waiting.first, "duration=0")
    assert waiting.soon(lambda: estimate(waiting, waiting.head) is None)
    waiting.flux("cancel", waiting.first, job)
    waiting.wait(waiting.head, "alloc")
    for one, how in ((job, "backfilled"), (waiting.head, "reserved"), (waiting.first, "immediate")):
        told = waiting.wait(one, "alloc")["annotations"]["sched"]["selection_type"]
        assert told == waiting.annotation(one, "selection_type") == how


def test_a_queue_that_is_stopped_starts_no_job_and_goes_on_once_it_is_started(waiting):
    behind = waiting.submit("--cc=1-40", "-t10h", "-n1").split()
    waiting.wait(behind[-1], "priority")
    for _ in range(3):
        waiting.flux("queue", "stop", "--all", "--quiet")
        assert waiting.soon(lambda: waiting.stats()["pending_jobs"] == 0)
        assert waiting.flux("jobs", "-no", "{id}", "--filter=running") == waiting.first
        waiting.flux("queue", "start", "--all", "--quiet")
    waiting.flux("cancel", waiting.head)
    waiting.wait(behind[0], "alloc")


def test_the_command_of_the_guide_prints_the_day_of_an_expected_start(small, idle):
    small.load("sched-treepool")
    small.wait(small.submit("-t30h", "-N2", "-n2", "--exclusive"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    day = time.strftime("%b%d", time.localtime(time.time() + 30 * HOUR))
    text = (REPOSITORY / "doc" / "user.md").read_text()
    (shown,) = re.findall("flux jobs -f pending -o '(.*t_estimate.*)'", text)
    assert small.soon(lambda: f" {day} " in small.flux("jobs", "-no", shown, head))


def test_a_start_after_all_calendars_is_no_estimate_and_flux_jobs_can_list_the_job(small, idle):
    small.load("sched-treepool", "policy=easy")
    small.wait(small.submit("-t10000000d", "-N1", "-n1", "--exclusive"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    shown = "{annotations.sched.t_estimate!d:%H:%M}|{annotations.sched.reason_pending}"
    said = "|1 of 2 nodes free now, the rest is held by jobs without a time limit"
    assert small.soon(lambda: small.flux("jobs", "-no", shown, head) == said)


FEASIBILITY = """
import flux, json, sys
try:
    flux.Flux().rpc("feasibility.check", {"jobspec": json.load(sys.stdin)}).get()
except OSError as e:
    print(e.strerror)
"""


def test_a_job_that_can_never_run_is_refused_also_at_the_prompt_where_the_site_says_so(
    small,
):
    ingest = {"validator": {"plugins": ["jobspec", "feasibility"]}}
    with small.configured(ingest=ingest) as instance:
        jobs = instance.flux("jobs", "-ano", "{id}").split()
        instance.wait(instance.submit("-N2", "-n2", "--exclusive"), "alloc")
        done = instance.run("submit", "-n1", "-c97", "true")
        why = "no node has 97 cores: the largest has 8"
        assert (done.returncode, done.stdout, why in done.stderr) == (1, "", True)
        assert len(instance.flux("jobs", "-ano", "{id}").split()) == len(jobs) + 1, "there is none"
        jobspec = instance.flux("submit", "--dry-run", "-n1", "-c97", "true")
        assert instance.flux("python", "-c", FEASIBILITY, stdin=jobspec) == why
        waits = instance.submit("-n1", "-c8")
        assert instance.waits(waits), "as before"
        checked = instance.run("treepool", "flux-env", "--check").stdout.splitlines()
        assert "feasibility check  on in this instance" in checked
        instance.flux("config", "load", stdin="{}")
        for words in (["-n1", "-c97"], ["--resources-shape=slot/chassis/core"]):
            job = instance.submit(*words)
            assert instance.wait(job, "exception")["type"] == "alloc"
        assert instance.state(waits) == "S"
