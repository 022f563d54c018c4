"""The times and the memory that treepool promises, and whether a run of the benchmark kept them.

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


def _job(sizes: _Sizes, nodes: int, form: str) -> float:
    return sizes[nodes].form(form).job


def _quarter(sizes: _Sizes) -> float:
    timings = sizes[11_136].form("quarter").timings
    return (timings["alloc"].median + timings["to_dict"].median) / 1e3


TARGETS = (
    Target(
        "one GPU slot, alloc + to_dict + free, median",
        (11_136,),
        lambda sizes: _job(sizes, 11_136, "gpu-slot"),
        60,
        "µs",
    ),
    Target(
        "one GPU slot, alloc + to_dict + free, p99",
        (11_136,),
        lambda sizes: sizes[11_136].form("gpu-slot").timings["job"].p99,
        250,
        "µs",
    ),
    Target(
        "one GPU slot, median, against that on 1,152 nodes",
        (1_000_000, 1_152),
        lambda sizes: _job(sizes, 1_000_000, "gpu-slot") / _job(sizes, 1_152, "gpu-slot"),
        3,
        "times",
    ),
    Target(
        "no socket free: no, against a yes where one is, medians",
        (11_136,),
        lambda sizes: _job(sizes, 11_136, "no-socket-free") / _job(sizes, 11_136, "socket"),
        1,
        "times",
    ),
    Target("a quarter of the nodes, alloc + to_dict, medians", (11_136,), _quarter, 15, "ms"),
    Target(
        "copy, median", (11_136,), lambda sizes: sizes[11_136].pool["copy"].median / 1e3, 2, "ms"
    ),
    Target(
        "pool from R, median",
        (11_136,),
        lambda sizes: sizes[11_136].pool["construct"].median / 1e6,
        0.5,
        "s",
    ),
    Target(
        "pool from R, median",
        (1_000_000,),
        lambda sizes: sizes[1_000_000].pool["construct"].median / 1e6,
        20,
        "s",
    ),
    Target(
        "peak memory", (1_000_000,), lambda sizes: sizes[1_000_000].peak_memory / 2**20, 1024, "MiB"
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
