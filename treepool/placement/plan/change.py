"""Changes of the windows of a queue, in steps, and what stands against a new window."""

from __future__ import annotations

from typing import Callable, Generator, Iterator, Sequence

import attrs

from treepool.placement.plan.future import Holder
from treepool.placement.plan.jobs import Waiting
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.timeline import NEVER
from treepool.placement.plan.window import Window, admitting
from treepool.rfc import idset

#: Gives the user (numeric id) and the Flux queue of a waiting job.
OwnerOf = Callable[[Waiting], tuple[int, str]]

#: Jobs that are looked at between two yields.
_STRIDE = 64


@attrs.frozen
class Conflicts:
    """Job ids that stand against a window.

    ``reserved`` jobs wait, and lose their reservation to it. ``running`` ones may use its nodes
    when it starts; this does not ask whether the window would admit them.
    """

    reserved: tuple[int, ...] = ()
    running: tuple[int, ...] = ()


def change_windows(
    queue: Queue, windows: Sequence[Window], owner_of: OwnerOf, name: str = ""
) -> Generator[None, None, Conflicts]:
    """Let *windows* be all windows of *queue*; returns what stands against the one called *name*.

    New windows come last. At that time each waiting job has the leave that it should have: one
    that was admitted to an old window of the same name, too. Jobs that are added between two steps
    must have the leave that *windows* give.
    """
    now = queue.plan.windows
    queue.set_windows([window for window in windows if now.get(window.name) == window])
    yield from _admit(queue, windows, owner_of)
    against = Conflicts()
    for window in windows:
        if window.name == name:
            running = yield from _running(queue, window)
            queue.follow()
            against = Conflicts(_reserved(queue, window), running)
    queue.set_windows(windows)
    return against


def _admit(queue: Queue, windows: Sequence[Window], owner_of: OwnerOf) -> Iterator[None]:
    """Compute anew which of *windows* each waiting job may use.

    Leave of a window that is over may stay: it is of no use, and the job keeps what is known of it.
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
    plan = queue.plan
    parts = window.parts(plan.pool.inventory)
    holders = plan.timeline.overlapping(window.start, window.end, parts)
    jobs = (h for h in holders if isinstance(h, int))
    reserved = (plan.reservations[job] for job in jobs if job in plan.reservations)
    return tuple(sorted(r.job.jobid for r in reserved if window.name not in r.job.kind.leave))


def _running(queue: Queue, window: Window) -> Generator[None, None, tuple[int, ...]]:
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
