"""Changes of the windows of a queue, in small steps, and the jobs that a new window affects."""

from __future__ import annotations

from typing import Callable, Generator, Iterator, Sequence

import attrs

from treepool.placement.plan.future import Holder
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.window import Window, admitting
from treepool.rfc import idset

#: Returns the user (numeric id) and the Flux queue of a waiting job.
OwnerOf = Callable[[Waiting], tuple[int, str]]

#: Jobs between two yields.
_STRIDE = 64


@attrs.frozen
class Conflicts:
    """The jobs (by id) that are in conflict with a window.

    Those in ``reserved`` wait, and lose their reservations. Those in ``running`` may still use its
    nodes when it starts, even if the window would admit them.
    """

    reserved: tuple[int, ...] = ()
    running: tuple[int, ...] = ()


def change_windows(
    queue: Queue, windows: Sequence[Window], owner_of: OwnerOf, name: str = ""
) -> Generator[None, None, Conflicts]:
    """Replace all windows of *queue* by *windows*; returns the conflicts with the one named *name*.

    Old windows go first. Then waiting jobs get the leave that *windows* give them. New windows come
    last, so that no job uses the leave that it had for an old window of the same name. Jobs that
    are added between two steps must have the leave that *windows* give.
    """
    old = queue.plan.windows
    queue.set_windows([window for window in windows if old.get(window.name) == window])
    yield from _admit(queue, windows, owner_of)
    conflicts = Conflicts()
    for window in windows:
        if window.name == name:
            running = yield from _running(queue, window)
            queue.follow()
            conflicts = Conflicts(_reserved(queue, window), running)
    queue.set_windows(windows)
    return conflicts


def _admit(queue: Queue, windows: Sequence[Window], owner_of: OwnerOf) -> Iterator[None]:
    """Give each waiting job the leave of those of *windows* that it may use.

    A job keeps the leave of a window that is over: it has no effect, and the job stays of its kind.
    """
    names = frozenset(window.name for window in windows)
    leaves: dict[tuple[int, str], frozenset[Holder]] = {}
    for count, jobid in enumerate(list(queue.jobs), 1):
        job = queue.jobs.get(jobid)
        if job is not None:
            owner = owner_of(job)
            leave = leaves.get(owner)
            if leave is None:
                leave = leaves[owner] = admitting(windows, *owner)
            if leave != job.kind.leave & names:
                kind = queue.plan.kinds.of(job.request, leave, job.kind.relaxed)
                queue.replace(attrs.evolve(job, kind=kind))
        if count % _STRIDE == 0:
            yield


def _reserved(queue: Queue, window: Window) -> tuple[int, ...]:
    """The jobs whose reservations need nodes of *window*, and that it does not admit."""
    plan = queue.plan
    parts = window.parts(plan.pool.inventory)
    holders = plan.timeline.overlapping(window.start, window.end, parts)
    jobs = (h for h in holders if isinstance(h, int))
    reserved = (plan.reservations[job] for job in jobs if job in plan.reservations)
    return tuple(sorted(r.job.jobid for r in reserved if window.name not in r.job.kind.leave))


def _running(queue: Queue, window: Window) -> Generator[None, None, tuple[int, ...]]:
    """The jobs that run on nodes of *window* and may end after its start."""
    pool = queue.plan.pool
    found = []
    ranks = set(idset.iterate(window.ranks))
    for count, (jobid, end) in enumerate(sorted(pool.job_end_times()), 1):
        job = pool.job(jobid) if (end or NEVER) > window.start else None
        if job is not None and any(not ranks.isdisjoint(part[0]) for part in job.parts):
            found.append(jobid)
        if count % _STRIDE == 0:
            yield
    return tuple(found)
