"""Windows in the plan: which jobs may use their nodes or are in the way, how to choose nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Generator, Iterable, Iterator, Sequence

import attrs

from treepool.placement.held import HELD_BACK
from treepool.placement.nodes.fabric_tree import ROOT
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.state import Held
from treepool.placement.plan.jobs import Holder, Sight
from treepool.placement.plan.profile import Meter
from treepool.placement.request.vertices import Request
from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.plan.queue import Queue

#: The user (numeric id), the Flux queues and the bank of a job: in a virtual queue, it is in the
#: parent, too.
Owner = tuple[int, tuple[str, ...], str]
#: Gives that of a job that waits or runs, by its id.
OwnerOf = Callable[[int], Owner]

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
    """The jobs (by id) that are in conflict with a window, which does not admit them.

    Those in ``reserved`` wait, and lose their reservations. Those in ``running`` may still use its
    nodes when it starts.
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
        running.update((yield from _running(queue, window, owner_of)))
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
            owner = owner_of(jobid)
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
        if made is not None and not window.admits(*owner_of(made.jobid)):
            yield made.jobid


def _running(
    queue: Queue, window: Window, owner_of: OwnerOf
) -> Generator[None, None, tuple[int, ...]]:
    """The jobs that run on nodes of *window*, may end after its start, and are not admitted."""
    pool = queue.pool
    found = []
    for count, (jobid, end) in enumerate(sorted(pool.job_end_times()), 1):
        job = pool.job(jobid) if not end or end > window.start else None
        there = job is not None and any(window.ranks & part[0] for part in job.parts)
        if there and jobid != HELD_BACK and not window.admits(*owner_of(jobid)):
            found.append(jobid)
        if count % _STRIDE == 0:
            yield
    return tuple(found)


class _Choosing:
    """Chooses nodes for *request* that nobody has then, or few jobs of *queue*, see ``look``.

    Among equal nodes, it takes those of *keep* (bitmask), on which nobody is in the way.
    """

    def __init__(self, queue: Queue, request: Request, keep: int) -> None:
        self.pool, self.request, self.keep = queue.pool, request, keep
        self.able, self.preemptible = self.pool.up, queue.profile.preemptible
        #: By job, its ranks.
        self.jobs: dict[int, int] = {}
        index = self.pool.inventory.idle_index.deferring(~keep & self.pool.ranks)
        self._situation, self._spend = self.pool.situation.on(index), Meter().spend

    def look(self, queue: Queue, span: tuple[float, float], own: str) -> Iterator[None]:
        """See who has what in the time *span*.

        Nodes that are down are not taken, nor those in windows but for the one called *own*.
        """
        for holder, holding in list(queue.profile.holdings.items()):
            if self._spend(1):
                yield
            if not holding.meets(*span, Sight()):
                continue
            if isinstance(holder, int) and holder != HELD_BACK:
                self.jobs[holder] = holding.ranks & ~self.keep
            elif str(holder).partition("@")[0] != own:
                self.able &= ~holding.ranks

    def areas(self, within: str) -> Generator[None, None, list[tuple[int, list[int]]]]:
        """The domains of *within*, or all nodes, those with the fewest jobs first: the ranks
        (bitmask) and the jobs of each."""
        fabric, areas = self.pool.inventory.fabric, list[tuple[int, list[int]]]()
        if not within or fabric is None:
            return [(self.pool.ranks, list(self.jobs))]
        homes: dict[int, int] = {}
        for domain in fabric.named_in(ROOT, within):
            ranks = list(fabric.ranks_in(domain))
            homes.update(dict.fromkeys(ranks, len(areas)))
            areas.append((idset.from_ids(ranks), []))
            if self._spend(1 + len(ranks) // 16):
                yield
        for job, those in self.jobs.items():
            for number in {homes[rank] for rank in idset.iterate(those) if rank in homes}:
                areas[number][1].append(job)
            if self._spend(1 + idset.size(those) // 16):
                yield
        areas.sort(key=lambda area: (idset.size(self.keep & ~area[0]), len(area[1])))
        return areas[:_MOST_DOMAINS]

    def of(self, area: int, jobs: list[int]) -> Generator[None, None, int]:
        """The nodes of *area* (bitmask) with the fewest *jobs*, preemptible ones before others.

        The smallest jobs stay, as many as can. Of the others, each stays that can besides.
        """
        alike: dict[tuple[bool, int], list[int]] = {}
        for job in jobs:
            size = idset.size(self.jobs[job] & area)
            if size:
                alike.setdefault((job in self.preemptible, size), []).append(job)
            if self._spend(1):
                yield
        order = [job for key in sorted(alike) for job in alike[key]]
        best, few, many = (yield from self._found(area)), 0, len(order)
        while best and few < many:
            number = (few + many + 1) // 2
            found = yield from self._found(area & ~(yield from self._ranks(order[:number])))
            few, many, best = (number, many, found) if found else (few, number - 1, best)
        staying = yield from self._ranks(order[:few])
        for job in order[few + 1 : few + 1 + _MOST_JOBS] if best else ():
            found = yield from self._found(area & ~(staying | self.jobs[job]))
            if found:
                best, staying = found, staying | self.jobs[job]
        return best

    def cost(self, ranks: int, jobs: list[int]) -> Generator[None, None, tuple[int, int, int]]:
        """Of *ranks* (bitmask): how many nodes are given up, and how many of *jobs* are in the
        way, without the preemptible ones and with them."""
        firm = every = 0
        for job in jobs:
            if self.jobs[job] & ranks:
                firm, every = firm + (job not in self.preemptible), every + 1
            if self._spend(1):
                yield
        return idset.size(self.keep & ~ranks), firm, every

    def _ranks(self, jobs: list[int]) -> Generator[None, None, int]:
        """The ranks (bitmask) of *jobs*."""
        ranks = 0
        for job in jobs:
            ranks |= self.jobs[job]
            if self._spend(1):
                yield
        return ranks

    def _found(self, allowed: int) -> Generator[None, None, int]:
        """The nodes (bitmask) that the request gets of those *allowed*, 0 if they do not do."""
        self._situation.index.set_up(allowed & self.able)
        yield
        for work in self._situation.prepare(self.request):
            if self._spend(work):
                yield
        selection = self._situation.choice(self.request).selection
        yield
        return 0 if selection is None else selection.ranks


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
    work, best, least = _Choosing(queue, request, keep), 0, (0, 0, 0)
    yield from work.look(queue, span, own)
    for area, jobs in (yield from work.areas(within)):
        found = yield from work.of(area, jobs)
        cost = (yield from work.cost(found, jobs)) if found else least
        if found and (not best or cost < least):
            best, least = found, cost
        if best and not any(least):
            break
    return best
