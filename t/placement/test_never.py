"""doc/design.md, "Never": what no history of calls can do to a pool, and what every job's R is."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import examples
from placement import strategies as random
from placement.duel import (
    Duel,
    R_of,
    free_ids,
    observed,
    outcome,
    play,
    rank_ids,
    sayable,
    told,
    up_ranks,
)
from placement.inherited import with_key_of
from placement.reference import Ids, ReferencePool, ids_of, told_in, topo_by_rank
from placement.wanted import ids
from treepool import ResourceSet, subinstance
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidInput,
    PoolConflict,
    TreepoolError,
)
from treepool.placement.pool import Pool
from treepool.rfc import hostlist

SETTINGS = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ONE_CORE = random.jobspec([random.vertex("slot", 1, [random.vertex("core", 1)])])


@st.composite
def histories_and_specs(draw: Any) -> tuple[random.History, list[Any]]:
    """A history, and some jobspecs for what may come after it."""
    history = draw(random.histories())
    return history, [*draw(st.lists(random.jobspecs(history.R), min_size=2, max_size=5)), ONE_CORE]


def allocate(pool: Pool, jobid: int, spec: Any) -> Any:
    """The R that job *jobid* gets, or the type of error."""
    return outcome(lambda: pool.alloc(jobid, pool.parse_resource_request(spec)).to_dict())


def what_comes_next(pool: Pool, specs: list[Any]) -> list[Any]:
    """What a copy of *pool* answers to *specs*, one after another."""
    trial = pool.copy()
    return [allocate(trial, 10_000 + i, spec) for i, spec in enumerate(specs)]


# ---- No id twice, none on a rank that is down ----


@SETTINGS
@given(random.histories())
def test_an_id_is_in_one_allocation_at_most_and_none_is_new_on_a_rank_that_is_down(history):
    duel = Duel(history)
    free = {rank: set_of(given) for rank, given in free_ids(duel.pool).items()}
    for step in history.steps:
        up = up_ranks(duel.pool)
        known = set(duel.allocated)
        duel.do(step)
        for jobid in set(duel.allocated) - known:
            for rank, got in rank_ids(duel.allocated[jobid]["execution"]["R_lite"]).items():
                assert rank in up
                assert set_of(got) <= free[rank]
        free = {rank: set_of(given) for rank, given in free_ids(duel.pool).items()}
        for rank, left in free.items():
            held = [set_of(taken[rank]) for taken in duel.reference.jobs.values() if rank in taken]
            everything = set_of(duel.reference.nodes[rank].root.ids)
            assert sum(map(len, held), len(left)) == len(everything)
            assert set().union(left, *held) == everything


def set_of(given: Ids) -> set[tuple[str, int]]:
    return {("core", i) for i in given.cores} | {("gpu", i) for i in given.gpus}


@SETTINGS
@given(histories_and_specs())
def test_what_is_freed_is_free_again(case):
    history, specs = case
    pool = play(history).pool
    for jobid, _ in pool.job_end_times():
        pool.free(jobid)
    pool.mark_up("all")
    assert what_comes_next(pool, specs) == what_comes_next(Pool_like(pool), specs)


def Pool_like(pool: Pool) -> Pool:
    """A new pool of the ranks that *pool* has."""
    new = Pool(pool.to_dict())
    new.follow_options(**pool.options)  # its mix may name a locality that went with a node
    return new


# ---- Alloc and free cancel out; a failed call changes nothing ----


@SETTINGS
@given(histories_and_specs())
def test_alloc_followed_by_free_restores_the_pool(case):
    history, specs = case
    pool = play(history).pool
    for jobid, spec in enumerate(specs, 500):
        before, coming = observed(pool), what_comes_next(pool, specs)
        generation = pool.generation
        changes = 0 if isinstance(allocate(pool, jobid, spec), type) else 2
        if changes:
            assert observed(pool) != before
            assert pool.generation > generation
            pool.free(jobid)
        assert observed(pool) == before
        assert pool.generation >= generation + changes
        assert what_comes_next(pool, specs) == coming


def attempts(duel: Duel, specs: list[Any]) -> list[Callable[[], Any]]:
    """Calls that may fail, for they are wrong or ask too much."""
    pool, reference = duel.pool, duel.reference
    core_0 = Ids(frozenset([0]))
    calls = [
        partial(pool.free, 9999),
        partial(pool.free, 9999, R_of({0: core_0})),
        partial(pool.update_expiration, 9999, 1.0),
        partial(pool.register_alloc, 800, R_of({200: core_0})),
        partial(pool.register_alloc, 800, "{"),
        partial(pool.mark_up, "2-1"),
        partial(pool.mark_down, "x"),
        partial(pool.remove_ranks, "01"),
        partial(pool.remove_ranks, "77"),
        *[partial(allocate_or_raise, pool, 900, spec) for spec in specs],
    ]
    for jobid, held in reference.jobs.items():
        first, last = min(held), max(held)
        calls += [
            partial(allocate_or_raise, pool, jobid, ONE_CORE),
            partial(pool.register_alloc, jobid, R_of({0: core_0})),
            # What comes before the wrong rank is right.
            partial(pool.free, jobid, R_of({**held, 99: core_0})),
            partial(pool.free, jobid, R_of({**held, last: Ids(frozenset([88]))})),
        ]
        if held[first].cores and len(held) > 1:
            calls.append(partial(pool.free, jobid, R_of({first: held[first]}), final=True))
        if sayable(held):
            calls.append(partial(pool.register_alloc, 801, R_of(held)))
    for rank, node in reference.nodes.items():
        foreign = Ids(frozenset([min(node.root.ids.cores), 500]))
        calls.append(partial(pool.register_alloc, 802, R_of({rank: foreign})))
    return calls


def allocate_or_raise(pool: Pool, jobid: int, spec: Any) -> Any:
    return pool.alloc(jobid, pool.parse_resource_request(spec))


@SETTINGS
@given(histories_and_specs())
def test_a_call_that_fails_changes_nothing(case):
    history, specs = case
    duel = play(history)
    pool = duel.pool
    coming = what_comes_next(pool, specs)
    for call in attempts(duel, specs):
        before, generation = observed(pool), pool.generation
        try:
            call()
        except TreepoolError:
            assert observed(pool) == before
            assert pool.generation == generation
        if 900 in {jobid for jobid, _ in pool.job_end_times()}:  # an alloc that did not fail
            pool.free(900)
        assert observed(pool) == before
    assert what_comes_next(pool, specs) == coming


@SETTINGS
@given(histories_and_specs())
def test_wrong_calls_are_conflicts_or_invalid_input(case):
    duel = play(case[0])
    for call in attempts(duel, []):
        error = outcome(call)
        assert error is None or issubclass(error, (PoolConflict, InvalidInput))


# ---- Infeasible or insufficient ----


@SETTINGS
@given(histories_and_specs())
def test_alloc_and_check_feasibility_agree_with_what_an_idle_pool_does(case):
    history, specs = case
    pool = play(history).pool
    for spec in specs:
        request = outcome(lambda spec=spec: pool.parse_resource_request(spec))
        if isinstance(request, type):
            continue
        idle = Pool_like(pool)
        served = outcome(lambda spec=spec, idle=idle: allocate(idle, 1, spec))
        now = outcome(lambda request=request: pool.copy().alloc(1000, request))
        feasible = outcome(lambda request=request: pool.check_feasibility(request))
        if isinstance(served, type):
            assert served is now is feasible is InfeasibleRequest
        else:
            assert feasible is None
            assert now is InsufficientResources or not isinstance(now, type)


# ---- Copies ----


@SETTINGS
@given(histories_and_specs(), st.data())
def test_a_copy_and_the_original_do_not_touch_each_other(case, data):
    history, specs = case
    pool = play(history).pool
    before, coming = observed(pool), what_comes_next(pool, specs)
    copy = pool.copy()
    assert observed(copy) == before
    assert copy.generation == pool.generation
    one, other = data.draw(st.permutations([pool, copy]))
    for jobid, spec in enumerate(specs, 600):
        allocate(one, jobid, spec)
    for jobid, _ in one.job_end_times()[::2]:
        one.update_expiration(jobid, 5.0)
        one.free(jobid)
    one.mark_down("all")
    one.set_starttime(7.0)
    one.set_expiration(8.0)
    if len(observed(one)["free"]) > 1:
        one.remove_ranks(str(min(observed(one)["free"])))
    assert observed(other) == before
    assert what_comes_next(other, specs) == coming


# ---- Registering what another pool allocated ----


@SETTINGS
@given(histories_and_specs())
def test_registering_what_a_pool_allocated_makes_the_same_pool(case):
    history, specs = case
    duel = play(history)
    if not all(sayable(held) for held in duel.reference.jobs.values()):
        return
    gone = set(random.ranks_of(history.R)) - set(duel.reference.nodes)
    if any(gone & set(held) for held in duel.reference.jobs.values()):
        return  # what was removed is not in the new pool
    restarted = Pool_like(duel.pool)
    for jobid, held in duel.reference.jobs.items():
        restarted.register_alloc(jobid, R_of(held))
    down = set(duel.reference.nodes) - duel.reference.up
    if down:
        restarted.mark_down(random.idset_text(down))
    assert free_ids(restarted) == free_ids(duel.pool)
    assert what_comes_next(restarted, specs) == what_comes_next(duel.pool, specs)


# ---- What comes out ----


@SETTINGS
@given(random.histories())
def test_the_R_of_a_job_is_valid_and_says_all_of_the_nodes_it_has(history):
    outer = topo_by_rank(history.R.get("scheduling"), random.ranks_of(history.R))
    duel = Duel(history)
    for step in history.steps:
        duel.do(step)
    for R in duel.allocated.values():
        held = rank_ids(R["execution"]["R_lite"])
        if sayable(held):
            assert ResourceSet.problems(R) == []
            assert ResourceSet.problems(json.dumps(R)) == []
        lowest = [min(ids(entry["rank"])) for entry in R["execution"]["R_lite"]]
        assert lowest == sorted(lowest)
        children = [json.dumps(entry["children"]) for entry in R["execution"]["R_lite"]]
        assert len(children) == len(set(children))
        assert hostlist.decode(R["execution"]["nodelist"][0]) == [
            random.host(rank) for rank in sorted(held)
        ]
        for name, ranks in R["execution"].get("properties", {}).items():
            assert not name.startswith("+")
            assert ids(ranks) <= set(held)
        if "scheduling" not in history.R:
            assert "scheduling" not in R
            continue
        entries = R["scheduling"]["children"]
        ours = ("children", "allocated", "fabric")  # treepool 0.1 wrote the second
        assert {k: v for k, v in R["scheduling"].items() if k not in ours} == {
            k: v for k, v in history.R["scheduling"].items() if k not in ours
        }
        # Flux will count a node's cores from zero, and perhaps its GPUs: the key says what they
        # were if not so, and wherever the job has less than all; the duel has compared which.
        told = {rank: one[:2] for rank, one in told_in(R["scheduling"]).items()}
        assert set(told) <= set(held)
        for rank, got in held.items():
            if rank in told:
                assert tuple(map(len, told[rank])) == (len(got.cores), len(got.gpus))
            else:
                assert got.cores == frozenset(range(len(got.cores)))
                assert got.gpus == frozenset(range(len(got.gpus)))
        covered = [rank for entry in entries for rank in ids(entry["ranks"])]
        assert sorted(covered) == sorted(held)
        for entry in entries:
            for rank in ids(entry["ranks"]):
                assert entry["topo"] == outer.get(rank, entry["topo"])


@SETTINGS
@given(st.data())
def test_pools_work_three_instances_deep(data):
    R = data.draw(random.clusters())
    mode = data.draw(random.some("preferred", "none", "required"))
    for _ in range(3):
        names = random.localities(R)
        size = len(random.ranks_of(R))
        made = data.draw(st.lists(random.resources(names, size), min_size=3, max_size=6))
        specs = [random.jobspec(item) for item in made] + [ONE_CORE]
        steps = [random.Step("alloc", spec) for spec in specs]
        duel = Duel(random.History(R, mode, None, steps))
        found = [R for R in map(duel.alloc, steps) if not isinstance(R, type)]
        given = [R for R in found if sayable(rank_ids(R["execution"]["R_lite"]))]
        allocated = max(given, key=lambda R: len(R["execution"]["R_lite"]), default=None)
        if allocated is None:
            break
        inner = subinstance(allocated)
        assert ResourceSet.problems(inner) == []
        assert_inside(inner, allocated)
        assert told({**allocated, "scheduling": {"children": []}})["R_lite"]
        # Flux renumbers R_lite for a sub-instance, not the key: that must do as well.
        if "scheduling" in inner:
            unchanged = with_key_of(allocated, inner)
            assert what_comes_next(Pool(unchanged), specs) == what_comes_next(Pool(inner), specs)
        R = inner


def assert_inside(inner: Any, outer: Any) -> None:
    """The ranks of *inner* count from zero and are, in order, those of *outer*."""
    ranks = random.ranks_of(outer)
    assert random.ranks_of(inner) == list(range(len(ranks)))
    outer_ids = rank_ids(outer["execution"]["R_lite"])
    inner_ids = rank_ids(inner["execution"]["R_lite"])
    assert {ranks[rank]: given for rank, given in inner_ids.items()} == outer_ids
    if "scheduling" in outer:
        outer_topos = topo_by_rank(outer["scheduling"], ranks)
        inner_topos = topo_by_rank(inner["scheduling"], list(range(len(ranks))))
        assert {ranks[rank]: topo for rank, topo in inner_topos.items()} == outer_topos


@SETTINGS
@given(random.histories())
def test_the_pool_writes_the_R_that_makes_it_again(history):
    pool = Pool(history.R, locality=history.locality, policy=history.policy, mix=history.mix)
    written = pool.to_dict()
    assert ResourceSet.problems(written) == []
    assert json.loads(pool.encode()) == written
    again = ReferencePool(written)
    for rank, node in ReferencePool(history.R).nodes.items():
        assert again.nodes[rank].root.ids == node.root.ids
        assert again.nodes[rank].host == node.host
        assert again.nodes[rank].properties == node.properties
        assert again.key_topo(rank) == node.topo or node.topo is None
    assert {
        rank: ids_of(e["children"])
        for e in written["execution"]["R_lite"]
        for rank in ids(e["rank"])
    } == free_ids(pool)
