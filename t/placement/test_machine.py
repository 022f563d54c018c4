"""The machine runs as many steps as --steps says, a part of them in each test."""

from __future__ import annotations

import pytest

from depth import deep
from placement.exploring import explored
from placement.machine import REACHED, Machine

#: In how many tests, so that they run side by side.
PARTS = 8


@pytest.mark.parametrize("number", range(PARTS))
def test_no_operation_in_any_order_breaks_a_promise(pytestconfig, number):
    steps = (pytestconfig.getoption("steps") or (100_000 if deep() else 2_000)) // PARTS
    part = explored(Machine, steps)
    assert part.steps == steps
    if steps >= 10_000:
        assert set(part.reached) >= set(REACHED), "the machine goes nowhere near some operation"
