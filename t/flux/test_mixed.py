"""A thousand jobs of all kinds, with cancels and reloads: afterwards everything is free."""

import json

from broker import REPOSITORY, Instance, key_of

SCRIPT = REPOSITORY / "tools/mixed.py"


def test_after_a_thousand_mixed_jobs_everything_is_free():
    with Instance(16, 120, 8, key_of("rfc49-cluster-a")) as instance:
        instance.load("sched-treepool", "policy=easy")
        said = instance.flux("python", SCRIPT, 1000, 49, timeout=400)
        census = json.loads(said.splitlines()[-1])
        assert census["jobs"] == 1000
        assert census["reloads"] == 3
        assert census["twice"] == []
        assert census.get("failed", 0) == 0, census.get("notes")
        assert census["completed"] + census["canceled"] == 1000
        assert census["completed"] >= 900
        assert instance.resources("allocated") == (0, 0, 0)
        assert instance.resources("free") == (16, 1920, 128)
        stats = instance.stats()
        assert (stats["running_jobs"], stats["pending_jobs"]) == (0, 0)
