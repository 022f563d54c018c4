"""A job never starts later than the scheduler first said, if jobs keep their limits."""

import json

import pytest

from broker import REPOSITORY, Instance, key_of
from checker import late

SCRIPT = REPOSITORY / "tools/burst.py"


@pytest.mark.parametrize(("policy", "told"), [("easy", 3), ("conservative", 50)])
def test_no_job_starts_later_than_it_was_told_first(policy, told):
    with Instance(16, 120, 8, key_of("rfc49-cluster-a")) as instance:
        instance.load("sched-treepool", f"policy={policy}")
        jobs = json.loads(instance.flux("python", SCRIPT, 200, 7, 6, timeout=300))["jobs"]
    assert len(jobs) == 200
    assert sum(job["told"] is not None for job in jobs.values()) >= told
    assert list(late(jobs)) == []
