"""The machine runs: TREEPOOL_STEPS steps in all (`make machine`: 100,000), a part in each test."""

from __future__ import annotations

import os
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import Phase

from placement.exploring import explore
from placement.machine import REACHED, Machine

STEPS = int(os.environ.get("TREEPOOL_STEPS", "4000"))

#: In how many tests, so that they run side by side.
PARTS = int(os.environ.get("TREEPOOL_PARTS", "8"))

LIMITS = {} if os.environ.get("TREEPOOL_SHRINK", "yes") == "yes" else {"phases": [Phase.generate]}


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operation_in_any_order_breaks_a_promise(part):
    class Part(Machine):
        reached: ClassVar[Counter[str]] = Counter()

    steps = STEPS // PARTS
    try:
        explore(Part, steps, **LIMITS)
    finally:
        print(f"{Part.steps} steps:", dict(sorted(Part.reached.items())))
    assert Part.steps == steps
    if steps >= 10_000:
        assert set(Part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
