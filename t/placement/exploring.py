"""Runs a state machine of hypothesis for a given number of steps."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

#: Steps of one example.
LENGTH = 60


class BudgetSpent(BaseException):
    """The last step is done. Hypothesis takes an Exception for a failure, and shrinks it."""


class Counted(RuleBasedStateMachine):
    """A machine that counts its steps and stops after ``budget`` of them.

    ``check`` is what holds after each step, ``finish`` what holds at the end of an example. A class
    counts for all its machines, so each exploration needs a class of its own.
    """

    steps: ClassVar[int] = 0
    budget: ClassVar[float] = math.inf

    #: Whether a step failed: shrinking it may take any number of steps.
    broken: ClassVar[bool] = False

    def check(self) -> None:
        """Raises AssertionError where something does not hold."""

    def finish(self) -> None:
        """Raises AssertionError where something does not hold."""

    @invariant()
    def count_and_check(self) -> None:
        type(self).steps += 1
        self.check()
        if self.steps >= self.budget and not self.broken:
            raise BudgetSpent

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            error = sys.exc_info()[1]  # hypothesis calls this while an error of a step propagates
            if isinstance(error, Exception) and not isinstance(error, HypothesisException):
                type(self).broken = True


def explore(machine: type[Counted], steps: int, **limits: Any) -> None:
    """Run machines of this class until they have done *steps* steps in all, not one more."""
    machine.budget = steps
    while machine.steps < steps:
        chosen = settings(
            max_examples=math.ceil((steps - machine.steps) / LENGTH),
            stateful_step_count=LENGTH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **limits,
        )
        try:
            run_state_machine_as_test(machine, settings=chosen)
        except BudgetSpent:
            break
        except Flaky:
            # The budget ended where hypothesis ran a beginning again that it knew to go on.
            if machine.broken or machine.steps < steps:
                raise
            break


Explored = TypeVar("Explored", bound=Counted)


def explored(machine: type[Explored], steps: int) -> type[Explored]:
    """*machine* as a class of its own that did *steps* steps; prints what it ``reached``."""
    part = type("Part", (machine,), {"reached": Counter()})
    try:
        explore(part, steps)
    finally:
        print(f"{part.steps} steps:", dict(sorted(part.reached.items())))
    return part
