"""The machine runs as many steps as --steps says, a part of them in each test."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from depth import deep
from placement.exploring import explore
from placement.machine import REACHED, Machine

#: In how many tests, so that they run side by side.
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operation_in_any_order_breaks_a_promise(pytestconfig, part):
    class Part(Machine):
        reached: ClassVar[Counter[str]] = Counter()

    steps = (pytestconfig.getoption("steps") or (100_000 if deep() else 2_000)) // PARTS
    try:
        explore(Part, steps)
    finally:
        print(f"{Part.steps} steps:", dict(sorted(Part.reached.items())))
    assert Part.steps == steps
    if steps >= 10_000:
        assert set(Part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
