"""Every job gets an answer, whatever fails when it is started, and nothing stays allocated."""

from pathlib import Path

import pytest

FAULTY = Path(__file__).parent / "schedulers" / "sched-faulty.py"


@pytest.fixture(params=["fifo", "easy"])
def faulty(small, request):
    """A scheduler that fails on jobs of 3 to 6 cores."""
    small.load(FAULTY, "fails=3", f"policy={request.param}")
    small.scheduler = FAULTY.stem
    yield small
    small.cancel_all()


@pytest.mark.parametrize(
    "cores, why", [(3, "no annotations"), (4, "no R"), (5, "no KVS"), (6, "no memory")]
)
def test_a_job_whose_start_fails_is_denied_and_holds_nothing(faulty, cores, why):
    job = faulty.submit("-n1", f"-c{cores}")
    assert faulty.wait(job, "exception")["note"] == f"the scheduler failed on this job: {why}"
    faulty.wait(job, "clean")
    assert faulty.stats()["running_jobs"] == 0
    whole = faulty.submit("-N2", "-n2", "--exclusive")
    assert faulty.placed(whole) == [("0-1", "0-7", "0-1")]


def test_those_behind_it_start(faulty):
    holds = faulty.submit("-t1h", "-N2", "-n2", "--exclusive")
    faulty.wait(holds, "alloc")
    fails = [faulty.submit("-t1h", "-n1", f"-c{cores}") for cores in (3, 4, 5, 6)]
    later = [faulty.submit("-t1h", "-n1", f"-c{cores}") for cores in (8, 7, 1)]
    faulty.settle()
    faulty.flux("cancel", holds)
    for job in fails:
        faulty.wait(job, "exception")
    for job in later:
        faulty.wait(job, "alloc")
    assert faulty.stats()["running_jobs"] == 3
    assert faulty.resources("allocated")[1] == 16
