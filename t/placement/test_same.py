"""Jobs on nodes that are alike, against the obvious way: try every member of the family on a copy.

The reference goes by what JSON says, with sets, and asks a pool only for requests without ``same``.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from made import alloc
from placement.strategies import some, subsets, without_key
from treepool import parse_shape
from treepool.errors import InfeasibleRequest, InsufficientResources
from treepool.placement.pool import Pool
from treepool.placement.why.decision import why_insufficient
from treepool.rfc import idset
from treepool.rfc.jobspec import from_resources


def cluster(nodes, **properties):
    """The R of flat nodes, one for each (cores, GPUs); properties are ids by name."""
    R = without_key({rank: [[*range(n)] for n in kinds] for rank, kinds in enumerate(nodes)})
    having = {name: idset.encode_ids(ids) for name, ids in properties.items() if ids}
    R["execution"]["properties"] = having
    return R


def ask(pool, jobid, shape, constraints=None, **options):
    """What a job gets: its R_lite, or the kind of no."""
    try:
        allocation = alloc(pool, jobid, shape, constraints, **options)
    except (InfeasibleRequest, InsufficientResources) as e:
        assert str(e).isprintable()
        return type(e)
    return allocation.to_dict()["execution"]["R_lite"]


def slots_of(pool, shape, constraints=None, **options):
    """How many slots a job gets, 0 if none."""
    try:
        return alloc(pool, 1 << 30, shape, constraints, **options).nslots
    except (InfeasibleRequest, InsufficientResources):
        return 0


def ranks_of(R_lite):
    return {rank for entry in R_lite for rank in idset.iterate(idset.decode(entry["rank"]))}


# -- the reference


def free_on(pool, R):
    """(cores, GPUs) free on each rank, as the Rs of the pool say."""
    free = {}
    for entry in R["execution"]["R_lite"]:
        for rank in ranks_of([entry]):
            free[rank] = [idset.size(idset.decode(entry["children"].get(n, ""))) for n in KINDS]
    for entry in pool.copy_allocated().entries:
        for rank in idset.iterate(entry.ranks):
            free[rank][0] -= idset.size(entry.cores)
            free[rank][1] -= idset.size(entry.gpus)
    return free


KINDS = ("core", "gpu")


def members(R, family):
    """The ranks of each member of *family*, by its name."""
    properties = R["execution"]["properties"]
    found = {n: idset.decode(ids) for n, ids in sorted(properties.items())}
    return {n: set(idset.iterate(m)) for n, m in found.items() if n.split(":")[0:-1] == [family]}


def satisfying(R, constraints):
    """The ranks that *constraints*, of the forms below, leave."""
    everything = ranks_of(R["execution"]["R_lite"])
    if constraints is None:
        return everything
    if "ranks" in constraints:
        return everything & set(idset.iterate(idset.decode(constraints["ranks"][0])))
    (name,) = constraints["properties"]
    text = R["execution"]["properties"].get(name, "")
    return set(idset.iterate(idset.decode(text)))


def slowly(pool, R, jobid, shape, constraints, family, required):
    """What the job is to get, and the member it is to sit in (None: any nodes)."""
    free, up = free_on(pool, R), set(idset.iterate(pool.up))
    among = satisfying(R, constraints) & up
    found = members(R, family)

    def fullness(name):
        mine = [free[rank] for rank in found[name] & among]
        return sum(f[0] for f in mine), sum(f[1] for f in mine), name

    tries = [(n, within(constraints, n)) for n in sorted(found, key=fullness)]
    if not required:
        tries.append((None, constraints))
    served = []
    for place, (name, narrowed) in enumerate(tries):
        got = ask(pool.copy(), jobid, shape, narrowed)
        if isinstance(got, list) and (name is not None or not served):
            slots = slots_of(pool.copy(), shape, narrowed)
            near = slots_of(pool.copy(), shape, narrowed, locality="required")
            units = len(ranks_of(got)) if "node" in shape else slots
            served.append((-units, -slots, near != slots, place, got, name))
    if served:
        # Counts before locality, locality before best fit.
        return min(served)[4:]
    could = [isinstance(ask(Pool(R), jobid, shape, narrowed), list) for _, narrowed in tries]
    return (InsufficientResources if any(could) else InfeasibleRequest), None


def within(constraints, name):
    mine = {"properties": [name]}
    return mine if constraints is None else {"and": [mine, constraints]}


@st.composite
def histories(draw):
    """An R, and steps on it."""
    size = draw(st.integers(1, 7))
    kind = st.tuples(some(2, 1, 3, 4), some(0, 0, 1, 2))
    nodes = draw(st.lists(kind, min_size=size, max_size=size))
    names = ("driver:1", "driver:2", "driver:30", "driver", "drivers:1", "+driver:9", "big")
    R = cluster(nodes, **{name: draw(subsets(range(size))) for name in names})
    count = some("1", "2", "3", "1-3", "2+")
    forms = ("slot={}/core", "slot={}/core=2", "node={}/slot/core", "node={}/slot/[core;gpu]")
    forms = (*forms, "node={}/slot=2/core", "slot={}/node", "slot=2/node={}/core", "slot={}/gpu")
    asked = st.builds(lambda form, n: form.format(n), st.sampled_from(forms), count)
    constraint = some(None, None, {"properties": ["big"]}, {"ranks": ["1-4"]}, {"ranks": ["6"]})
    same = some("driver", "driver", "driver:require", "driver:prefer", "firmware", "+driver")
    step = st.one_of(
        st.tuples(st.just("ask"), asked, constraint, same),
        st.tuples(st.just("ask"), asked, constraint, same),
        st.tuples(st.just("free"), st.integers(0, 5)),
        st.tuples(some("down", "up"), st.integers(0, size - 1).map(str)),
    )
    return R, draw(st.lists(step, min_size=1, max_size=10))


@settings(max_examples=examples(200), deadline=None)
@given(histories())
def test_a_job_gets_what_trying_every_member_on_a_copy_gives(history):
    R, steps = history
    pool = Pool(R)
    held = []
    for jobid, (name, *what) in enumerate(steps, 1):
        if name == "free":
            if held:
                pool.free(held.pop(what[0] % len(held)), final=True)
        elif name != "ask":
            {"down": pool.mark_down, "up": pool.mark_up}[name](*what)
        else:
            shape, constraints, same = what
            family, _, mode = same.partition(":")
            required = mode != "prefer"
            before = pool.copy_allocated()
            expected, member = slowly(pool, R, jobid, shape, constraints, family, required)
            got = ask(pool, jobid, shape, constraints, same=same)
            assert got == expected
            if isinstance(got, list):
                held.append(jobid)
                ranks = ranks_of(got)
                alike = [n for n, having in members(R, family).items() if ranks <= having]
                assert member in alike or (member is None and not required)
                assert ranks <= satisfying(R, constraints)
                again = pool.copy()
                again.free(jobid, final=True)
                assert again.copy_allocated() == before
                assert ask(again, jobid, shape, constraints, same=same) == got
            else:
                assert pool.copy_allocated() == before
    for jobid in held:
        pool.free(jobid, final=True)
    assert not pool.copy_allocated().entries


# -- rules that deserve a case of their own

FOUR = [(4, 1)] * 4
DRIVERS = {"driver:a": [2, 3], "driver:b": [0, 1]}


def test_members_go_with_their_nodes():
    pool = Pool(cluster(FOUR, **DRIVERS))
    pool.remove_ranks("2")
    assert ranks_of(ask(pool, 1, "node=2/slot/core", same="driver")) == {0, 1}
    pool.remove_ranks("0-1")
    assert ask(pool, 2, "node=2/slot/core", same="driver") is InfeasibleRequest


def test_a_sub_instance_knows_the_members_of_its_nodes():
    pool = Pool(cluster(FOUR, **DRIVERS))
    spec = from_resources(parse_shape("node=3/slot/core"))
    inner = Pool(pool.alloc(1, pool.parse_resource_request(spec)).to_dict())
    assert ranks_of(ask(inner, 1, "node=2/slot/core", same="driver")) == {0, 1}
    assert ask(inner, 2, "node=3/slot/core", same="driver") is InfeasibleRequest


def test_a_job_whose_members_have_no_node_with_room_is_told_without_a_number():
    pool = Pool(cluster([(4, 0)] * 3, **{"d:a": {0}, "d:b": {1}}))
    pool.mark_down("0-1")
    spec = from_resources(parse_shape("slot/node{x}"), options={"same": "d"})
    assert why_insufficient(pool.situation, pool.parse_resource_request(spec)) is None
