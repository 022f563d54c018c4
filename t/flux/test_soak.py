"""A short soak: random work, a restart with running jobs, and nothing that the checker finds.

``make soak`` runs a long one.
"""

from itertools import product

import pytest

from checker import check
from soakcluster import QUEUES, SCHEDULERS, TABLES
from soaking import Soak, problems, scripts
from treepool.flux import options


@pytest.fixture(scope="module")
def soak(tmp_path_factory):
    """A soak that is over: three legs with a stop and a crash in between."""
    directory = tmp_path_factory.mktemp("soak")
    soak = Soak(directory, 49, 24, "a", leg_seconds=3.0, housekeeping=1.0, longest=8.0)
    soak.run(["stop", "crash", "last"], say=lambda text: None)
    return soak


def test_a_soak_has_no_violations(soak):
    record = soak.record()
    counts, violations = check(record, problems)
    assert violations == []
    assert counts["jobs"] == len(record["submitted"]) >= soak.counts["submitted"] >= 50
    assert counts["Rs checked"] == counts["allocated"] >= 0.8 * counts["jobs"]
    assert (counts["stops"], counts["crashes"], counts["quiet checks"]) == (1, 1, 1)
    assert soak.counts["cancels"] and soak.counts["reloads"] > 3, "in each leg, and as it settles"


def test_a_job_that_ran_when_the_instance_was_stopped_ends_after_it(soak):
    record = soak.record()
    (down, up, kind), _ = record["stops"]
    assert kind == "stop"
    at = [{e["name"]: e["timestamp"] for e in job["events"]} for job in record["jobs"]]
    gone = soak.gone[0]
    assert any(t.get("alloc", up) < down and t.get("finish", down) > gone for t in at)


def test_housekeeping_released_ranks_after_the_job(soak):
    record = soak.record()
    freed = {
        job["id"]: e["timestamp"]
        for job in record["jobs"]
        for e in job["events"]
        if e["name"] == "free"
    }
    ran = [(jobid, end) for jobid, _, _, end in record["housekeeping"] if end is not None]
    assert any(jobid in freed and end > freed[jobid] + 0.5 for jobid, end in ran)


def test_a_script_that_was_killed_has_no_end():
    lines = ["1 0 start 5.0", "1 1 start 5.5", "1 0 end 6.0"]
    assert scripts(lines) == [[1, 0, 5.0, 6.0], [1, 1, 5.5, None]]


def test_each_scheduler_of_a_soak_takes_each_table():
    for scheduler, table in product(SCHEDULERS, TABLES):
        arguments = [a for a in scheduler[1:] if not a.startswith("queue-depth=")]
        options.read(arguments, table, QUEUES)
