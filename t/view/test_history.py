"""A replay's history can be looked at step by step."""

import json

from made import nodes
from treepool.rfc.rset import ResourceSet
from treepool.view.history import day, picture_of
from treepool.view.replay import Rules, replay
from treepool.view.trace import read

R = nodes("0-1", "0-3")
TRACE = "\n".join(
    json.dumps({"id": name, "submit": submit, "duration": 60, "shape": "slot=1/node{x}"})
    for name, submit in (("a", 0), ("b", 10), ("c", 20))
)


def history():
    starts = []
    resource_set = ResourceSet.read(R)
    replay(resource_set, read(TRACE).jobs, Rules("", "fifo", 8), watch=lambda *s: starts.append(s))
    return picture_of(resource_set, starts)


def test_every_start_and_end_is_a_step():
    labels = [step.label for step in history().steps]
    assert labels == [
        "before the first job",
        "00:00:00: job a: slot=1/node{x}",
        "00:00:10: job b: slot=1/node{x}",
        "00:01:00: job a ends",
        "00:01:00: job c: slot=1/node{x}",
        "00:01:10: job b ends",
        "00:02:00: job c ends",
    ]


def test_steps_of_a_trace_with_dates_are_dated():
    assert day(1_793_545_232) == "2026-11-01" and day(90_000) == "day 1"
