"""Bugs in the plan: none since it was written anew; t/placement/promises.py judges it."""

from planted.mutant import Mutant

PLAN: list[Mutant] = []
