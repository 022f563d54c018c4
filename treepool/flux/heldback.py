"""What is allocated to no known job: held back; what was freed unseen; how often it is checked.

The job manager says what jobs and housekeeping have. What of that no job in the pool has is *held
back*: that of jobs whose R is gone or damaged, of jobs that end because the pool lacks some of what
they have, also of those that another scheduler ended so before this one was loaded. The job manager
is asked again soon after something was freed, or one of those jobs is over, until it is free there,
too.

The same answer tells what was freed while the scheduler started: between hello and ready the job
manager reports nothing (flux-core 0.88, alloc_send_free_request). With many running jobs that time
is long, because their Rs are read one by one.
"""

from __future__ import annotations

import time
from typing import Any, Generator, Iterator, Optional

from treepool.flux.callbacks import Timer, then
from treepool.flux.context import Context
from treepool.flux.hello import ask_hello, held_of
from treepool.placement.allocation import Allocation
from treepool.placement.held import HELD_BACK, ByRank, add_held, alike, held_in, held_on
from treepool.placement.nodes.parts import ranks_in, short_form
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

#: The RPC that returns what jobs and housekeeping have, and the one that tells of a job.
ALLOCATED, TOLD = "job-manager.resource-status", "job-manager.getattr"

#: The question for the jobs that end.
ENDING = (
    "job-list.list",
    {"max_entries": 0, "since": 0.0, "attrs": ["state"], "constraint": {"states": ["cleanup"]}},
)

#: Seconds until the job manager is asked again: at least, and at most. It adds up the Rs of all
#: jobs for its answer, so it is also left alone for so many times as long as that took.
_SOON, _RARELY, _SHARE = 0.5, 30.0, 20

#: How many entries of the answer are read, and jobs compared with it, in one step.
ENTRIES = 64

#: On how many nodes it is held back, or no longer, in one step.
RANKS = 512

#: How many parts of what is held back the log shows.
_SHOWN = 64


class HeldBack:
    """Holds in the pool what is allocated and held by no other job there.

    The log gets a line whenever that changes. A job that is found to have nothing any more is
    forgotten.
    """

    def __init__(self, context: Context) -> None:
        self._handle, self._log, self._inbox = context.handle, context.log, context.inbox
        self._pool, self._origins = context.pool, context.origins
        #: Whether it is known what is allocated, and from the job manager as a whole. Until it is
        #: known no job may start.
        self.known = self._sure = False
        #: What the jobs had of which hello told, until it is known what was freed meanwhile.
        self._at_hello: dict[int, ResourceSet] = {}
        #: The jobs that have what the pool does not record for them.
        self._doubtful: dict[int, None] = {}
        self._timer = Timer(self._handle, self._on_timer)
        #: How long to wait until the job manager is asked again: now, and at least.
        self._wait = self._least = _SOON
        #: Whether something was freed since it was asked.
        self._freed = False
        #: Whether jobs may have ended unseen since the hello of the load.
        self._forgets = True
        #: The last error of the job manager.
        self._error = ""

    def add(self, jobid: int, held: ResourceSet) -> None:
        """Take note that job *jobid* has *held* at hello."""
        self._at_hello[jobid] = held

    def doubt(self, jobid: int) -> None:
        """Take note that job *jobid* has what the pool does not record for it."""
        self._doubtful[jobid] = None
        if self.known:
            self._ask_again(self._least)

    def ask(self) -> None:
        """Ask what is allocated; call this after ready.

        The answer arrives after every release that precedes it, and before every later release. In
        its turn in the inbox it therefore matches what the jobs have in the pool.
        """
        self._freed = False
        asked, future = time.monotonic(), self._handle.rpc(ALLOCATED)
        work = self._on_answer(future, asked)
        then(self._handle, future, lambda _: self._inbox.put(lambda: next(work, False)))

    def give_back(self, jobid: int, ranks: Optional[int] = None) -> None:
        """Free what *jobid* holds, on *ranks* (bitmask) or at all, though others may have that.

        No job starts until it is known what they have.
        """
        job = self._pool.job(jobid)
        parts = () if job is None else job.parts if ranks is None else held_on(ranks, job.parts)
        if parts:
            self._pool.free(jobid, Allocation(self._pool.inventory, parts, 1))
        self.known = self._sure = False
        self.ask()

    def freed(self) -> None:
        """Something was freed: perhaps what is held back."""
        if self._pool.has_job(HELD_BACK):
            self._freed = True
            self._ask_again(self._least)

    def _ask_again(self, wait: float) -> None:
        """Ask again in *wait* seconds at the latest."""
        self._wait = min(_RARELY, max(wait, self._least))
        self._timer.hasten(self._wait)

    def _on_timer(self) -> None:
        if self._freed or not (self._sure and self.known):
            self.ask()
            return
        self._ask_again(2 * self._wait)
        if self._doubtful:
            self._look(list(self._doubtful), {})
        else:
            then(self._handle, self._handle.rpc(*ENDING), self._on_ending)

    def _on_ending(self, future: Any) -> None:
        """Jobs end of which hello does not tell, because a scheduler before this one ended them."""
        ending = [job["id"] for job in future.get()["jobs"]]
        self._doubtful = dict.fromkeys(job for job in ending if not self._pool.has_job(job))
        if self._doubtful:
            return
        if self._forgets:  # who had what is held back may be over already
            self._forgets = False
            self._forget()
        else:
            self.ask()

    def _look(self, jobs: list[int], held: ByRank) -> None:
        """Ask for each of *jobs* whether it is over, one after another; add what others have."""
        if jobs:
            asked = {"id": jobs[-1], "attrs": ["R", "eventlog"]}
            then(self._handle, self._handle.rpc(TOLD, asked), self._on_look, jobs, held)
        elif not self._sure:
            work = self._know(held)
            self._inbox.put(lambda: next(work, False))
        elif self._freed:
            self._forget()

    def _on_look(self, future: Any, jobs: list[int], held: ByRank) -> None:
        jobid = jobs.pop()
        try:
            told = future.get()
            if any(event["name"] == "clean" for event in told["eventlog"]):
                raise ValueError("it is over")
            add_held(held, held_in(held_of(told["R"]["execution"]).entries))
        except (OSError, ValueError, KeyError, TypeError):  # the job manager knows no such job
            self._doubtful.pop(jobid, None)
            self._origins.pop(jobid, None)
            self._freed = True
        self._look(jobs, held)

    def _forget(self) -> None:
        """Let the job manager forget its last answer, then ask.

        It repeats that answer until something is allocated or freed, and for a job that ended
        because of hello it frees nothing. Another hello makes it forget.
        """
        then(self._handle, ask_hello(self._handle), self._on_hello)

    def _on_hello(self, future: Any) -> None:
        try:
            future.get()
        except OSError:  # the end of the stream
            self.ask()
        else:
            future.reset()

    def _on_answer(self, future: Any, asked: float) -> Iterator[bool]:
        """Hold what is allocated and held by nobody else; yields true between steps.

        Jobs may start between two of them: they get nothing that is held back, and the answer
        tells of nothing that was free.
        """
        self._least = max(_SOON, _SHARE * (time.monotonic() - asked))
        self._ask_again(2 * self._wait)  # whatever comes of this answer
        allocated: ByRank = {}
        try:
            answer = future.get()["allocated"] or {}
            R_lite = answer.get("execution", {}).get("R_lite") or []
            for first in range(0, len(R_lite), ENTRIES):
                some = held_of({"R_lite": R_lite[first : first + ENTRIES]})
                add_held(allocated, held_in(some.entries))
                yield True
        except Exception as e:
            if str(e) != self._error:
                self._error = str(e)
                self._log.error(f"what is allocated is not known: {e}")
            if not self._sure:  # what is known of each job must do
                self._look(list(self._doubtful), {})
            return
        self._sure = True
        yield from self._release(allocated)
        yield from self._know(allocated)
        if not (self._doubtful or self._pool.has_job(HELD_BACK)):
            self._timer.stop()

    def _know(self, allocated: ByRank) -> Iterator[bool]:
        """Hold what nobody else has of *allocated*; jobs may start from now on."""
        if (yield from self._hold(allocated)) or not self.known:
            self.known = True
            self._ask_again(self._least)

    def _hold(self, allocated: ByRank) -> Generator[bool, None, bool]:
        """Hold what nobody else has of *allocated*; returns whether that has changed.

        No job starts meanwhile.
        """
        pool, before, after = self._pool, ByRank(), ByRank()
        add_held(before, pool.held_back)
        state_of = pool.situation.index.state_of
        for rank, (cores, gpus) in allocated.items():
            state = state_of[rank] if rank < len(state_of) else None
            if state is not None:
                had = before.get(rank, (0, 0))
                mine = cores & (state.cores | had[0]), gpus & (state.gpus | had[1])
                if mine != (0, 0):
                    after[rank] = mine
        if after == before:
            return False
        self.known = False
        yield True
        changed = [r for r in {**before, **after} if before.get(r) != after.get(r)]
        for first in range(0, len(changed), RANKS):
            some = changed[first : first + RANKS]
            old = alike({rank: before[rank] for rank in some if rank in before})
            new = alike({rank: after[rank] for rank in some if rank in after})
            if old:
                pool.free(HELD_BACK, Allocation(pool.inventory, tuple(old), 1))
            if new:
                pool.occupy(HELD_BACK, new, more=True)
            yield True
        parts = alike(after)
        more = " ..." if len(parts) > _SHOWN else ""
        what = f"held back: {short_form(parts[:_SHOWN])}{more}"
        what = f"{what}: allocated, but to no job whose R is known"
        self._log.warning(what if after else "nothing is held back any more")
        return True

    def _release(self, allocated: ByRank) -> Iterator[bool]:
        """Free what jobs had at hello and is not *allocated* any more."""
        jobs, self._at_hello = self._at_hello, {}
        count = 0
        for number, (jobid, R) in enumerate(jobs.items(), 1):
            count += _release(self._pool, jobid, R, allocated)
            if not self._pool.has_job(jobid):
                self._origins.pop(jobid, None)
            if number % ENTRIES == 0:
                yield True
        if count:
            text = f"freed {count} nodes of jobs that ended while this scheduler started"
            self._log.warning(text)


def _release(pool: Pool, jobid: int, held: ResourceSet, allocated: ByRank) -> int:
    """Free what *jobid* has of *held* beyond *allocated*; returns on how many nodes.

    The job may have freed some of that in the ordinary way since then.
    """
    gone = idset.from_ids(
        rank
        for ranks, cores, gpus in held_in(held.entries)
        for rank in idset.iterate(ranks)
        if not (cores & allocated.get(rank, (0, 0))[0] or gpus & allocated.get(rank, (0, 0))[1])
    )
    job = pool.job(jobid)
    parts = held_on(gone, job.parts) if job else ()
    if parts:
        pool.free(jobid, Allocation(pool.inventory, parts, 1))
    return idset.size(ranks_in(parts))
