"""A picture: a cluster, its jobs, and its steps for a slider: how many, and which is the busiest.

A step has only the nodes that changed, so a run of a thousand jobs on 10,000 nodes takes no more
space than the jobs themselves. A view that shows a single moment uses the last step.
"""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

import attrs

from treepool.placement.pool import Pool
from treepool.view import palette
from treepool.view.board import Board, by_look, others
from treepool.view.jobs import Job
from treepool.view.model import Cluster, Layout, Look
from treepool.view.palette import Mark
from treepool.view.totals import Totals

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
