"""Windows in the plan: which jobs may use their nodes or are in the way, how to choose nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Generator, Iterable, Iterator, Sequence

import attrs

from treepool.placement.held import HELD_BACK
from treepool.placement.nodes.fabric_tree import ROOT
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import Holder, Sight, Waiting
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.plan.queue import Queue

#: The user (numeric id), the Flux queues and the bank of a job: in a virtual queue, it is in the
#: parent, too.
Owner = tuple[int, tuple[str, ...], str]
OwnerOf = Callable[[Waiting], Owner]

#: Jobs between two yields.
_STRIDE = 64

#: Domains that are compared, those with the fewest jobs first; and jobs that are looked at one by
#: one, whether nodes without them would do.
_MOST_DOMAINS, _MOST_JOBS = 64, 64


@attrs.frozen
class Window:
    """Nodes that only some jobs may use from ``start`` up to ``end``, in seconds since the epoch.

    ``ranks`` is a bitmask. Jobs of ``users`` (numeric user ids), of ``queues`` and of ``banks`` may
    use them. If all are empty, no job may, as for maintenance. All other jobs must end before
    ``start``. One that comes again is a window for each time, and its name ends in ``@`` and that.
    """

    name: str
    ranks: int
    start: float
    end: float
    users: frozenset[int] = frozenset()
    queues: frozenset[str] = frozenset()
    banks: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """Its name without the time."""
        return self.name.partition("@")[0]

    def admits(self, user: int, queues: tuple[str, ...], bank: str = "") -> bool:
        """Whether a job of *user* in *queues* and of *bank* may use the nodes."""
        return user in self.users or bank in self.banks or not self.queues.isdisjoint(queues)

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


def admitting(
    windows: Iterable[Window], user: int, queues: tuple[str, ...], bank: str = ""
) -> frozenset[Holder]:
    """The names of those *windows* whose nodes a job of *user* in *queues*, of *bank*, may use."""
    return frozenset(window.name for window in windows if window.admits(user, queues, bank))


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
    told = yield from conflicts(queue, [w for w in windows if w.title == name], owner_of)
    queue.set_windows(windows)
    return told


def conflicts(
    queue: Queue, windows: Sequence[Window], owner_of: OwnerOf
) -> Generator[None, None, Conflicts]:
    """The jobs that are in conflict with *windows*, which may be new."""
    running: set[int] = set()
    reserved: set[int] = set()
    for window in windows:
        reserved.update(_reserved(queue, window, owner_of))
        running.update((yield from _running(queue, window)))
    return Conflicts(tuple(sorted(reserved)), tuple(sorted(running)))


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


def _reserved(queue: Queue, window: Window, owner_of: OwnerOf) -> Iterator[int]:
    """The jobs whose reservations need nodes of *window*, and that it does not admit."""
    parts = window.parts(queue.pool.inventory)
    for holder in queue.profile.in_the_way(window.start, window.end, parts, Sight()):
        made = queue.reservations[holder].job if isinstance(holder, int) else None
        if made is not None and not window.admits(*owner_of(made)):
            yield made.jobid


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


class _Choosing:
    """Chooses nodes of *queue* for *request* that nobody has from one time to another, or few.

    Nodes that are down are not taken, nor those in windows but for the one called *own*, and among
    equal nodes those of *keep* (bitmask), on which nobody is in the way.
    """

    def __init__(
        self, queue: Queue, request: Request, span: tuple[float, float], own: str, keep: int
    ) -> None:
        self.pool, self.request, self.keep = queue.pool, request, keep
        start, end = span
        self.able, self.preemptible = self.pool.up, queue.profile.preemptible
        #: By job, its ranks.
        self.jobs: dict[int, int] = {}
        for holder, holding in queue.profile.holdings.items():
            if not holding.meets(start, end, Sight()):
                continue
            if isinstance(holder, int) and holder != HELD_BACK:
                self.jobs[holder] = holding.ranks & ~keep
            elif str(holder).partition("@")[0] != own:
                self.able &= ~holding.ranks

    def found(self, allowed: int) -> Generator[None, None, int]:
        """The nodes (bitmask) that the request gets of those *allowed*, 0 if they do not do."""
        index = self.pool.inventory.idle_index.deferring(~self.keep & self.pool.ranks)
        index.set_up(allowed & self.able)
        yield
        situation = self.pool.situation.on(index)
        for _ in situation.prepare(self.request):
            yield
        selection = situation.choice(self.request).selection
        yield
        return 0 if selection is None else selection.ranks

    def of(self, area: int) -> Generator[None, None, int]:
        """The nodes of *area* (bitmask) with the fewest jobs, preemptible ones rather than others.

        The smallest jobs stay, as many as can. Of the others, each stays that can besides.
        """
        there = {job: ranks & area for job, ranks in self.jobs.items() if ranks & area}
        order = sorted(there, key=lambda j: (j in self.preemptible, idset.size(there[j]), j))
        best, few, many = (yield from self.found(area)), 0, len(order)
        while best and few < many:
            number = (few + many + 1) // 2
            staying = idset.union(there[job] for job in order[:number])
            found = yield from self.found(area & ~staying)
            few, many, best = (number, many, found) if found else (few, number - 1, best)
        staying = idset.union(there[job] for job in order[:few])
        for job in order[few + 1 : few + 1 + _MOST_JOBS] if best else ():
            found = yield from self.found(area & ~(staying | there[job]))
            if found:
                best, staying = found, staying | there[job]
        return best

    def cost(self, ranks: int) -> tuple[int, int, int]:
        """Of *ranks* (bitmask): how many nodes are given up, and how many jobs are in the way,
        without the preemptible ones and with them."""
        there = [job for job, those in self.jobs.items() if those & ranks]
        firm = sum(1 for job in there if job not in self.preemptible)
        return idset.size(self.keep & ~ranks), firm, len(there)

    def areas(self, within: str) -> Generator[None, None, list[int]]:
        """The domains of *within* (bitmasks), or all nodes, those with the fewest jobs first."""
        fabric = self.pool.inventory.fabric
        if not within or fabric is None:
            return [self.pool.ranks]
        areas = [idset.from_ids(fabric.ranks_in(d)) for d in fabric.named_in(ROOT, within)]
        homes = {rank: i for i, area in enumerate(areas) for rank in idset.iterate(area)}
        jobs = [0] * len(areas)
        for count, ranks in enumerate(self.jobs.values(), 1):
            for i in {homes[rank] for rank in idset.iterate(ranks) if rank in homes}:
                jobs[i] += 1
            if count % _STRIDE == 0:
                yield
        order = sorted(
            range(len(areas)), key=lambda i: (idset.size(self.keep & ~areas[i]), jobs[i])
        )
        return [areas[i] for i in order[:_MOST_DOMAINS]]


def choose(
    queue: Queue,
    request: Request,
    within: str,
    span: tuple[float, float],
    own: str = "",
    keep: int = 0,
) -> Generator[None, None, int]:
    """The nodes (bitmask) for a window in the time *span*; 0 if there are none.

    They are those that an idle pool would give *request*, all in one domain of *within* if that is
    not "", with the fewest jobs in the way. See _Choosing for *own* and *keep*.
    """
    work, best = _Choosing(queue, request, span, own, keep), 0
    for area in (yield from work.areas(within)):
        found = yield from work.of(area)
        if found and (not best or work.cost(found) < work.cost(best)):
            best = found
        if best and not any(work.cost(best)):
            break
    return best
