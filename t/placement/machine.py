"""Pools under every operation, in any order, sub-instances inside them, each beside its reference.

A machine starts with one pool. Its rules call what a scheduler, an operator and a sub-instance can
call; every pool that lives goes through it with a reference (``Duel``), and after each step all of
them are held against DESIGN's *Never* paragraph, which is checked here from what the pool gives out
and takes back, without the reference.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any, Callable, ClassVar, Optional

import attrs
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from placement import strategies as random
from placement.duel import (
    Duel,
    R_of,
    free_ids,
    observed,
    outcome,
    parts_to_r_lite,
    rank_ids,
    sayable,
    up_ranks,
)
from placement.exploring import Counted
from placement.inherited import inherited, with_key_of
from placement.reference import Ids, Taken
from placement.wanted import ids
from treepool import Pool, ResourceSet, subinstance
from treepool.errors import InfeasibleRequest, InsufficientResources, PoolConflict
from treepool.rfc import idset

#: How many instances may live inside each other, the outermost not counted.
DEEPEST = 3

#: How many instances, and how many untouched copies, live at a time.
MOST_INSTANCES = 5
MOST_COPIES = 3

#: What a long run comes to: calls that did what they are for, and the ways in which one is denied.
REACHED = (
    *(
        "granted with options",
        "denied with options",
        "granted",
        "InfeasibleRequest",
        "InsufficientResources",
        "undone",
        "asked",
        "granted in domains",
    ),
    *("freed: all", "freed: R", "freed: final", "freed in part", "registered", "refused"),
    *("expiration", "up", "down", "removed", "copied", "planned", "shown", "reloaded", "same key"),
    *(
        "depth 1",
        "depth 2",
        "depth 3",
        "as Flux does",
        "contained",
        "subinstance",
        "key left",
        "ended with it",
    ),
)

#: Methods of the machine after which nothing is allocated or free that was not before.
LOOKS = ("ask", "alloc_and_undo", "plan", "expiration", "parts", "same_key")

#: Options of jobs that other tests hold to rules of their own (test_job_options, test_same).
OPTIONS = (
    {"same": "driver:prefer"},
    {"same": "driver"},
    {"topology_policy": "single-numa-node"},
    {"topology_policy": "restricted", "topology_scope": "slot"},
    {"same_numa": "prefer"},
    {"same_numa": "require", "gpu_memory": 40},
    {"unified_memory": True},
    {"level": "socket", "topology_scope": "node"},
)

ONE_CORE = random.jobspec([random.vertex("slot", 1, [random.vertex("core", 1)])])


@attrs.define(eq=False)
class Instance:
    """A Flux instance: a pool and its reference; ``parent`` and its ``jobid`` if it is a job.

    ``owned`` is all it has, ``ledger`` what each job was given and has not given back: both are
    this module's own books, from R alone.
    """

    duel: Duel
    owned: dict[int, Ids]
    parent: Optional[Instance] = None
    jobid: int = 0
    specs: list[Any] = attrs.field(factory=list)
    ledger: dict[int, Taken] = attrs.field(factory=dict)

    @property
    def pool(self) -> Pool:
        return self.duel.pool

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def held(self) -> dict[int, Taken]:
        """What each job holds."""
        return self.duel.reference.jobs


class Machine(Counted):
    """Everything that can be done to a pool; see the module."""

    #: How often all machines of this class came to what.
    reached: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.instances: list[Instance] = []
        self.copies: list[tuple[Pool, Any]] = []

    # ---- Beginning and end ----

    @initialize(data=st.data())
    def start(self, data: Any) -> None:
        several = random.clusters(most=5), random.uneven_clusters()
        kinds = (*(one.flatmap(random.with_fabric) for one in several), random.broad_nodes())
        R = data.draw(st.one_of(*kinds, random.rich_nodes()))
        self.add(R, data)

    def add(self, R: Any, data: Any, parent: Optional[Instance] = None, jobid: int = 0) -> None:
        """An instance that has *R*, some of it taken perhaps."""
        occupied = data.draw(st.one_of(st.none(), random.occupations(R)))
        mode = data.draw(random.some("preferred", "preferred", "required", "none"))
        policy = data.draw(random.some("packing", *random.POLICIES))
        mix = data.draw(random.mixes(policy, R))
        duel = Duel(random.History(R, mode, occupied, [], policy, mix))
        instance = Instance(duel, rank_ids(R["execution"]["R_lite"]), parent, jobid)
        if occupied is not None:
            instance.ledger[0] = rank_ids(occupied["execution"]["R_lite"])
        self.instances.append(instance)

    def finish(self) -> None:
        for pool, before in self.copies:
            assert observed(pool) == before, "what was done to others changed a copy"

    def did(self, what: str) -> None:
        type(self).reached[what] += 1

    # ---- What holds after every step ----

    def check(self) -> None:
        """DESIGN, "Never", from the books; and all is as the reference says."""
        for instance in self.instances:
            instance.duel.compare()
            free, up = free_ids(instance.pool), up_ranks(instance.pool)
            for rank, left in free.items():
                given = [taken[rank] for taken in instance.ledger.values() if rank in taken]
                everything = instance.owned[rank]
                for kind in ("cores", "gpus"):
                    sets = [getattr(one, kind) for one in (left, *given)]
                    assert sum(map(len, sets)) == len(getattr(everything, kind)), "twice, or lost"
                    assert frozenset().union(*sets) == getattr(everything, kind)
            assert up <= set(free)
            assert set(instance.ledger) == {jobid for jobid, _ in instance.pool.job_end_times()}
            buckets: dict[Any, list[int]] = {}
            for rank in sorted(up):
                buckets.setdefault(instance.pool.situation.index.state_of[rank], []).append(rank)
            assert {
                s: list(idset.iterate(ranks))
                for s, ranks in instance.pool.situation.index.buckets.items()
            } == buckets

    # ---- Jobs ----

    def pick(self, data: Any) -> Instance:
        """An instance, the last made most often."""
        last = len(self.instances) - 1
        return self.instances[data.draw(st.one_of(st.just(last), st.integers(0, last)))]

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return sum(len(instance.ledger) for instance in self.instances)

    def pick_job(self, data: Any) -> tuple[Instance, Optional[int]]:
        instance = self.pick(data)
        live = sorted(instance.held)
        return instance, data.draw(st.sampled_from(live)) if live else None

    @rule(data=st.data())
    def alloc(self, data: Any) -> None:
        """Any form of request."""
        instance = self.pick(data)
        R = instance.duel.history.R
        if data.draw(random.some(True, True, True, False)):
            spec = data.draw(random.jobspecs(R))
        else:
            names, size = random.localities(R), len(random.ranks_of(R))
            made = random.rich_resources(names, size)
            spec = random.jobspec(data.draw(made), options=data.draw(random.job_options(R)))
        instance.specs.append(spec)
        self.give(instance, spec)

    @rule(data=st.data())
    def alloc_again(self, data: Any) -> None:
        """What was asked for before, as most jobs are like others."""
        instance = self.pick(data)
        self.give(instance, data.draw(st.sampled_from([*instance.specs, ONE_CORE])))

    @precondition(lambda self: any(random.above(i.duel.history.R) for i in self.instances))
    @rule(data=st.data(), slots=random.some(1, 1, 1, 2), cores=random.some(1, 1, 2))
    def alloc_in_domains(self, data: Any, slots: int, cores: int) -> None:
        """A job of a few nodes that says which domains above them it may span."""
        instance = self.pick(data)
        slot = random.vertex("slot", slots, [random.vertex("core", cores)])
        node = random.vertex("node", data.draw(random.some(2, 2, 4, 3, 1)), [slot])
        options = data.draw(random.domain_options(instance.duel.history.R))
        spec = random.jobspec([node], options=options)
        instance.specs.append(spec)
        self.give(instance, spec)

    @rule(data=st.data(), options=random.some(*OPTIONS))
    def alloc_with_options(self, data: Any, options: Any) -> None:
        """Options of which the reference knows nothing; what must never be, must not be here."""
        instance = self.pick(data)
        slot = random.vertex("slot", data.draw(random.counts(4)), data.draw(random.flat()))
        self.give(instance, random.jobspec([slot], options=options), foreseen=False)

    def give(self, instance: Instance, spec: Any, foreseen: bool = True) -> None:
        pool, duel = instance.pool, instance.duel
        before, up, generation = free_ids(pool), up_ranks(pool), pool.generation
        jobid = duel.next_job
        if foreseen:
            R = duel.alloc(random.Step("alloc", spec))
        else:
            R = duel.alloc_unforeseen(spec)
        note(f"job {jobid} at depth {instance.depth}: {spec['resources']} {R}")
        if isinstance(R, type):
            self.did(R.__name__ if foreseen else "denied with options")
            assert not pool.has_job(jobid)
            assert pool.generation == generation
            return
        taken = rank_ids(R["execution"]["R_lite"])
        for rank, given in taken.items():
            assert rank in up
            assert given.issubset(before[rank])
        assert pool.generation > generation
        instance.ledger[jobid] = taken
        self.did("granted" if foreseen else "granted with options")
        options = spec["attributes"]["system"].get("treepool", {})
        if {"within", "switches", "segment"}.intersection(options):
            self.did("granted in domains")

    def alloc_and_undo(self, data: Any) -> None:
        """Alloc followed by free restores the pool exactly."""
        instance = self.pick(data)
        spec = data.draw(st.sampled_from([*instance.specs, ONE_CORE]))
        request = outcome(partial(instance.pool.parse_resource_request, spec))
        if isinstance(request, type):
            return
        before = observed(instance.pool)
        if not isinstance(outcome(partial(instance.pool.alloc, 9999, request)), type):
            assert observed(instance.pool) != before
            instance.pool.free(9999)
            self.did("undone")
        assert observed(instance.pool) == before

    def ask(self, data: Any) -> None:
        """Infeasible is what an idle pool could not serve, and nothing else."""
        instance = self.pick(data)
        spec = data.draw(st.sampled_from([*instance.specs, ONE_CORE]))
        before = observed(instance.pool)
        answer = self.feasible(instance, spec)
        assert observed(instance.pool) == before
        if answer in (None, InfeasibleRequest):
            request = instance.pool.parse_resource_request(spec)
            now = outcome(partial(instance.pool.copy().alloc, 9999, request))
            assert not isinstance(now, type) or now is (answer or InsufficientResources)
        self.did("asked")

    def feasible(self, instance: Instance, spec: Any) -> Any:
        """What the pool says to *spec*: None, or the type of error; a new pool says the same."""
        pool = instance.pool
        idle = again(pool.to_dict(), pool)

        def asked(pool: Pool) -> Any:
            return pool.check_feasibility(pool.parse_resource_request(spec))

        answer = outcome(partial(asked, pool))
        assert answer is outcome(partial(asked, idle))
        served = outcome(lambda: idle.alloc(1, idle.parse_resource_request(spec)))
        assert answer is (served if isinstance(served, type) else None)
        return answer

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), how=random.some("all", "R", "final"))
    def free(self, data: Any, how: str) -> None:
        instance, jobid = self.pick_job(data)
        if jobid is None:
            return
        held = instance.held[jobid]
        self.did(f"freed: {how}")
        if how == "all" or not sayable(held):
            instance.pool.free(jobid)
        else:
            instance.pool.free(jobid, R_of(held), final=how == "final")
        instance.duel.reference.free(jobid)
        del instance.ledger[jobid]
        self.over(instance, jobid)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def free_some(self, data: Any) -> None:
        """As housekeeping does, node by node."""
        instance, jobid = self.pick_job(data)
        if jobid is None:
            return
        held = instance.held[jobid]
        ranks = data.draw(random.subsets(sorted(held)))
        part = {rank: held[rank] for rank in ranks}
        if not part or not sayable(part):
            return
        instance.pool.free(jobid, R_of(part))
        instance.duel.reference.free(jobid, ranks)
        self.did("freed in part")
        for rank in ranks:
            del instance.ledger[jobid][rank]
        if not instance.ledger[jobid]:
            del instance.ledger[jobid]
        self.over(instance, jobid)

    def over(self, instance: Instance, jobid: int) -> None:
        """What runs inside a job ends with it."""
        inside = [i for i in self.instances if i.parent is instance and i.jobid == jobid]
        for one in inside:
            self.instances.remove(one)
            self.did("ended with it")
            for job in list(one.held):
                self.over(one, job)

    @rule(data=st.data())
    def register(self, data: Any) -> None:
        """What another scheduler gave to a job; a conflict if some of it is not free."""
        instance = self.pick(data)
        R = data.draw(random.occupations(instance.duel.history.R))
        if R is None:
            return
        jobid, taken = instance.duel.next_job, rank_ids(R["execution"]["R_lite"])
        instance.duel.next_job += 1
        free = free_ids(instance.pool)
        if data.draw(st.booleans()):
            taken = {rank: one & free.get(rank, Ids()) for rank, one in taken.items()}
            taken = {rank: one for rank, one in taken.items() if one.cores}
            if not taken:
                return
            R = R_of(taken)
        if all(rank in free and one.issubset(free[rank]) for rank, one in taken.items()):
            instance.pool.register_alloc(jobid, data.draw(random.some(R, json.dumps(R))))
            instance.duel.reference.register(jobid, taken)
            instance.ledger[jobid] = taken
            self.did("registered")
        else:
            self.refused(instance, partial(instance.pool.register_alloc, jobid, R))

    def refused(self, instance: Instance, call: Callable[[], Any]) -> None:
        before, generation = observed(instance.pool), instance.pool.generation
        assert outcome(call) is PoolConflict
        assert observed(instance.pool) == before
        assert instance.pool.generation == generation
        self.did("refused")

    @rule(data=st.data())
    def wrong(self, data: Any) -> None:
        """Calls that are no answer to anything: refused, and nothing has changed."""
        instance, jobid = self.pick_job(data)
        pool = instance.pool
        calls: list[Callable[[], Any]] = [
            partial(pool.free, 9999),
            partial(pool.update_expiration, 9999, 1.0),
            partial(pool.register_alloc, 9999, R_of({200: Ids(frozenset([0]))})),
        ]
        if jobid is not None:
            held = instance.held[jobid]
            first = min(held)
            more = Ids(held[first].cores | {500}, held[first].gpus)
            request = pool.parse_resource_request(ONE_CORE)
            calls = [
                partial(pool.alloc, jobid, request),
                partial(pool.register_alloc, jobid, R_of({first: more})),
                partial(pool.free, jobid, R_of({**held, first: more})),
                partial(pool.free, jobid, R_of({**held, 99: more})),
            ]
            if len(held) > 1 and held[first].cores:
                part = R_of({first: held[first]})
                calls.append(partial(pool.free, jobid, part, final=True))
        self.refused(instance, data.draw(st.sampled_from(calls)))

    def expiration(self, data: Any) -> None:
        """The end of a job, and of the instance."""
        instance, jobid = self.pick_job(data)
        when = data.draw(random.some(0.0, 5.0, 1e9))
        others = dict(instance.pool.job_end_times())
        if jobid is None:
            old = instance.pool.expiration
            others = {other: when if end == old else end for other, end in others.items()}
            instance.pool.set_expiration(when)
            instance.pool.set_starttime(when / 2)
            assert instance.pool.to_dict()["execution"]["expiration"] == when
        else:
            others[jobid] = when
            instance.pool.update_expiration(jobid, when)
        assert dict(instance.pool.job_end_times()) == others
        self.did("expiration")

    @rule(data=st.data(), what=random.some(*LOOKS))
    def look(self, data: Any, what: str) -> None:
        """What leaves the pool as it is, but for the end of a job."""
        getattr(self, what)(data)

    # ---- Nodes ----

    @rule(data=st.data(), up=random.some(True, True, False))
    def mark(self, data: Any, up: bool) -> None:
        instance = self.pick(data)
        step = random.Step("", ranks=tuple(data.draw(random.subsets(sorted(instance.owned)))))
        (instance.duel.up if up else instance.duel.down)(step)
        self.did("up" if up else "down")

    @rule(data=st.data(), seldom=random.some(False, False, False, True))
    def remove(self, data: Any, seldom: bool) -> None:
        instance = self.pick(data)
        if seldom:
            rank = data.draw(st.sampled_from(sorted(instance.owned)))
            for spec in instance.specs[-3:]:
                self.feasible(instance, spec)
            instance.duel.remove(random.Step("remove", ranks=(rank,)))
            for spec in instance.specs[-3:]:
                self.feasible(instance, spec)  # it may be another answer now
            self.show(instance)
            self.did("removed")

    # ---- Copies, reloads, and instances inside ----

    @rule(data=st.data(), what=random.some("copy", "reload"))
    def another_pool(self, data: Any, what: str) -> None:
        """Go on with another pool that is the same."""
        getattr(self, what)(data)

    def copy(self, data: Any) -> None:
        """A copy or the original; the one that is left must stay what it is."""
        instance = self.pick(data)
        copy = instance.pool.copy()
        assert observed(copy) == observed(instance.pool)
        assert copy.generation == instance.pool.generation
        kept = copy
        if data.draw(st.booleans()):
            instance.duel.pool, kept = copy, instance.pool
        self.copies = [*self.copies, (kept, observed(kept))][-MOST_COPIES:]
        self.did("copied")

    def plan(self, data: Any) -> None:
        """A forecast on a copy: what is free of some parts is spoken for, and nothing else."""
        instance = self.pick(data)
        R = data.draw(random.occupations(instance.duel.history.R))
        if R is None:
            return
        before = observed(instance.pool)
        copy, taken = instance.pool.copy(), rank_ids(R["execution"]["R_lite"])
        here = {
            rank: one for rank, one in taken.items() if rank < len(copy.situation.index.state_of)
        }
        copy.occupy(
            9999,
            [((r,), idset.from_ids(i.cores), idset.from_ids(i.gpus)) for r, i in here.items()],
        )
        for rank, left in free_ids(copy).items():
            assert left == free_ids(instance.pool)[rank] - taken.get(rank, Ids())
        copy.free(9999)
        assert free_ids(copy) == free_ids(instance.pool)
        assert observed(instance.pool) == before
        self.did("planned")

    def parts(self, data: Any) -> None:
        """What Flux asks of a pool to show it: all of it, what is allocated, what is down."""
        self.show(self.pick(data))
        self.did("shown")

    def show(self, instance: Instance) -> None:
        pool, nodes = instance.pool, instance.duel.reference.nodes
        there = {rank: instance.owned[rank] for rank in nodes}
        R = pool.to_dict()["execution"]["R_lite"]
        assert rank_ids(R) == there
        lowest = [min(ids(entry["rank"])) for entry in R]
        assert lowest == sorted(lowest)
        free = free_ids(pool)
        taken = {rank: there[rank] - free[rank] for rank in nodes if there[rank] - free[rank]}
        entries = [((r,), e.cores, e.gpus) for e in pool.copy_allocated().entries for r in each(e)]
        assert rank_ids(parts_to_r_lite(entries)) == taken
        down = {rank: there[rank] for rank in nodes if rank not in up_ranks(pool)}
        entries = [((r,), e.cores, e.gpus) for e in pool.copy_down().entries for r in each(e)]
        assert rank_ids(parts_to_r_lite(entries)) == down

    def reload(self, data: Any) -> None:
        """A scheduler that comes up again: a new pool, told what the jobs hold and what is down."""
        instance = self.pick(data)
        old, reference = instance.pool, instance.duel.reference
        there = all(rank in reference.nodes for held in instance.held.values() for rank in held)
        if not there or not all(map(sayable, instance.held.values())):
            return  # no R says what they hold
        R = json.loads(json.dumps(old.to_dict()))
        assert ResourceSet.problems(R) == []
        new = again(R, old)
        for jobid, held in instance.held.items():
            new.register_alloc(jobid, R_of(held))
        for jobid, end in old.job_end_times():
            new.update_expiration(jobid, end)
        down = set(reference.nodes) - reference.up
        if down:
            new.mark_down(random.idset_text(down))
        for what in ("free", "up", "jobs", "R"):
            assert observed(new)[what] == observed(old)[what]
        assert dict(new.job_end_times()) == dict(old.job_end_times())
        instance.duel.pool = new
        self.did("reloaded")

    def same_key(self, data: Any) -> None:
        """The nodes' topology is told again, as after discovery."""
        instance = self.pick(data)
        key = instance.pool.to_dict().get("scheduling")
        if key is None:
            return
        before = observed(instance.pool)
        instance.pool.replace_key(key)
        after = observed(instance.pool)
        del before["buckets"], after["buckets"]  # they name types of nodes, which are new
        assert after == before
        self.did("same key")

    @precondition(lambda self: self.jobs and len(self.instances) < MOST_INSTANCES)
    @rule(data=st.data(), how=random.some("as Flux does", "contained", "subinstance", "key left"))
    def descend(self, data: Any, how: str) -> None:
        """An instance starts inside a job."""
        whole = [
            (instance, jobid)
            for instance in self.instances
            if instance.depth < DEEPEST
            for jobid, R in instance.duel.allocated.items()
            if rank_ids(R["execution"]["R_lite"]) == instance.held.get(jobid)
            if sayable(instance.held[jobid])
        ]
        if not whole:
            return
        place = len(whole) - 1  # the last made instance most often
        outer, jobid = whole[data.draw(st.one_of(st.just(place), st.integers(0, place)))]
        R, held = outer.duel.allocated[jobid], outer.held[jobid]
        inner = subinstance(R)
        assert ResourceSet.problems(inner) == []
        if how in ("as Flux does", "contained"):
            inner = inherited(R, contained=how == "contained")
        elif how == "key left" and "scheduling" in R:
            inner = with_key_of(R, inner)
        ranks = sorted(held)
        given = rank_ids(inner["execution"]["R_lite"])
        assert sorted(given) == list(range(len(ranks)))
        for rank, got in given.items():
            above = held[ranks[rank]]
            assert (len(got.cores), len(got.gpus)) == (len(above.cores), len(above.gpus))
            assert how == "contained" or got.gpus == above.gpus
            assert how in ("as Flux does", "contained") or got == above
        note(f"inside job {jobid} of instance {self.instances.index(outer)}, {how}")
        self.did(how)
        self.did(f"depth {outer.depth + 1}")
        self.add(json.loads(json.dumps(inner)), data, outer, jobid)
        # Those inside are small: what fits is likely a part of what was asked for outside.
        self.give(self.instances[-1], data.draw(st.sampled_from([ONE_CORE, *outer.specs])))

    @rule(data=st.data(), seldom=random.some(False, False, True))
    def fill(self, data: Any, seldom: bool) -> None:
        """The same job until there is no room for another."""
        if not seldom:
            return
        instance = self.pick(data)
        spec = data.draw(st.sampled_from([*instance.specs, ONE_CORE]))
        for _ in range(12):
            jobs = len(instance.ledger)
            self.give(instance, spec)
            if len(instance.ledger) == jobs:
                break


def each(entry: Any) -> Any:
    """The ranks of an R_lite entry."""
    return idset.iterate(entry.ranks)


#: What the rules above rely on being told apart.
assert not issubclass(InfeasibleRequest, InsufficientResources)


def again(R: Any, pool: Pool) -> Pool:
    """A new pool of *R* with the options of *pool*: its mix may name localities that are gone."""
    new = Pool(R)
    new.follow_options(**pool.options)
    return new
