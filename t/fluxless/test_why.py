"""What ``make why`` says of schedulers, on records that were made by hand."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "why"))

from judge import Run


def job(ranks, cores, gpus="", submit=0.0, alloc=0.0, free=9.0, each=1):
    children = {"core": cores, **({"gpu": gpus} if gpus else {})}
    times = {"submit": submit, "alloc": alloc, "free": free}
    return {**times, "R_lite": [{"rank": ranks, "children": children}], "cores": each}


def run(*jobs):
    """On eight nodes of two domains with four cores and two GPUs, four below each switch."""
    return Run(list(jobs), 8, 2, 4, 2, 4)


@pytest.mark.parametrize(
    "cores, gpus, each, share",
    [
        ("0-1", "0", 2, 0),
        ("0-1", "2", 2, 1),
        ("3-4", "0", 2, 1),
        ("0-7", "0-3", 2, 0),
        ("0-3,4", "0-2", 1, 0),
        ("0-5", "0,2-3", 2, 1 / 3),
    ],
)
def test_tasks_whose_gpu_is_elsewhere(cores, gpus, each, share):
    assert run(job("0", cores, gpus, each=each)).apart() == share


@pytest.mark.parametrize("ranks, share", [("0-3", 0), ("3-4", 1), ("0-4", 0), ("0,4", 1)])
def test_jobs_below_more_switches_than_they_need(ranks, share):
    assert run(job(ranks, "0-7")).scattered() == share


def test_a_large_job_that_waits_though_enough_is_free():
    """Half of each node is in use: 16 GPUs are free, and a job of four on one node waits."""
    halves = [job(str(rank), "0-3", "0-1", free=5.0) for rank in range(8)]
    large = job("0", "0-7", "0-3", submit=1.0, alloc=5.0)
    assert run(*halves, large).fragmented(4) == 1
    assert run(*halves, {**large, "alloc": 1.2}).fragmented(4) == 0


def test_a_large_job_that_waits_for_what_is_in_use_does_not_count():
    full = job("0-7", "0-7", "0-3", free=5.0)
    assert run(full, job("0", "0-7", "0-3", submit=1.0, alloc=5.0)).fragmented(4) == 0


def test_who_waits_behind_another_does_not_count():
    full = job("0-6", "0-7", "0-3", free=5.0)
    first = job("0-1", "0-7", "0-3", submit=1.0, alloc=5.0)
    second = job("7", "0-7", "0-3", submit=1.1, alloc=5.0)
    assert run(full, first, second).fragmented(4) == 0
