"""Folding: which nodes become one row with a count, and how many rows are shown at most.

Two nodes are equal if they have the same type and status and the same jobs hold the same ids on
both. If that still leaves too many rows, nodes also fold if *some* jobs hold the same ids on each.
For example, a thousand nodes that each run four one-GPU jobs of their own become one row.
"""

from __future__ import annotations

from typing import Iterable, Optional

import attrs

from treepool.rfc import hostlist
from treepool.view import palette
from treepool.view.model import Layout
from treepool.view.palette import Mark
from treepool.view.picture import Picture

#: With more rows than this, nodes fold whichever jobs they run.
MANY_ROWS = 24

#: Most nodes shown one by one.
MOST_BOXES = 1024


@attrs.frozen
class Row:
    """Nodes shown as one: their layout, their ranks (ascending), and the jobs of each holder.

    ``jobs`` has, for each holder of the layout, the jobs that it stands for on these nodes.
    """

    layout: Layout
    ranks: tuple[int, ...]
    jobs: tuple[tuple[int, ...], ...]


@attrs.frozen
class Rows:
    """The rows to show, and how many nodes have none.

    ``only`` are the ranks that the user asked for, which have a row each; None for all.
    """

    shown: tuple[Row, ...]
    nodes_left_out: int = 0
    only: Optional[tuple[int, ...]] = None


def rows(
    picture: Picture,
    only: Optional[Iterable[int]] = None,
    most: int = MANY_ROWS,
) -> Rows:
    """The nodes of *picture* as rows: all of them, or *only* some ranks, each as a row of its own.

    Rows of all are in order of their lowest rank. If there are more than *most*, they fold further;
    then only *most* rows are shown, those with the most nodes first.
    """
    if only is not None:
        wanted = tuple(picture.known(sorted(set(only))))
        one_each = [_row(picture, {picture.look_of[rank]: [rank]}) for rank in wanted[:MOST_BOXES]]
        return Rows(tuple(one_each), len(wanted) - len(one_each), wanted)
    looks = picture.by_look(picture.cluster.ranks)
    if len(looks) <= most:
        found = [_row(picture, {look: ranks}) for look, ranks in looks.items()]
    else:
        of_layout: dict[Layout, dict[int, list[int]]] = {}
        for look, ranks in looks.items():
            of_layout.setdefault(picture.looks[look].layout, {})[look] = ranks
        found = [_row(picture, members) for members in of_layout.values()]
        found.sort(key=lambda row: (-len(row.ranks), row.ranks))
    kept = found[:most]
    return Rows(tuple(kept), picture.totals.nodes - sum(len(row.ranks) for row in kept))


def marks(picture: Picture, row: Row) -> list[Mark]:
    """The marks of the holders in *row*, in order."""
    return [
        picture.marks[jobs[0]]
        if len(jobs) == 1
        else palette.several(place, row.layout.greys[place])
        for place, jobs in enumerate(row.jobs)
    ]


def jobs_of(picture: Picture, only: Optional[Iterable[int]]) -> list[int]:
    """The jobs (by number) on all nodes, or on *only* some ranks."""
    if only is None:
        return list(range(len(picture.jobs)))
    looks = {picture.look_of[rank] for rank in only}
    return sorted({job for look in looks for job in picture.looks[look].jobs})


def hosts(picture: Picture, ranks: Iterable[int]) -> str:
    """The hosts of *ranks* as a hostlist (RFC 29)."""
    return hostlist.encode([picture.cluster.hosts[rank] for rank in ranks])


def _row(picture: Picture, looks: dict[int, list[int]]) -> Row:
    """The row of nodes by their *looks*, which have one layout."""
    holders = zip(*(picture.looks[look].jobs for look in looks))
    return Row(
        picture.looks[next(iter(looks))].layout,
        tuple(sorted(rank for ranks in looks.values() for rank in ranks)),
        tuple(tuple(sorted(set(jobs))) for jobs in holders),
    )
