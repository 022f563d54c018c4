"""Rooms of the module by themselves, and the module as a whole, without a broker."""

from pathlib import Path

import pytest
from checks import LACKING, ran

from broker import environment
from features import HAS_TREE_POOL

HERE = Path(__file__).parent

#: Programs of checks, which Flux's Python runs.
PROGRAMS = (
    *("adapter", "fluxpools"),
    *("asking", "broken", "cancelling", "newer", "hostile", "running", "sharing", "steps", "told"),
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_check_holds(name):
    found = ran(HERE / f"{name}.py", environment(PYTHONPATH=str(HERE.parent)))
    if not HAS_TREE_POOL:
        found = {check: why for check, why in found.items() if not why.startswith(LACKING)}
    assert {check: why for check, why in found.items() if why} == {}
