"""Windows in the plan: which jobs may use their nodes, and which jobs are in conflict with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Generator, Iterable, Iterator, Sequence

import attrs

from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import Holder, Sight, Waiting

if TYPE_CHECKING:
    from treepool.placement.plan.queue import Queue

#: The user (numeric id) and the Flux queues of a job: in a virtual queue, it is in the parent, too.
Owner = tuple[int, tuple[str, ...]]
OwnerOf = Callable[[Waiting], Owner]

#: Jobs between two yields.
_STRIDE = 64


@attrs.frozen
class Window:
    """Nodes that only some jobs may use from ``start`` up to ``end``, in seconds since the epoch.

    ``ranks`` is a bitmask. Jobs of ``users`` (numeric user ids) and of ``queues`` may use them. If
    both are empty, no job may, as for maintenance. All other jobs must end before ``start``.
    """

    name: str
    ranks: int
    start: float
    end: float
    users: frozenset[int] = frozenset()
    queues: frozenset[str] = frozenset()

    def admits(self, user: int, queues: tuple[str, ...]) -> bool:
        """Whether a job of *user* in *queues* may use the nodes."""
        return user in self.users or not self.queues.isdisjoint(queues)

    def parts(self, inventory: Inventory) -> tuple[Held, ...]:
        """All cores and GPUs of the nodes."""
        return tuple(
            (ranks & self.ranks, node_type.root.cores, node_type.root.gpus)
            for node_type, ranks in inventory.node_types.items()
            if ranks & self.ranks
        )


@attrs.frozen
class Conflicts:
    """The jobs (by id) that are in conflict with a window.

    Those in ``reserved`` wait, and lose their reservations. Those in ``running`` may still use its
    nodes when it starts, even if the window would admit them.
    """

    reserved: tuple[int, ...] = ()
    running: tuple[int, ...] = ()


def admitting(windows: Iterable[Window], user: int, queues: tuple[str, ...]) -> frozenset[Holder]:
    """The names of those *windows* whose nodes a job of *user* in *queues* may use."""
    return frozenset(window.name for window in windows if window.admits(user, queues))


def change_windows(
    queue: Queue, windows: Sequence[Window], owner_of: OwnerOf, name: str = ""
) -> Generator[None, None, Conflicts]:
    """Replace all windows of *queue* by *windows*; returns the conflicts with the one named *name*.

    Old windows go first. Then the waiting jobs are told which of *windows* admit them. New windows
    come last, so that no job is admitted because an old window of the same name was. Jobs that are
    added between two steps must be admitted as *windows* say.
    """
    old = queue.windows
    queue.set_windows([window for window in windows if old.get(window.name) == window])
    yield from _admit(queue, windows, owner_of)
    conflicts = Conflicts()
    for window in windows:
        if window.name == name:
            running = yield from _running(queue, window)
            conflicts = Conflicts(_reserved(queue, window), running)
    queue.set_windows(windows)
    return conflicts


def _admit(queue: Queue, windows: Sequence[Window], owner_of: OwnerOf) -> Iterator[None]:
    """Tell each waiting job which of *windows* admit it.

    A window that is over still admits it: that has no effect, and the job stays in its
    class.
    """
    names = frozenset(window.name for window in windows)
    known: dict[Owner, frozenset[Holder]] = {}
    for count, jobid in enumerate(list(queue.jobs), 1):
        job = queue.jobs.get(jobid)
        if job is not None:
            owner = owner_of(job)
            admitted = known.get(owner)
            if admitted is None:
                admitted = known[owner] = admitting(windows, *owner)
            if admitted != job.job_class.admitted & names:
                its = job.job_class
                own = queue.classes.of(job.request, admitted, its.relaxed, its.terms)
                queue.replace(attrs.evolve(job, job_class=own))
        if count % _STRIDE == 0:
            yield


def _reserved(queue: Queue, window: Window) -> tuple[int, ...]:
    """The jobs whose reservations need nodes of *window*, and that it does not admit."""
    parts = window.parts(queue.pool.inventory)
    holders = queue.profile.in_the_way(window.start, window.end, parts, Sight())
    made = (queue.reservations[h] for h in holders if isinstance(h, int))
    return tuple(sorted(r.job.jobid for r in made if window.name not in r.job.job_class.admitted))


def _running(queue: Queue, window: Window) -> Generator[None, None, tuple[int, ...]]:
    """The jobs that run on nodes of *window* and may end after its start."""
    pool = queue.pool
    found = []
    for count, (jobid, end) in enumerate(sorted(pool.job_end_times()), 1):
        job = pool.job(jobid) if not end or end > window.start else None
        if job is not None and any(window.ranks & part[0] for part in job.parts):
            found.append(jobid)
        if count % _STRIDE == 0:
            yield
    return tuple(found)
