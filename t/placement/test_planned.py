"""The queue under everything that may happen runs as many steps as asked for; see planned.py."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from depth import deep
from placement.exploring import explore
from placement.planned import REACHED, Planned

#: In how many tests, so that they run side by side.
PARTS = 2


@pytest.fixture(autouse=True)
def step_by_step(monkeypatch):
    """A pass yields wherever it may."""
    monkeypatch.setattr("treepool.placement.plan.timeline._SLICE", 1)
    monkeypatch.setattr("treepool.placement.plan.earliest._STEPS", 1)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_order_of_events_breaks_a_promise_of_the_plan(pytestconfig, part):
    class Part(Planned):
        reached: ClassVar[Counter[str]] = Counter()

    steps = (pytestconfig.getoption("steps") or (20_000 if deep() else 600)) // PARTS
    try:
        explore(Part, steps)
    finally:
        print(f"{Part.steps} steps:", dict(sorted(Part.reached.items())))
    if steps >= 5_000:
        assert set(Part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
