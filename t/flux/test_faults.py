"""Restarts and faults: nothing is lost, nothing is in two jobs."""

import json
import os
import signal

import pytest

from broker import Instance
from made import nodes


@pytest.fixture
def site(four):
    """Four brokers, one for each node."""
    four.load("sched-treepool")
    yield four
    four.cancel_all()


@pytest.mark.parametrize(
    "words", [("sched-treepool", "policy=easy"), ("sched-simple", "pool-class=TreePool")]
)
def test_a_reload_keeps_what_jobs_have(site, words):
    jobs = [site.submit("-n1", "-c3", "-g1") for _ in range(5)]
    before = [site.placed(job) for job in jobs]
    site.load(*words)
    assert site.resources("allocated") == (3, 15, 5)
    after = [site.placed(site.submit("-n1", "-c3", "-g1")) for _ in range(3)]
    assert len({str(place) for place in before + after}) == 8
    assert all(site.state(job) == "R" for job in jobs)
    # The log keeps 1,024 lines: one for each of many jobs would leave no other.
    said = [line for line in site.log().splitlines() if ".info[" in line]
    assert not [line for line in said if any(job in line for job in jobs)]
    site.load("sched-treepool")


def test_partial_release_and_a_reload_in_between(site):
    # Housekeeping that ends on all nodes but rank 1, until a file goes.
    hold = f"/tmp/treepool-hold-{os.getpid()}"
    script = f'[ "$(flux getattr rank)" = 1 ] && while [ -e {hold} ]; do sleep 0.1; done; true'
    config = json.dumps(
        {"job-manager": {"housekeeping": {"command": ["sh", "-c", script], "release-after": "0s"}}}
    )
    open(hold, "w").close()
    try:
        site.flux("config", "load", stdin=config)
        job = site.submit("-N3", "-n3", "-c8", "-g2")
        site.wait(job, "alloc")
        site.flux("cancel", job)
        assert site.soon(lambda: site.resources("allocated") == (1, 8, 2))
        assert site.placed(site.submit("-N3", "-n3", "--exclusive"))[0][0] == "0,2-3"
        site.load("sched-treepool")
        assert site.resources("allocated") == (4, 32, 8)
        os.unlink(hold)
        assert site.soon(lambda: site.resources("allocated") == (3, 24, 6))
    finally:
        if os.path.exists(hold):
            os.unlink(hold)
        site.cancel_all()
        site.soon(lambda: site.resources("allocated") == (0, 0, 0))
        site.flux("config", "load", stdin="{}")
    assert site.resources("free") == (4, 32, 8)


def test_a_lost_broker_is_not_used_and_its_job_ends():
    topo = {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}
    R = nodes("0-3", "0-7", "0-1", topo, nodelist=["fake[0-3]"])
    with Instance(size=4, R=R) as four:
        four.load("sched-treepool")
        assert four.soon(lambda: four.resources("free") == (4, 32, 8))
        pid = four.flux("exec", "-r", "3", "flux", "getattr", "broker.pid")
        os.kill(int(pid), signal.SIGKILL)
        assert four.soon(lambda: four.resources("down") == (1, 8, 2), seconds=30)
        job = four.submit("-N3", "-n3", "--exclusive")
        assert four.placed(job) == [("0-2", "0-7", "0-1")]
        waiting = four.submit("-N1", "-n1", "--exclusive")
        assert four.waits(waiting)
        four.cancel_all()


#: A job that seems to run for an hour, for ``nested``.
RUNS = {"system": {"exec": {"test": {"run_duration": "1h"}}, "x": "nested"}}


def nested(depth, at):
    """A jobspec that has lists in lists, *depth* deep, as value "nested" of the text *at* in it."""
    jobspec = {
        "version": 1,
        "resources": [
            {"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}
        ],
        "tasks": [{"command": ["true"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 3600, **at.get("system", {})}, **at.get("more", {})},
    }
    return json.dumps(jobspec).replace('"nested"', "[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("at", "status"),
    [
        ({"system": {"x": "nested"}}, "COMPLETED"),
        ({"system": {"treepool": {"locality": "nested"}}}, "FAILED"),
        ({"system": {"constraints": {"and": "nested"}}}, "FAILED"),
    ],
)
def test_a_jobspec_that_is_nested_as_deep_as_flux_allows_ends_no_scheduler(lax, at, status):
    job = lax.flux("job", "submit", stdin=nested(2030, at))
    lax.run("job", "wait-event", "--timeout=30", job, "clean")
    assert lax.flux("jobs", "-no", "{status}", job) == status
    assert lax.stats()["pending_jobs"] == 0


MEMO = """
import sys, flux, flux.job
memo = '{"id": %d, "volatile": false, "memo": {"resource-update": %s}}'
nested = 1500 * "[" + 1500 * "]"
flux.Flux().rpc("job-manager.memo", memo % (flux.job.JobID(sys.argv[1]), nested)).get()
"""


def test_a_memo_that_is_nested_as_deep_neither_ends_its_job_nor_a_command(lax):
    job = lax.flux("job", "submit", stdin=nested(2000, RUNS))
    lax.wait(job, "alloc")
    lax.flux("python", "-c", MEMO, job)
    lax.load("sched-treepool")
    assert f"job {job}: runs since" in lax.flux("treepool", "explain", job)
    assert "1 of 16 cores used" in lax.flux("treepool", "status")
    words = ("--hosts=fake0", "--start=now", "--duration=1h", "--user=nobody", "--name=w")
    assert job in lax.run("treepool", "window", "add", *words).stderr
    lax.flux("treepool", "window", "remove", "w")
    assert lax.stats()["running_jobs"] == 1
    lax.flux("cancel", job)


@pytest.fixture(scope="module")
def lax(small):
    """An instance that does not check jobspecs at submission."""
    with small.configured(ingest={"validator": {"disable": True}}) as instance:
        yield instance


@pytest.mark.parametrize(
    "words", [("sched-treepool",), ("sched-simple", "pool-class=TreePool")], ids=["2", "1"]
)
def test_a_percent_sign_in_an_error_that_is_logged_ends_no_scheduler(lax, words):
    lax.load(*words)
    option = '--setattr=system.treepool.locality="%n%s%n%s"'
    job = lax.submit("-n1", option)
    lax.run("job", "wait-event", "--timeout=30", job, "clean")
    assert lax.flux("jobs", "-no", "{status}", job) == "FAILED"
    lax.placed(lax.submit("-n1"))
    lax.load("sched-treepool")
