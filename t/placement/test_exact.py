"""Where numbers decide how many units a node has, they decide as a search does; searches end."""

import random

from depth import examples
from treepool.placement import effort
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.on_node import fit
from treepool.placement.on_node.search import Search
from treepool.placement.request.need import SLOT, Need, Part, ask_of
from treepool.rfc import idset
from treepool.rfc.count import Count

#: Needs that the numbers of free cores and GPUs meet or do not, and others.
NEEDS = (
    Need(), Need(1), Need(2), Need(1, 1), Need(3, 2), Need(gpus=1), Need(1, memory=1 << 31),
    Need(1, 1, gpu_memory=1), Need(1, 1, fair_share=True),
    Need(parts=(Part("socket", Count(1, 1), True, Need()),)),
)  # fmt: skip


def one(value):
    return Count(value, value)


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


def random_state(rng, node_type):
    busy = rng.choice([0, 0, 0.2, 0.5])
    free = [
        idset.from_ids(n for n in idset.iterate(ids) if rng.random() >= busy)
        for ids in (node_type.root.cores, node_type.root.gpus)
    ]
    return NodeState(node_type, *free)


def test_where_numbers_decide_they_tell_how_many_units_there_are():
    rng, decided = random.Random("numbers"), 0
    for _ in range(examples(12_000)):
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


def test_a_search_is_given_up_after_a_bounded_number_of_choices():
    leaves = [{"cores": str(i)} for i in range(24)]
    node_type = compile_topo({"numa": leaves}, (1 << 24) - 1, 0)
    search = Search(node_type, (1 << 24) - 1, 0)
    need = Need(parts=tuple(Part("numa", one(3), False, Need(cores=1)) for _ in range(4)))
    assert search.place(node_type.root, need)
    assert search.effort.tried <= effort.PER_REQUEST
