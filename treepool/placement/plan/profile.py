"""The profile: who holds what on which sets of ranks, and when; how much work a step may do.

Running jobs hold until their limits, windows and reservations from their start to their end. A job
that is over its limit still runs: it counts for what is free at PRESENT, and is expected to end at
any moment. The profile is changed by one holding at a time and is true after each change.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from contextlib import suppress
from itertools import chain, count
from typing import Generator, Iterable, Iterator, NamedTuple, Optional

import attrs

from treepool.errors import PoolConflict
from treepool.placement.held import ByRank, Journal, add_held, alike, held_without, of_rank
from treepool.placement.nodes.parts import ranks_in, size
from treepool.placement.nodes.state import Held, NodeState
from treepool.placement.plan.jobs import CENTURY, FAR, NO_TERMS, Holder, Sight, Terms
from treepool.placement.plan.supply import Supply
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import by_resources

#: The start of a job that would begin at once: before the end of every job that runs, late or not.
PRESENT = -1e15

#: Seconds by which an end may differ from the planned one without a change of plan.
LATE = 1.0

#: The unit of work in seconds, about; and the work between two yields.
WORK, SLICE = 1e-5, 512

#: So many holdings are looked at in a unit of work.
_AT_ONCE = 32

#: Parts on at most so many ranks are found by rank; others by *block*, of so many ranks.
_FEW, _BLOCK = 8, 64

#: For how many sets of ranks the supply is kept: more than a site has queues with nodes of their
#: own that are busy at a time.
_MAX_SUPPLIES = 16


@attrs.frozen(eq=False)
class Holding:
    """What a holder has from ``start`` up to ``end``, on all its ``ranks`` (bitmask).

    ``planned`` are reservations and windows, not running jobs. For jobs that preempt it holds only
    until ``yields``; it ``preempts`` itself if it is planned for such a job. ``serial`` tells
    holdings apart.
    """

    start: float
    end: float
    parts: tuple[Held, ...]
    ranks: int
    planned: bool
    yields: float
    preempts: bool
    serial: int

    def meets(self, start: float, end: float, sight: Sight) -> bool:
        """Whether it holds at some time from *start* up to *end*, as *sight* sees it."""
        until = self.yields if sight.preempts else self.end
        return until > start and self.start < (end - sight.tail if self.preempts else end)


class Change(NamedTuple):
    """What is free on ``ranks`` (bitmask) between ``start`` and ``end`` has changed."""

    start: float
    end: float
    ranks: int


class Times:
    """The starts or the ends of holdings, ascending."""

    def __init__(self) -> None:
        self._times: list[tuple[float, int]] = []
        self._holders: dict[int, Holder] = {}

    def add(self, time: float, holding: Holding, holder: Holder) -> None:
        """Add a *time* of the *holding* of *holder*."""
        insort(self._times, (time, holding.serial))
        self._holders[holding.serial] = holder

    def remove(self, time: float, holding: Holding) -> None:
        """Remove what was added."""
        del self._times[bisect_left(self._times, (time, holding.serial))]
        del self._holders[holding.serial]

    def before(self, time: float) -> int:
        """How many are before *time*."""
        return bisect_left(self._times, (time, -1))

    def upto(self, time: float) -> int:
        """How many are at *time* or before."""
        return bisect_right(self._times, (time, math.inf))

    def after(self, time: float) -> Optional[float]:
        """The first one later than *time*; None if there is none."""
        i = self.upto(time)
        return self._times[i][0] if i < len(self._times) else None

    @property
    def last(self) -> float:
        """The last of all, long ago if there is none."""
        return self._times[-1][0] if self._times else -math.inf

    def holders(self, first: int, last: int) -> Iterator[Holder]:
        """The holders of those from number *first* up to number *last*, or the other way round."""
        some = self._times[min(first, last) : max(first, last)]
        return (self._holders[serial] for _, serial in some)


class Meter:
    """Counts work, and says when it is time to let others work: the one place that decides so."""

    def __init__(self) -> None:
        #: All the work so far, and what it was at the last yield.
        self.total = self._yielded = 0

    def owe(self, work: int) -> None:
        """Count *work* that was done where no yield is possible."""
        self.total += work

    def spend(self, work: int) -> bool:
        """Count *work*; whether to yield now."""
        self.total += work
        if self.total - self._yielded < SLICE:
            return False
        self._yielded = self.total
        return True


class Profile:
    """The holdings on the ranks of *pool*. Call ``follow`` when the pool has changed."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.meter = Meter()
        self.holdings: dict[Holder, Holding] = {}
        #: Those of reservations and windows.
        self.planned: dict[Holder, Holding] = {}
        #: By rank, the parts on few ranks: of which holding, and how many; and these ranks.
        self._on: dict[int, dict[_Part, Holding]] = {}
        self._having_few = 0
        #: By block, the parts on many ranks.
        self._around: dict[int, dict[_Part, Holding]] = {}
        self._supplies: dict[tuple[int, Optional[bool]], Supply] = {}
        self._serials = count()
        self.ends, self.starts = Times(), Times()
        #: From when on preemptible jobs may be ended; which holdings are theirs; and of those that
        #: run, since when they do, and that time.
        self.yields = Times()
        self.preemptible: dict[Holder, Holding] = {}
        self.terms: dict[int, tuple[float, float]] = {}
        #: All changes, for views that follow them.
        self.log: Journal[Change] = Journal()
        #: Since somebody last looked: changes that made room, planned holdings that no longer hold,
        #: ranks that went up or down, and whether the pool has other nodes.
        self.gains: list[Change] = []
        self.broken: list[Holder] = []
        self.nodes_changed = self.nodes_replaced = False
        self._position = -1
        self._inventory = pool.inventory
        #: Entries of the pool's journal that are still to be followed.
        self._entries: deque[int] = deque()

    # -- holdings

    def hold(
        self,
        holder: Holder,
        start: float,
        end: float,
        parts: tuple[Held, ...],
        planned: bool,
        terms: Terms = NO_TERMS,
    ) -> None:
        """Let *holder*, which holds nothing yet, hold *parts* from *start* to *end*.

        *terms* are those of the job for which it is planned; of a running job they are known.
        """
        yields = start + terms.after
        if not planned and isinstance(holder, int) and holder in self.terms:
            yields = self.terms[holder][1]
        holding = Holding(
            *(start, end, parts, ranks_in(parts), planned),
            *(min(end, yields), planned and terms.preempts, next(self._serials)),
        )
        self._enter(holder, holding)
        self._changed(Change(start, end, holding.ranks))

    def _enter(self, holder: Holder, holding: Holding) -> None:
        self.holdings[holder] = holding
        self.ends.add(holding.end, holding, holder)
        if holding.yields < holding.end:
            self.preemptible[holder] = holding
            self.yields.add(holding.yields, holding, holder)
        if holding.planned:
            self.planned[holder] = holding
            self.starts.add(holding.start, holding, holder)
        for number, (ranks, _, _) in enumerate(holding.parts):
            if idset.size(ranks) > _FEW:
                for block in _blocks(ranks):
                    self._around.setdefault(block, {})[holder, number] = holding
            else:
                for rank in idset.iterate(ranks):
                    self._on.setdefault(rank, {})[holder, number] = holding
                self._having_few |= ranks
        for supply in self._supplies.values():
            supply.add(holder, holding)

    def drop(self, holder: Holder) -> Change:
        """Remove all that *holder* holds; returns where there is more room now."""
        holding = self.holdings.pop(holder)
        self.ends.remove(holding.end, holding)
        if self.preemptible.pop(holder, None) is not None:
            self.yields.remove(holding.yields, holding)
        if holding.planned:
            del self.planned[holder]
            self.starts.remove(holding.start, holding)
        for number, (ranks, _, _) in enumerate(holding.parts):
            if idset.size(ranks) > _FEW:
                for block in _blocks(ranks):
                    del self._around[block][holder, number]
            else:
                for rank in idset.iterate(ranks):
                    here = self._on[rank]
                    del here[holder, number]
                    if not here:
                        del self._on[rank]
                        self._having_few ^= 1 << rank
        for supply in self._supplies.values():
            supply.remove(holder, holding)
        change = Change(holding.start, holding.end, holding.ranks)
        self._changed(change)
        return change

    def _changed(self, change: Change) -> None:
        self.log.note((change,))
        self.meter.owe(2)

    # -- what is free

    def states(
        self, ranks: int, start: float, end: float, sight: Sight
    ) -> Iterator[tuple[NodeState, int]]:
        """What is free on *ranks* (bitmask) all the time from *start* to *end*, as *sight* sees it:
        states with their ranks; nothing for ranks that the pool lacks."""
        idle, less = self.pool.inventory.idle_index, self.pool.inventory.states.less
        for (cores, gpus), those in self._taken(ranks, start, end, sight).items():
            for state, here in idle.states(those):
                yield less(state, cores, gpus), here

    def _taken(
        self, ranks: int, start: float, end: float, sight: Sight
    ) -> dict[tuple[int, int], int]:
        """The ranks on which these cores and GPUs are held at some time from *start* to *end*."""
        wide: dict[_Part, Holding] = {}
        for block in _blocks(ranks):
            wide.update(self._around.get(block, _NONE))
        parts, on_rank = [(ranks, 0, 0)], ByRank()
        for having, cores, gpus in self._meeting(wide, start, end, sight):
            here = having & ranks
            if idset.size(here) > len(parts):  # what each of these costs grows with their number
                parts.append((here, cores, gpus))
            else:
                add_held(on_rank, ((here, cores, gpus),))
        without, preempts, tail = sight
        looked = 0
        for rank in idset.iterate(ranks & self._having_few):
            cores, gpus = on_rank.get(rank, (0, 0))
            looked += len(self._on[rank])
            for (holder, number), holding in self._on[rank].items():  # a search's innermost loop
                until = holding.yields if preempts else holding.end
                before = end - tail if holding.preempts else end
                if until > start and holding.start < before and holder not in without:
                    _, its_cores, its_gpus = holding.parts[number]
                    cores |= its_cores
                    gpus |= its_gpus
            on_rank[rank] = cores, gpus
        self.meter.owe(looked // _AT_ONCE)
        return by_resources(chain(parts, alike(on_rank)))

    def _meeting(
        self, some: dict[_Part, Holding], start: float, end: float, sight: Sight
    ) -> Iterator[Held]:
        """The parts of *some* that are held at some time from *start* to *end*."""
        for (holder, number), holding in some.items():
            if holding.meets(start, end, sight) and holder not in sight.without:
                yield holding.parts[number]

    def supply(self, within: int, preempts: bool) -> Supply:
        """How much is free over time on the ranks *within* (bitmask) that are up, or on all ranks
        if there are many such sets: it is never more on some of them. Whether a job *preempts*
        matters as soon as there are preemptible jobs."""
        sees = preempts if self.preemptible else None
        if (within, sees) not in self._supplies and len(self._supplies) >= _MAX_SUPPLIES:
            within = idset.EVERY
        found = self._supplies.get((within, sees))
        if found is None:
            found = Supply(self.pool.inventory, within & self.pool.up, self.holdings, sees)
            self._supplies[within, sees] = found
        return found

    def settled(self, within: int, preempts: bool) -> Generator[None, None, Supply]:
        """``supply``, once all holdings are counted in it."""
        while True:
            found = self.supply(within, preempts)
            yield from found.settled(self.meter)
            if self.supply(within, preempts) is found:  # no nodes went up or down meanwhile
                return found

    def differ(
        self, starts: tuple[float, float], ends: tuple[float, float], sights: tuple[Sight, Sight]
    ) -> int:
        """The ranks (bitmask) on which something ends between two *starts* of a time, or is planned
        to begin between two *ends* of it, or of which two *sights* may see something else."""
        ranks = self.ranks_of(self.ends.holders(*map(self.ends.upto, starts)))
        for early, late in {ends, tuple(e - sight.tail for e, sight in zip(ends, sights))}:
            times = self.starts.before(early), self.starts.before(late)
            ranks |= self.ranks_of(self.starts.holders(*times))
        old, new = sights
        if old.without != new.without:
            ranks |= self.ranks_of(old.without ^ new.without)
        if old.preempts != new.preempts:
            ranks |= self.ranks_of(self.preemptible)
        elif new.preempts:
            ranks |= self.ranks_of(self.yields.holders(*map(self.yields.upto, starts)))
        return ranks

    def ranks_of(self, holders: Iterable[Holder]) -> int:
        """All ranks (bitmask) of *holders*, if they hold anything."""
        found = [self.holdings[h].ranks for h in holders if h in self.holdings]
        self.meter.owe(len(found) // _AT_ONCE)
        return idset.union(found)

    def in_the_way(
        self, start: float, end: float, parts: Iterable[Held], sight: Sight
    ) -> set[Holder]:
        """The planned holders that need some of *parts* in this time, as *sight* sees them."""
        wanted = list(parts)
        ranks = ranks_in(wanted)
        return {
            holder
            for holder, holding in self.planned.items()
            if holding.ranks & ranks and holding.meets(start, end, sight)
            if holder not in sight.without and _share(wanted, holding.parts)
        }

    @property
    def yielding(self) -> tuple[int, int]:
        """The cores and GPUs that preemptible jobs have which run."""
        sizes = [size(self.preemptible[job].parts) for job in self.terms if job in self.preemptible]
        return sum(cores for cores, _ in sizes), sum(gpus for _, gpus in sizes)

    def share(self, holder: Holder) -> float:
        """How much of the pool a holder has: of all cores, or of all GPUs, which is more."""
        all_cores = all_gpus = 0
        for node_type, ranks in self.pool.inventory.node_types.items():
            all_cores += node_type.root.ncores * idset.size(ranks)
            all_gpus += idset.size(node_type.root.gpus) * idset.size(ranks)
        cores, gpus = size(self.holdings[holder].parts)
        return max(cores / max(1, all_cores), gpus / max(1, all_gpus))

    def sharing(self, jobs: Iterable[int], parts: tuple[Held, ...]) -> list[int]:
        """Those of *jobs* that hold some of *parts*."""
        near: set[Holder] = set()
        for block in _blocks(ranks_in(parts)):
            near.update(holder for holder, _ in self._around.get(block, _NONE))
        for rank in idset.iterate(ranks_in(parts) & self._having_few):
            near.update(holder for holder, _ in self._on[rank])
        return [job for job in jobs if job in near and _share(parts, self.holdings[job].parts)]

    # -- following the pool

    @property
    def is_behind(self) -> bool:
        """Whether the pool has changed in ways that ``follow`` has left for the next call."""
        return self._position != self.pool.journal.end or bool(self._entries)

    def follow(self, now: float) -> None:
        """Follow the changes of the pool, or some of them if there are many."""
        journal = self.pool.journal
        if self._position != journal.end:
            entries = journal.since(self._position)
            self._position = journal.end
            if entries is None:
                self._entries = self._all(now)
            else:
                self._entries.extend(entries)
        while self._entries:
            entry = self._entries.popleft()
            if entry >= 0:
                self._follow_job(entry, now)
            else:
                self._follow_ranks(1 << of_rank(entry), now)  # it is its own inverse
            if self.meter.spend(2):
                return

    def _all(self, now: float) -> deque[int]:
        """Entries for all jobs: any of them may have changed, and so may all ranks."""
        self.log.note(())
        if self._inventory is not self.pool.inventory:
            self._inventory, self.nodes_replaced = self.pool.inventory, True
        width = len(self.pool.situation.index.state_of)
        self._follow_ranks((1 << width) - 1, now)
        jobs = {jobid for jobid, _ in self.pool.job_end_times()}
        jobs.update(holder for holder in self.holdings if isinstance(holder, int))
        return deque(sorted(jobs))

    def _follow_job(self, jobid: int, now: float) -> None:
        old, job = self.holdings.get(jobid), self.pool.job(jobid)
        if old is not None and old.planned:
            if job is None:
                return
            self.gains.append(self.drop(jobid))  # another scheduler started it
            self.broken.append(jobid)
            old = None
        if job is None:
            self.terms.pop(jobid, None)
            if old is not None:
                self.gains.append(self.drop(jobid))
            return
        end = min(job.end_time or now + CENTURY, now + CENTURY)
        if old is not None:
            kept = abs(old.end - end) <= LATE or min(old.end, end) > now + FAR
            if kept and old.parts == job.parts:
                return
            change = self.drop(jobid)
            if kept:
                end = old.end
                with suppress(PoolConflict):  # if it holds something else now, it is another job
                    freed = ranks_in(held_without(jobid, old.parts, job.parts))
                    change = change._replace(ranks=freed)
            if end < old.end or old.parts != job.parts:
                self.gains.append(change)
        self.hold(jobid, PRESENT, end, job.parts, False)
        tail = end - self.holdings[jobid].yields
        self.broken.extend(self.in_the_way(PRESENT, end, job.parts, Sight(tail=tail)))

    def _follow_ranks(self, ranks: int, now: float) -> None:
        """Follow *ranks* (bitmask) that may have gone up or down."""
        change = Change(PRESENT, now + 2 * CENTURY, ranks)
        self._changed(change)
        self._supplies.clear()
        self.nodes_changed = True
        up = self.pool.up
        if ranks & up:
            self.gains.append(change)
        if ranks & ~up:
            down = ranks & ~up
            self.broken.extend(h for h, planned in self.planned.items() if planned.ranks & down)


def _share(some: Iterable[Held], others: Iterable[Held]) -> bool:
    """Whether *some* parts and *others* have a core or a GPU in common."""
    return any(
        ranks & those and (cores & its_cores or gpus & its_gpus)
        for ranks, cores, gpus in some
        for those, its_cores, its_gpus in others
    )


def _blocks(ranks: int) -> Iterator[int]:
    """The blocks that have some of *ranks* (bitmask)."""
    last = (ranks.bit_length() - 1) // _BLOCK
    if ranks & -ranks >= 1 << last * _BLOCK:  # as for a single rank
        return iter((last,))
    data = memoryview(ranks.to_bytes((last + 1) * (_BLOCK // 8), "little")).cast("Q")
    return (block for block, word in enumerate(data) if word)


#: A part of a holding: the holder, and its number in ``parts``.
_Part = tuple[Holder, int]

_NONE: dict[_Part, Holding] = {}
