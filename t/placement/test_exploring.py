"""An exploration runs as many steps as are asked for."""

import pytest
from hypothesis import Phase, assume
from hypothesis import strategies as st
from hypothesis.stateful import rule

from placement.exploring import LENGTH, Counted, explore

#: Without the phase that explains a failure, which takes seconds.
FINDING = [Phase.generate, Phase.shrink]


class Adding(Counted):
    """Adds up numbers."""

    def __init__(self):
        super().__init__()
        self.total = 0

    @rule(number=st.integers(0, 9))
    def add(self, number):
        self.total += number


@pytest.mark.parametrize("steps", [1, LENGTH, LENGTH + 1, 500])
def test_as_many_steps_are_run_as_are_asked_for(steps):
    class Part(Adding):
        pass

    explore(Part, steps, database=None)
    assert Part.steps == steps


def test_an_example_that_hypothesis_gives_up_does_not_count_as_a_failure():
    class Choosy(Adding):
        @rule(number=st.integers(0, 999))
        def choose(self, number):
            assume(number != 5)

    explore(Choosy, 500, database=None)
    assert Choosy.steps == 500


def test_shrinking_a_failure_may_take_more_steps_than_there_are():
    class Broken(Adding):
        def check(self):
            assert self.total < 30

    with pytest.raises(AssertionError):
        explore(Broken, 200, database=None, phases=FINDING)
    assert Broken.steps > 200


def test_what_does_not_hold_at_the_end_of_an_example_is_a_failure():
    class Broken(Adding):
        def finish(self):
            assert self.total < 30

    with pytest.raises(AssertionError):
        explore(Broken, 200, database=None, phases=FINDING)
    assert Broken.broken
