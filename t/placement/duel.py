"""The pool and the reference, doing the same, and compared after every call."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Optional

from placement.exhaustive import TooBig
from placement.reference import Ids, ReferencePool, Served, ids_of, r_lite, told_in
from placement.strategies import History, Step
from placement.wanted import Wanted, ids
from treepool.errors import TreepoolError
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import hostlist, idset


def outcome(call: Callable[[], Any]) -> Any:
    """What *call* returns, or the type of the error it raises."""
    try:
        return call()
    except TreepoolError as e:
        return type(e)


def free_ids(pool: Pool) -> dict[int, Ids]:
    """What is free on each rank of *pool*, looked up inside it."""
    return {
        rank: Ids(frozenset(idset.iterate(state.cores)), frozenset(idset.iterate(state.gpus)))
        for rank, state in enumerate(pool.situation.index.state_of)
        if state is not None
    }


def up_ranks(pool: Pool) -> set[int]:
    """The ranks of *pool* that are up, looked up inside it."""
    return set(idset.iterate(pool.situation.index.up))


def observed(pool: Pool) -> dict[str, Any]:
    """All that can change in *pool*, its generation aside."""
    return {
        "free": free_ids(pool),
        "up": up_ranks(pool),
        "jobs": {job: rank_ids(parts_to_r_lite(j.parts)) for job, j in pool._jobs.items()},
        "end times": pool.job_end_times(),
        "buckets": {
            (id(state.type), state.cores, state.gpus): list(idset.iterate(ranks))
            for state, ranks in pool.situation.index.buckets.items()
        },
        "R": pool.to_dict(),
    }


def parts_to_r_lite(parts: Any) -> list[dict[str, Any]]:
    """The parts of an allocation as an R_lite."""
    return [
        {
            "rank": idset.encode(ranks),
            "children": {"core": idset.encode(cores), "gpu": idset.encode(gpus)},
        }
        for ranks, cores, gpus in parts
    ]


def rank_ids(r_lite: list[dict[str, Any]]) -> dict[int, Ids]:
    """The ids that an R_lite has on each rank."""
    found: dict[int, Ids] = {}
    for entry in r_lite:
        for rank in ids(entry["rank"]):
            assert rank not in found, "a rank in two entries"
            found[rank] = ids_of(entry["children"])
    return found


def told(R: dict[str, Any]) -> dict[str, Any]:
    """An R in the terms of ReferencePool.job_R."""
    execution = R["execution"]
    found = {
        "R_lite": execution["R_lite"],
        "hosts": [host for item in execution["nodelist"] for host in hostlist.decode(item)],
        "nslots": execution["nslots"],
        "properties": execution.get("properties", {}),
    }
    if "scheduling" in R:
        found["topos"] = {
            rank: entry["topo"]
            for entry in R["scheduling"]["children"]
            for rank in ids(entry["ranks"])
        }
        found["allocated"] = told_in(R["scheduling"])
    return found


class Duel:
    """A pool and a reference that go through a history together; any difference is an error."""

    def __init__(self, history: History) -> None:
        self.history = history
        options = {
            "locality": history.locality, "policy": history.policy, "mix": history.mix
        }  # fmt: skip
        self.pool = Pool(history.R, **options)
        self.reference = ReferencePool(history.R, **options)
        self.next_job = 1
        #: The R of each live job, as it was allocated.
        self.allocated: dict[int, dict[str, Any]] = {}
        self.compare()
        if history.occupied is not None:
            self.pool.register_alloc(0, history.occupied)
            self.reference.register(0, rank_ids(history.occupied["execution"]["R_lite"]))
            self.compare()

    def compare(self) -> None:
        """What is free, up, and held is the same."""
        assert free_ids(self.pool) == self.reference.free_ids
        assert up_ranks(self.pool) == self.reference.up
        assert {
            job: rank_ids(parts_to_r_lite(j.parts)) for job, j in self.pool._jobs.items()
        } == self.reference.jobs

    def do(self, step: Step) -> None:
        """Make the call on both."""
        getattr(self, step.what.replace(" ", "_"))(step)
        self.compare()

    def alloc(self, step: Step) -> Any:
        """Allocate; the R of the job, or the type of error."""
        jobid = self.next_job
        self.next_job += 1
        want = outcome(lambda: self.reference.wanted(step.spec))
        request = outcome(lambda: self.pool.parse_resource_request(step.spec))
        if isinstance(want, type) or isinstance(request, type):
            assert request is want
            return want
        expected = outcome(lambda: self.expected(want))
        got = outcome(lambda: self.pool.alloc(jobid, request))
        if isinstance(expected, type):
            assert got is expected
            return expected
        if isinstance(got, type):
            assert expected is None, got
            return got
        if expected is not None:
            self.check(expected, rank_ids(got.to_dict()["execution"]["R_lite"]))
            assert got.nslots == expected.nslots
        return self.take_note(jobid, got)

    def take_note(self, jobid: int, got: Allocation) -> dict[str, Any]:
        """What job *jobid* got is taken in the reference as well; its R, which says no more."""
        self.allocated[jobid] = R = got.to_dict()
        taken = rank_ids(R["execution"]["R_lite"])
        assert got.ranks == tuple(sorted(taken))
        assert told(R) == self.reference.job_R(taken, got.nslots)
        self.reference.register(jobid, taken)
        return R

    def expected(self, want: Wanted) -> Optional[Served]:
        """What a job should get; None if it would take too long to find out."""
        try:
            return self.reference.serve(want)
        except TooBig:
            return None

    def check(self, expected: Served, taken: dict[int, Ids]) -> None:
        """*taken* is what is *expected*."""
        assert sorted(taken) == sorted(expected.ids)
        for rank, given in expected.ids.items():
            if given is not None:
                assert taken[rank] == given, rank
            else:
                with suppress(TooBig):
                    assert self.reference.meets(expected, rank, taken[rank]), rank

    def job(self, step: Step) -> Optional[int]:
        """The live job that *step* is about."""
        live = sorted(self.reference.jobs)
        return live[step.number % len(live)] if live else None

    def free(self, step: Step) -> None:
        """Free all that a job has left."""
        jobid = self.job(step)
        if jobid is not None:
            self.pool.free(jobid)
            self.reference.free(jobid)

    def free_some(self, step: Step) -> None:
        """Free some of a job's ranks."""
        jobid = self.job(step)
        if jobid is None:
            return
        held = self.reference.jobs[jobid]
        ranks = set(step.ranks) & set(held)
        if ranks and sayable({rank: held[rank] for rank in ranks}):
            self.pool.free(jobid, R_of({rank: held[rank] for rank in ranks}))
            self.reference.free(jobid, ranks)

    def down(self, step: Step) -> None:
        """Mark ranks down."""
        self.pool.mark_down(idset.encode_ids(step.ranks) if step.ranks else "all")
        self.reference.mark_down(step.ranks or self.reference.nodes)

    def up(self, step: Step) -> None:
        """Mark ranks up."""
        self.pool.mark_up(idset.encode_ids(step.ranks) if step.ranks else "all")
        self.reference.mark_up(step.ranks or self.reference.nodes)

    def copy(self, step: Step) -> None:
        """Go on with a copy, after something was done to the original."""
        self.pool, original = self.pool.copy(), self.pool
        original.mark_down("all")
        for jobid in list(self.reference.jobs):
            original.free(jobid)

    def remove(self, step: Step) -> None:
        """Remove ranks, unless they are all that is left."""
        if set(self.reference.nodes) - set(step.ranks):
            self.pool.remove_ranks(idset.encode_ids(step.ranks))
            self.reference.remove_ranks(step.ranks)


def sayable(held: dict[int, Ids]) -> bool:
    """Whether an R can say that these are held: RFC 20 wants a core on every rank.

    A slot of whole domains can be all GPUs.
    """
    return all(given.cores for given in held.values())


def play(history: History) -> Duel:
    """A pool and a reference that have gone through *history*."""
    duel = Duel(history)
    for step in history.steps:
        duel.do(step)
    return duel


def R_of(held: dict[int, Ids]) -> dict[str, Any]:
    """An R that says what is held on some ranks."""
    nodelist = [f"n[{idset.encode_ids(range(len(held)))}]"]
    return {"version": 1, "execution": {"R_lite": r_lite(held), "nodelist": nodelist}}
