"""The machine runs: TREEPOOL_STEPS steps in all (`make machine`: 100,000), a part in each test."""

from __future__ import annotations

import os
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from placement.machine import REACHED, Machine

STEPS = int(os.environ.get("TREEPOOL_STEPS", "4000"))

#: In how many tests, so that they run side by side.
PARTS = int(os.environ.get("TREEPOOL_PARTS", "8"))

SHRINK = os.environ.get("TREEPOOL_SHRINK", "yes") == "yes"

SETTINGS = settings(
    max_examples=40,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    **({} if SHRINK else {"phases": [Phase.generate]}),
)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operation_in_any_order_breaks_a_promise(part):
    class Part(Machine):
        steps = 0
        reached: ClassVar[Counter[str]] = Counter()

    try:
        while Part.steps < STEPS / PARTS:
            run_state_machine_as_test(Part, settings=SETTINGS)
    finally:
        print(f"{Part.steps} steps:", dict(sorted(Part.reached.items())))
    if Part.steps >= 10_000:
        assert set(Part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
