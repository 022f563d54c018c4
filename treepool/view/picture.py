"""A picture: a cluster, its jobs, and its steps for a slider; the board where jobs start and end.

A step has only the nodes that changed, so a run of a thousand jobs on 10,000 nodes takes no more
space than the jobs themselves. A view that shows a single moment uses the last step.

On the board a look or layout is created once, the first time a node has it, and its numbers are
counted then. Moving a thousand nodes from one look to another is therefore one addition.
"""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

import attrs

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
from treepool.view.palette import Mark
from treepool.view.totals import DOWN, DRAINED, NOTHING, UP, Totals

#: Most steps kept. In a longer run a step has several changes, which a slider could not separate.
MAX_STEPS = 400


@attrs.frozen
class Change:
    """What happens at one time: the jobs (by place in the list of all jobs) that end and start."""

    label: str
    started: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()


@attrs.frozen
class Step:
    """The cluster after one or more changes: totals, and (look, ranks) of nodes that changed."""

    label: str
    totals: Totals
    moves: tuple[tuple[int, tuple[int, ...]], ...]


@attrs.frozen(eq=False)
class Picture:
    """All that a view needs. The first step has every node, later steps the nodes that changed.

    ``marks`` are the jobs' marks. ``look_of`` has the number of each rank's look at the end, -1
    where there is no such rank.
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    marks: tuple[Mark, ...]
    looks: tuple[Look, ...]
    layouts: tuple[Layout, ...]
    steps: tuple[Step, ...]
    look_of: tuple[int, ...]

    @property
    def totals(self) -> Totals:
        """The totals at the end."""
        return self.steps[-1].totals

    def known(self, ranks: Iterable[int]) -> list[int]:
        """Those of *ranks* that the cluster has."""
        look_of = self.look_of
        return [rank for rank in ranks if rank < len(look_of) and look_of[rank] >= 0]

    def by_look(self, ranks: Iterable[int]) -> dict[int, list[int]]:
        """Those of *ranks* that the cluster has, by the number of their look."""
        return by_look(ranks, self.look_of)

    @property
    def busiest(self) -> int:
        """The first of the steps at which the largest share of GPUs and cores is in use."""

        def use(step: Step) -> float:
            return sum(amount.used / max(amount.total, 1) for amount in step.totals.amounts)

        return max(range(len(self.steps)), key=lambda number: use(self.steps[number]))

    @classmethod
    def of(
        cls,
        pool: Pool,
        jobs: Iterable[Job],
        changes: Optional[Sequence[Change]] = None,
        drained: int = 0,
    ) -> Picture:
        """The picture of *pool*, on which *jobs* started one after another and still run.

        For another history pass its *changes*; the last one must leave the pool as it is.
        Allocated resources that none of these jobs holds are present from the first step on.
        """
        known = tuple(jobs)
        if changes is None:
            changes = [Change(f"job {job.name}: {job.asked}", (i,)) for i, job in enumerate(known)]
        other = others(pool, known)
        everyone = (*known, other) if other else known
        board = Board(Cluster.of(pool, drained), everyone, pool.situation.policy.mix)
        if other:
            board.start(len(known))
        steps = [Step("before the first job", board.totals, _moves(board, board.cluster.ranks))]
        size = max(1, -(-len(changes) // MAX_STEPS))
        steps += [_step(board, changes[i : i + size]) for i in range(0, len(changes), size)]
        looks = [(look.jobs, look.layout.touching) for look in board.looks]
        marks = palette.marks(len(everyone), looks)
        if other:
            marks[-1] = Mark(palette.UNKNOWN, len(palette.COLOURS))
        return cls(
            board.cluster,
            everyone,
            tuple(marks),
            tuple(board.looks),
            tuple(board.layouts),
            tuple(steps),
            tuple(board.look_of),
        )


def _step(board: Board, changes: Sequence[Change]) -> Step:
    before: dict[int, int] = {}
    for change in changes:
        for job in (*change.ended, *change.started):
            for rank in board.jobs[job].ranks:
                if rank < len(board.look_of):
                    before.setdefault(rank, board.look_of[rank])
        for job in change.ended:
            board.end(job)
        for job in change.started:
            board.start(job)
    moved = [rank for rank in sorted(before) if board.look_of[rank] != before[rank]]
    label = changes[-1].label
    if len(changes) > 1:
        label += f", and {len(changes) - 1:,} before it"
    return Step(label, board.totals, _moves(board, moved))


def _moves(board: Board, ranks: Iterable[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The *ranks* by the look that they have now."""
    return tuple((look, tuple(there)) for look, there in by_look(ranks, board.look_of).items())


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
