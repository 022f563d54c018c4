"""The queue under everything that may happen runs as many steps as asked for; see planned.py."""

from __future__ import annotations

import pytest

from depth import deep
from placement.exploring import explored
from placement.planned import REACHED, Planned

#: In how many tests, so that they run side by side.
PARTS = 2


@pytest.fixture(autouse=True)
def step_by_step(monkeypatch):
    """A pass yields wherever it may."""
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 1)
    monkeypatch.setattr("treepool.placement.plan.earliest._STEPS", 1)


@pytest.mark.parametrize("number", range(PARTS))
def test_no_order_of_events_breaks_a_promise_of_the_plan(pytestconfig, number):
    steps = (pytestconfig.getoption("steps") or (20_000 if deep() else 600)) // PARTS
    part = explored(Planned, steps)
    if steps >= 5_000:
        assert set(part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
