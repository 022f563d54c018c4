"""What large inputs cost: ``python costs.py [TARGET...]`` prints a Markdown table.

A row for each target: how many inputs of large.py it took, the worst CPU time and memory of any,
and which input that was; targets that take little share a row. Times are of the machine it runs on,
so let it be idle.
"""

import sys
from pathlib import Path

import attrs

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from fuzz.large import LARGE, make  # noqa: E402
from fuzz.measure import cost  # noqa: E402
from fuzz.targets import TARGETS, attempt  # noqa: E402

#: What takes less than this many seconds and MiB needs no row of its own.
LITTLE_SECONDS, LITTLE_MIB = 0.3, 50


@attrs.frozen
class Row:
    """The worst of a target's ``inputs``: CPU seconds and MiB, each with the name of its input."""

    target: str
    inputs: int
    seconds: float
    slowest: str
    mib: float
    largest: str

    @classmethod
    def of(cls, target, costs):
        """The row of *target*, of which *costs* has the Cost of each input."""
        slowest = max(costs, key=lambda case: costs[case].seconds)
        largest = max(costs, key=lambda case: costs[case].mib)
        seconds, mib = costs[slowest].seconds, costs[largest].mib
        return cls(target, len(costs), seconds, slowest, mib, largest)

    @classmethod
    def of_all(cls, name, rows):
        """The worst of *rows*, called *name*."""
        slowest, largest = max(rows, key=lambda r: r.seconds), max(rows, key=lambda r: r.mib)
        worst = slowest.seconds, f"{slowest.target}: {slowest.slowest}"
        most = largest.mib, f"{largest.target}: {largest.largest}"
        return cls(name, sum(row.inputs for row in rows), *worst, *most)

    def __str__(self):
        cells = (self.target, self.inputs, f"{self.seconds:.2f}", self.slowest)
        return f"| {' | '.join(map(str, (*cells, f'{self.mib:.0f}', self.largest)))} |"


def table(rows):
    """The Markdown lines of *rows*, slowest first, and of the worst of all."""
    rows = sorted(rows, key=lambda row: -row.seconds)
    little = [r for r in rows if r.seconds < LITTLE_SECONDS and r.mib < LITTLE_MIB]
    yield "| target | inputs | s | slowest input | MiB | largest input |"
    yield "|---|--:|--:|---|--:|---|"
    yield from (str(row) for row in rows if row not in little)
    if little:
        yield str(Row.of_all(", ".join(row.target for row in little), little))
    yield str(Row.of_all("all", rows))


def main():
    names = sys.argv[1:] or list(LARGE)
    for name in TARGETS:  # what good input imports and remembers is not to be measured
        for seed in TARGETS[name].seeds:
            attempt(name, seed)
    rows = []
    for name in names:
        costs = {case: cost(name, make(name, case)) for case in LARGE[name]}
        for case, found in costs.items():
            if not found.good:
                print(f"{name}, {case}: {found}", file=sys.stderr)
        rows.append(Row.of(name, costs))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
