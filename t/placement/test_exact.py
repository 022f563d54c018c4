"""The matcher is exact: when it says no, no assignment exists.

Small random nodes in random states and random requests, against a brute force that tries every
domain for every part and every set of ids for every amount.
"""

import itertools
import random

import pytest

from depth import examples
from treepool.placement import effort
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node import fit
from treepool.placement.on_node.search import Search
from treepool.placement.request.need import SLOT, Need, Part, ask_of
from treepool.rfc import idset
from treepool.rfc.count import Count

#: Random cases in all, over CHUNKS tests.
CASES = examples(12_000)
CHUNKS = 12

#: Needs that the numbers of free cores and GPUs meet or do not, and others.
NEEDS = (
    Need(), Need(1), Need(2), Need(1, 1), Need(3, 2), Need(gpus=1), Need(1, memory=1 << 31),
    Need(1, 1, gpu_memory=1), Need(1, 1, fair_share=True),
    Need(parts=(Part("socket", Count(1, 1), True, Need()),)),
)  # fmt: skip


def one(value):
    return Count(value, value)


# -- random small nodes, states and needs


def random_topo(rng, names, cores, gpus):
    """A topo over the given ids: a domain of each of *names* may stand inside the one before."""
    topo = {}
    if names and (cores or gpus) and rng.random() < 0.9:
        pieces = rng.randint(1, 3)
        split = [([], []) for _ in range(pieces + 1)]  # the last holds what stays outside
        outside = rng.random() < 0.25
        for i, ids in enumerate((cores, gpus)):
            for n in ids:
                split[rng.randrange(pieces + outside)][i].append(n)
        inner = names[1:] if rng.random() < 0.8 else names[2:]
        children = [random_topo(rng, inner, *piece) for piece in split[:pieces]]
        topo[names[0]] = children
    if (cores and rng.random() < 0.7) or (cores and len(topo) == 0):
        topo["cores"] = idset.encode(idset.from_ids(cores))
    if (gpus and rng.random() < 0.7) or (gpus and set(topo) <= {"cores"}):
        topo["gpus"] = idset.encode(idset.from_ids(gpus))
    if rng.random() < 0.3:
        topo["memory"] = rng.randint(1, 4)
    return topo


def random_node(rng):
    cores, gpus = list(range(rng.randint(1, 6))), list(range(rng.randint(0, 3)))
    rng.shuffle(gpus)
    names = rng.choice([["socket"], ["socket", "numa"], ["a", "b", "c"]])
    topo = random_topo(rng, names, cores, gpus)
    owned = [
        idset.from_ids(n for n in ids if rng.random() < keep)
        for ids, keep in ((cores, rng.choice([1, 1, 0.8])), (gpus, rng.choice([1, 1, 0.8])))
    ]
    return compile_topo(topo, *owned)


def random_state(rng, node_type):
    busy = rng.choice([0, 0, 0.2, 0.5])
    free = [
        idset.from_ids(n for n in idset.iterate(ids) if rng.random() >= busy)
        for ids in (node_type.root.cores, node_type.root.gpus)
    ]
    return NodeState(node_type, *free)


def random_need(rng, names, depth=0):
    """A need with up to two parts, each of a locality in *names*."""
    parts = []
    if names and rng.random() < (0.7, 0.35, 0.1)[depth]:
        for _ in range(rng.choice([1, 1, 2])):
            whole = rng.random() < 0.35
            inner = random_need(rng, names, depth + 1) if depth < 2 else Need(cores=1)
            if whole and rng.random() < 0.6:
                inner = Need()
            parts.append(Part(rng.choice(names), one(rng.choice([1, 1, 2, 3])), whole, inner))
    cores, gpus = rng.choice([(0, 0), (1, 0), (2, 0), (1, 1), (0, 1), (3, 1)])
    if not parts and not (cores or gpus):
        cores = 1
    memory = rng.choice([0, 0, 0, 2 << 30])
    return Need(cores=cores, gpus=gpus, memory=memory if cores or gpus else 0, parts=tuple(parts))


def random_case(rng):
    node_type = random_node(rng)
    names = sorted(node_type.named)
    need = random_need(rng, names)
    group = Part(SLOT, one(rng.choice([1, 1, 2, 3])), False, need)
    if names and rng.random() < 0.2:
        whole = rng.random() < 0.3
        group = Part(rng.choice(names), one(rng.choice([1, 2])), whole, Need(parts=(group,)))
    return random_state(rng, node_type), group


# -- the brute force, on sets of ids


def ids(mask):
    return frozenset(idset.iterate(mask))


def possible(node_type, group, cores, gpus, local):
    """Whether *group* can be met out of *cores* and *gpus*, by trying everything."""
    return any(ways(node_type, part_tasks(node_type.root, group), cores, gpus, local))


def part_tasks(scope, part):
    if part.name == SLOT:
        return [task for _ in range(part.count.minimum) for task in need_tasks(scope, part.need)]
    return [("choose", scope, part)]


def need_tasks(scope, need):
    tasks = [task for part in need.parts for task in part_tasks(scope, part)]
    return tasks + [("amount", scope, need)] if need.cores or need.gpus else tasks


def ways(node_type, tasks, cores, gpus, local):
    """Yield True for each way to do all *tasks*."""
    if not tasks:
        yield True
        return
    (kind, scope, what), rest = tasks[0], tasks[1:]
    if kind == "amount":
        for host in amount_hosts(node_type, scope, what, local):
            here = sorted(ids(host.cores) & cores), sorted(ids(host.gpus) & gpus)
            for c in itertools.combinations(here[0], what.cores):
                for g in itertools.combinations(here[1], what.gpus):
                    yield from ways(node_type, rest, cores - set(c), gpus - set(g), local)
        return
    options = [d for d in scope.walk() if d is not scope and d.name == what.name]
    for chosen in itertools.combinations(options, what.count.minimum):
        if local and has_no_slots(what) and not close(node_type, what, chosen):
            continue
        if what.whole:
            if any(
                not d.whole
                or not ids(d.cores) <= cores
                or not ids(d.gpus) <= gpus
                or not idle_meets(node_type, d, what.need)
                for d in chosen
            ):
                continue
            left = cores.difference(*(ids(d.cores) for d in chosen))
            left_gpus = gpus.difference(*(ids(d.gpus) for d in chosen))
            yield from ways(node_type, rest, left, left_gpus, local)
        else:
            inner = [task for d in chosen for task in need_tasks(d, what.need)]
            yield from ways(node_type, inner + rest, cores, gpus, local)


def has_no_slots(part):
    return all(p.name != SLOT and has_no_slots(p) for p in part.need.parts)


def idle_meets(node_type, domain, need):
    tasks = need_tasks(domain, need)
    return any(ways(node_type, tasks, ids(domain.cores), ids(domain.gpus), False))


def amount_hosts(node_type, scope, need, local):
    def could(d):
        enough = len(ids(d.cores)) >= need.cores and len(ids(d.gpus)) >= need.gpus
        return enough and d.memory >= need.memory

    if not local:
        return [scope] if could(scope) else []
    return [d for d in smallest(node_type, could) if d in [*scope.walk()]]


def smallest(node_type, could):
    """The domains that could, and are not divided into domains of a kind of which some could."""
    able = [d for d in node_type.root.walk() if could(d)]
    kinds = {d.name for d in able}
    return [d for d in able if not any(c.name in kinds for c in d.walk() if c is not d)]


def close(node_type, part, chosen):
    """Whether some domain of the smallest kind that could host the group holds all *chosen*."""

    def could(d):
        able = [
            b
            for b in d.walk()
            if b.name == part.name
            and (b.whole or not part.whole)
            and idle_meets(node_type, b, part.need)
        ]
        return len(able) >= part.count.minimum

    return any(set(chosen) <= set(d.walk()) for d in smallest(node_type, could))


def describe(state, group, locality):
    return (
        f"topo {state.type.topo}\nowned {state.type.root.cores:b} {state.type.root.gpus:b}\n"
        f"free {state.cores:b} {state.gpus:b}\n{locality}\n{group}"
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_the_matcher_finds_exists_and_what_it_does_not_find_does_not(chunk):
    rng = random.Random(f"exact {chunk}")
    for _ in range(CASES // CHUNKS):
        state, group = random_case(rng)
        cores, gpus = ids(state.cores), ids(state.gpus)
        for locality, local in (("preferred", False), ("required", True)):
            found = fit.compute(state, ask_of(group, False, False, locality))
            expected = possible(state.type, group, cores, gpus, local)
            if found is None and expected:
                # A job needs a core on each node, so a match that takes only GPUs is none.
                assert not needs_core(group), describe(state, group, locality)
            else:
                assert (found is not None) == expected, describe(state, group, locality)
            if found is not None:
                taken = ids(found.steps[0].cores), ids(found.steps[0].gpus)
                assert taken[0] <= cores and taken[1] <= gpus
                assert possible(state.type, group, *taken, local), describe(state, group, locality)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_where_numbers_decide_they_tell_how_many_units_there_are(chunk):
    rng, decided = random.Random(f"numbers {chunk}"), 0
    for _ in range(CASES // CHUNKS):
        cores, gpus = list(range(rng.randint(1, 9))), list(range(rng.randint(0, 4)))
        names = rng.choice([["socket"], ["socket", "numa"], ["socket", "mig-1g"]])
        node_type = compile_topo(
            random_topo(rng, names, cores, gpus), idset.from_ids(cores), idset.from_ids(gpus)
        )
        state = random_state(rng, node_type)
        count = Count(1, rng.choice([1, 2, 5, None]))
        need = rng.choice(NEEDS)
        ask = ask_of(
            Part(SLOT, count, False, need),
            rng.random() < 0.5,
            need == Need() or rng.random() < 0.1,
            rng.choice(["preferred", "required", "none"]),
        )
        decided += ask.by_numbers
        found = fit.compute(state, ask)
        assert fit.units_in(state, ask) == (len(found.steps) if found else 0), (state, ask)
    assert decided


def needs_core(part):
    need = part.need
    return need.cores > 0 or any(needs_core(p) for p in need.parts)


def test_a_search_is_given_up_after_a_bounded_number_of_choices():
    leaves = [{"cores": str(i)} for i in range(24)]
    node_type = compile_topo({"numa": leaves}, (1 << 24) - 1, 0)
    search = Search(node_type, (1 << 24) - 1, 0)
    need = Need(parts=tuple(Part("numa", one(3), False, Need(cores=1)) for _ in range(4)))
    assert search.place(node_type.root, need)
    assert search.effort.tried <= effort.PER_REQUEST
