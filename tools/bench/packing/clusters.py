"""The clusters of the packing benchmark, what jobs ask for, and traces of others.

A job asks for one slot: (cores, GPUs). A mix is a list of such jobs to draw from.
"""

from __future__ import annotations

import csv
import random
from contextlib import suppress
from io import StringIO
from itertools import groupby
from math import ceil
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, TypeVar

import attrs

from treepool.cli import files
from treepool.cli.screen import Stop
from treepool.rfc import idset
from treepool.rfc.findings import shown

T = TypeVar("T")

Ask = tuple[int, int]
Mix = list[Ask]

#: Cores and GPUs, as bitmasks.
Ids = tuple[int, int]

#: A row of a table: its values by column.
Row = Mapping[str, str]

_NAMES = ("socket", "numa")


@attrs.frozen
class Kind:
    """A kind of node: its cores and GPUs, shared evenly by nested domains (2, 4: 2 of 4)."""

    cores: int
    gpus: int
    split: tuple[int, ...] = ()

    def levels(self) -> list[list[Ids]]:
        """The domains of each level, the node first."""
        found, parts = [], 1
        for by in (1, *self.split):
            parts *= by
            cores, gpus = self.cores // parts, self.gpus // parts
            found.append([
                (((1 << cores) - 1) << cores * i, ((1 << gpus) - 1) << gpus * i)
                for i in range(parts)
            ])  # fmt: skip
        return found

    def topo(self) -> dict[str, Any]:
        """The RFC 49 topo."""

        def inside(depth: int, first: int, parts: int) -> list[dict[str, Any]]:
            each, gpus = self.cores // parts, self.gpus // parts
            found = []
            for i in range(first, first + self.split[depth]):
                one: dict[str, Any] = {"cores": _ids(i * each, each)}
                if gpus:
                    one["gpus"] = _ids(i * gpus, gpus)
                if depth + 1 < len(self.split):
                    by = self.split[depth + 1]
                    one[_NAMES[depth + 1]] = inside(depth + 1, i * by, parts * by)
                found.append(one)
            return found

        return {_NAMES[0]: inside(0, 0, self.split[0])} if self.split else {}


def _ids(first: int, number: int) -> str:
    """The idset of *number* ids from *first*."""
    return idset.encode(((1 << number) - 1) << first)


def halves(cores: int, gpus: int) -> Kind:
    """A node of two sockets, of one where they would not be alike."""
    return Kind(cores, gpus, () if cores % 2 or gpus % 2 else (2,))


class Cluster(NamedTuple):
    """The nodes by rank, and the cores that belong to a GPU when jobs are made for them."""

    kinds: list[Kind]
    per_gpu: int

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(kind.gpus for kind in self.kinds)

    @property
    def cores(self) -> int:
        """All cores."""
        return sum(kind.cores for kind in self.kinds)

    def could(self, ask: Ask) -> bool:
        """Whether an idle node could serve *ask*."""
        return any(k.cores >= ask[0] and k.gpus >= ask[1] for k in set(self.kinds))

    def R(self) -> dict[str, Any]:
        """The R of the cluster."""
        entries, children = [], []
        for kind, ranks in groupby(range(len(self.kinds)), lambda rank: self.kinds[rank]):
            listed = list(ranks)
            text = _ids(listed[0], len(listed))
            has = {"core": _ids(0, kind.cores)}
            if kind.gpus:
                has["gpu"] = _ids(0, kind.gpus)
            entries.append({"rank": text, "children": has})
            flat = {"cores": has["core"], **({"gpus": has["gpu"]} if kind.gpus else {})}
            children.append({"ranks": text, "topo": kind.topo() or flat})
        return {
            "version": 1,
            "execution": {
                "R_lite": entries,
                "nodelist": [f"n[0-{len(self.kinds) - 1}]"],
                "starttime": 0.0,
                "expiration": 0.0,
            },
            "scheduling": {"writer": "TreePool", "children": children},
        }


def cluster(name: str, nodes: int) -> Cluster:
    """One of CLUSTERS: RFC 49's A and B, nodes alike, and nodes of many kinds."""
    if name == "A":
        return Cluster([Kind(120, 8, (2, 4))] * nodes, 15)
    if name == "B":
        return Cluster([Kind(96, 4, (4,))] * nodes, 24)
    if name == "alike":
        return Cluster([halves(96, 8)] * nodes, 12)
    shares = ((96, 8, 5), (128, 8, 1), (64, 4, 4), (48, 2, 4), (104, 2, 3), (64, 0, 3))
    kinds = [halves(cores, gpus) for cores, gpus, share in shares for _ in range(share)]
    return Cluster(sorted((kinds * nodes)[:nodes], key=lambda k: (k.gpus, k.cores)), 12)


CLUSTERS = ("A", "B", "alike", "mixed")

#: The share of all GPUs asked that jobs of each size ask for.
MIXES = {
    "ones": {1: 0.7, 2: 0.1, 4: 0.1, 8: 0.1},
    "even": {1: 0.25, 2: 0.25, 4: 0.25, 8: 0.25},
    "eights": {1: 0.1, 2: 0.1, 4: 0.2, 8: 0.6},
}

#: The cores of a job, relative to the fair share of its GPUs, and how often.
_CORES = ((1.0, 5), (0.8, 1), (0.7, 1), (0.5, 2), (0.33, 1), (0.25, 1), (1.3, 1))


def mix(name: str, on: Cluster, rng: random.Random) -> Mix:
    """A thousand jobs with GPUs for *on*, and every seventh one without."""
    largest = max(kind.gpus for kind in on.kinds)
    weights = {size: share / size for size, share in MIXES[name].items() if size <= largest}
    factors, often = zip(*_CORES)
    found: Mix = []
    for size, weight in weights.items():
        for _ in range(round(1000 * weight / sum(weights.values()))):
            factor = min(rng.choices(factors, often)[0], 1.0 if size == largest else 2.0)
            found.append((max(1, int(on.per_gpu * size * factor)), size))
    per_gpu = on.per_gpu
    plain = (1, 2, 4, per_gpu // 2, per_gpu, 2 * per_gpu, 32)
    found += [(rng.choice(plain), 0) for _ in range(len(found) // 6)]
    return [ask for ask in found if on.could(ask)]


#: The nodes that Philly's list has (ATC'19): how many, and with how many GPUs.
PHILLY = ((321, 2), (231, 8))

#: Cores for each GPU where a trace does not tell.
PER_GPU = 12

#: Most cores and GPUs of a node or a job of a trace, and the longest job in seconds.
MOST, LONGEST = 4096, 1e10


@attrs.frozen
class Traced:
    """A job of a trace; its ``seconds`` are 0 where the trace does not tell."""

    ask: Ask
    seconds: float


def trace(nodes: Optional[str], jobs: str) -> tuple[Cluster, list[Traced]]:
    """A cluster and its jobs from CSV files; without *nodes* those of Philly.

    Nodes have columns cpu_milli and gpu, jobs cpu_milli and num_gpu, as those that Alibaba
    published (cluster-trace-gpu-v2023), or num_gpus and duration, as those of Philly. Cores are
    rounded; a part of a GPU counts as one; jobs of Philly have PER_GPU cores for each. Raises Stop,
    which names file and line.
    """
    if nodes is None:
        kinds = [halves(PER_GPU * gpus, gpus) for number, gpus in PHILLY for _ in range(number)]
    else:
        kinds = sorted(_rows(nodes, _node), key=lambda kind: (kind.gpus, kind.cores))
    return Cluster(kinds, PER_GPU), _rows(jobs, _job)


def mixes(jobs: list[Traced]) -> Iterator[tuple[str, Mix]]:
    """The jobs as they come, and as they run: each as likely as it is long."""
    asks = [job.ask for job in jobs]
    yield "jobs", asks
    if jobs[0].seconds:
        seconds = [job.seconds for job in jobs]
        yield "hours", random.Random(0).choices(asks, seconds, k=len(asks))


def _node(row: Row) -> Kind:
    return halves(int(_number(row, "cpu_milli", 1000, 1000 * MOST)) // 1000, _gpus(row, "gpu"))


def _job(row: Row) -> Traced:
    if "num_gpus" in row:
        gpus = _gpus(row, "num_gpus")
        return Traced((max(1, PER_GPU * gpus), gpus), _number(row, "duration", 1e-3, LONGEST))
    cores = round(_number(row, "cpu_milli", 0, 1000 * MOST) / 1000)
    return Traced((max(1, cores), _gpus(row, "num_gpu")), 0.0)


def _gpus(row: Row, name: str) -> int:
    return ceil(_number(row, name, 0, MOST))


def _number(row: Row, name: str, least: float, most: float) -> float:
    text = row.get(name)
    with suppress(ValueError):
        if text is not None and least <= float(text) <= most:
            return float(text)
    found = "is missing" if text is None else f"is {shown(text)}"
    raise ValueError(f"column {name} {found}: a number from {least:g} to {most:g} is expected")


def _rows(path: str, read: Callable[[Row], T]) -> list[T]:
    """What *read* makes of the rows of a CSV file."""
    table = csv.DictReader(StringIO(files.read_text(path)))
    try:
        return [read(row) for row in table]
    except (csv.Error, ValueError) as e:
        raise Stop(f"{files.shown(path)}: line {table.reader.line_num}: {e}") from None
