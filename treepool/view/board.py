"""The board: which job holds what on each node, and when a node is idle, partial or full.

A look or layout is created once, the first time a node has it, and its numbers are counted then.
Moving a thousand nodes from one look to another is therefore one addition.
"""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

from treepool.placement.choose.mix import Mix
from treepool.placement.held import alike
from treepool.placement.nodes.tree import NodeType
from treepool.placement.nodes.usable import PER_GPU
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.idset import union
from treepool.view import palette
from treepool.view.jobs import Job
from treepool.view.model import OTHER, Cluster, Holding, Layout, Look
from treepool.view.totals import DOWN, DRAINED, NOTHING, UP, Totals


class Board:
    """Which job holds what now, and the resulting numbers; jobs start and end on it.

    ``looks`` and ``layouts`` are all that have occurred so far, by number. ``look_of`` has the
    number of the look of each rank, -1 where there is no such rank. *mix* says which GPUs are
    stranded.
    """

    def __init__(self, cluster: Cluster, jobs: tuple[Job, ...], mix: Mix) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.mix = mix
        self.looks: list[Look] = []
        self.layouts: list[Layout] = []
        self.totals = NOTHING
        self._looks: dict[tuple[int, tuple[int, ...]], Look] = {}
        self._layouts: dict[tuple[int, str, tuple[tuple[int, int], ...]], Layout] = {}
        self.look_of = [-1] * len(cluster.type_of)
        groups: dict[tuple[int, str], list[int]] = {}
        for rank in cluster.ranks:
            kind = cluster.type_of[rank], cluster.status[rank]
            groups.setdefault(kind, []).append(rank)
        for (node_type, status), ranks in groups.items():
            look = self._look(node_type, status, ())
            self.totals = self.totals.plus(look.layout.totals, len(ranks))
            for rank in ranks:
                self.look_of[rank] = look.number

    def start(self, job: int) -> None:
        """Let job number *job* hold its resources, except those that other jobs hold already."""
        for ranks, cores, gpus in self.jobs[job].parts:
            for number, here in by_look(idset.iterate(ranks), self.look_of).items():
                look = self.looks[number]
                root = self.cluster.types[look.layout.type].root
                taken_cores, taken_gpus = _taken(look.layout.held)
                mine = job, cores & root.cores & ~taken_cores, gpus & root.gpus & ~taken_gpus
                if any(mine[1:]):
                    self._change(here, look, [*_holdings(look), mine])

    def end(self, job: int) -> None:
        """Let job number *job* give back all that it holds."""
        for ranks, _, _ in self.jobs[job].parts:
            for number, here in by_look(idset.iterate(ranks), self.look_of).items():
                look = self.looks[number]
                if job in look.jobs:
                    self._change(here, look, [h for h in _holdings(look) if h[0] != job])

    def _change(self, ranks: list[int], old: Look, holdings: list[Holding]) -> None:
        # By lowest id: nodes divided in the same way share a layout, whichever job came first.
        holdings.sort(key=lambda h: (idset.lowest(h[1]) if h[1] else 1 << 30, h[2] & -h[2], h[0]))
        new = self._look(old.layout.type, old.layout.status, tuple(holdings))
        for rank in ranks:
            self.look_of[rank] = new.number
        self.totals = self.totals.plus(new.layout.totals, len(ranks))
        self.totals = self.totals.plus(old.layout.totals, -len(ranks))

    def _look(self, node_type: int, status: str, holdings: tuple[Holding, ...]) -> Look:
        held = tuple((cores, gpus) for _, cores, gpus in holdings)
        layout = self._layouts.get((node_type, status, held))
        if layout is None:
            layout = _layout(
                len(self.layouts), node_type, self.cluster.types[node_type], status, held, self.mix
            )
            self._layouts[node_type, status, held] = layout
            self.layouts.append(layout)
        jobs = tuple(job for job, _, _ in holdings)
        look = self._looks.get((layout.number, jobs))
        if look is None:
            look = self._looks[layout.number, jobs] = Look(len(self.looks), layout, jobs)
            self.looks.append(look)
        return look


def by_look(ranks: Iterable[int], look_of: Sequence[int]) -> dict[int, list[int]]:
    """Those of *ranks* that exist, by the number of their look; *look_of* has it of each rank."""
    groups: dict[int, list[int]] = {}
    for rank in ranks:
        if rank < len(look_of) and look_of[rank] >= 0:
            groups.setdefault(look_of[rank], []).append(rank)
    return groups


def others(pool: Pool, jobs: Iterable[Job]) -> Optional[Job]:
    """A job that stands for what is allocated in *pool* but held by none of *jobs*, or None."""
    left = {
        rank: (entry.cores, entry.gpus)
        for entry in pool.copy_allocated().entries
        for rank in idset.iterate(entry.ranks)
    }
    for job in jobs:
        for ranks, cores, gpus in job.parts:
            for rank in idset.iterate(ranks):
                if rank in left:
                    had = left[rank]
                    left[rank] = had[0] & ~cores, had[1] & ~gpus
    parts = alike({rank: ids for rank, ids in left.items() if any(ids)})
    return Job(OTHER, "held by no job shown here", tuple(parts)) if parts else None


def _holdings(look: Look) -> list[Holding]:
    return [(job, *held) for job, held in zip(look.jobs, look.layout.held)]


def _taken(held: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The cores and GPUs that some job holds."""
    return union(cores for cores, _ in held), union(gpus for _, gpus in held)


def _layout(
    number: int,
    kind: int,
    node_type: NodeType,
    status: str,
    held: tuple[tuple[int, int], ...],
    mix: Mix,
) -> Layout:
    """The layout of one node, with its numbers."""
    root = node_type.root
    used_cores, used_gpus = _taken(held)
    up = status == UP
    cores, gpus = (root.cores & ~used_cores, root.gpus & ~used_gpus) if up else (0, 0)
    totals = Totals(
        nodes=1,
        idle=int(up and not held),
        partly=int(up and bool(held) and bool(cores)),
        full=int(up and bool(held) and not cores),
        down=int(status == DOWN),
        drained=int(status == DRAINED),
        cores=root.ncores,
        cores_free=idset.size(cores),
        cores_used=idset.size(used_cores),
        gpus=idset.size(root.gpus),
        gpus_free=idset.size(gpus),
        gpus_used=idset.size(used_gpus),
        gpus_stranded=mix.stranded(node_type, cores, gpus) / PER_GPU,
    )
    touching = palette.touching(held)
    return Layout(number, kind, status, held, totals, touching, palette.greys(touching))
