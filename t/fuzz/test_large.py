"""No input of up to 1 MiB makes much work, or takes 200 MiB; see large.py and measure.py."""

import pytest

from fuzz import measure
from fuzz.large import LARGE, MIB, cases, make
from fuzz.measure import MAX_LINES, MAX_MIB, Cost, cost
from fuzz.targets import TARGETS, attempt

CASES = list(cases())


@pytest.fixture(scope="module", autouse=True)
def imported():
    """What good input imports and remembers, before anything is measured."""
    for name, target in TARGETS.items():
        for seed in target.seeds:
            attempt(name, seed)


@pytest.mark.depth
@pytest.mark.parametrize(("name", "case"), CASES, ids=map(" ".join, CASES))
def test_a_large_input_is_answered_with_bounded_work_and_memory(name, case):
    data = make(name, case)
    assert len(data) <= MIB
    found = cost(name, data, counted=True)
    assert found.good, found


def test_every_target_has_large_inputs():
    assert LARGE.keys() == TARGETS.keys()


def test_a_cost_above_the_limits_is_noticed():
    assert Cost("read", 1.0, MAX_MIB, MAX_LINES).good
    assert not Cost("read", 0, 0, MAX_LINES + 1).good
    assert not Cost("read", 0, MAX_MIB + 1).good
    assert not Cost("misbehaved: KeyError", 0, 0).good


def test_work_is_counted_and_stopped(monkeypatch):
    monkeypatch.setattr(measure, "MAX_LINES", 1000)
    found = cost("idset", b",".join(b"%d" % (2 * i) for i in range(1000)), counted=True)
    assert found.outcome == "misbehaved: TooMuchWork: more than 1,000 lines"
    assert 1 < cost("idset", b"0-3", counted=True).lines < 100


def test_memory_is_measured(monkeypatch):
    def filling(data):
        assert bytearray(b"x") * (64 << 20)

    monkeypatch.setitem(TARGETS, "filling", type(TARGETS["idset"])("filling", filling, ()))
    assert 60 < cost("filling", b"").mib < 80
