"""The budgets of doc/design.md, and whether a run of the benchmark kept them.

They are for a machine with two cores. A run that did not measure a size says nothing about it.
"""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

import attrs

from bench.results import SizeResult

_Sizes = Mapping[int, SizeResult]


@attrs.frozen
class Target:
    """A promise: the number that ``value`` finds, in ``unit``, is at most ``limit``.

    ``sizes`` are the numbers of nodes that must have been measured.
    """

    what: str
    sizes: tuple[int, ...]
    value: Callable[[_Sizes], float]
    limit: float
    unit: str


@attrs.frozen
class Verdict:
    """What came of a target."""

    target: Target
    value: float

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.value <= self.target.limit


def _slot(sizes: _Sizes, nodes: int) -> float:
    return sizes[nodes].form("gpu-slot").job


TARGETS = (
    Target(
        "one GPU slot, alloc + to_dict + free, median",
        (11_136,),
        lambda sizes: _slot(sizes, 11_136),
        150,
        "µs",
    ),
    Target(
        "one GPU slot, median, against that on 1,152 nodes",
        (100_000, 1_152),
        lambda sizes: _slot(sizes, 100_000) / _slot(sizes, 1_152),
        3,
        "times",
    ),
)


def verdicts(results: Sequence[SizeResult]) -> list[Verdict]:
    """What came of every target whose sizes are among *results*."""
    sizes = {result.nodes: result for result in results}
    return [
        Verdict(target, target.value(sizes))
        for target in TARGETS
        if all(nodes in sizes for nodes in target.sizes)
    ]
