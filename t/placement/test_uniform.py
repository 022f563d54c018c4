"""As many slots fit as there are ways for, where each takes domains of one locality.

Held to a search of all ways to deal the slots out, on trees of up to 24 domains and more.
"""

from __future__ import annotations

import random
from itertools import combinations_with_replacement
from typing import Any, Iterator

import pytest

from depth import examples
from placement.exhaustive import MOST_CORES, Exhaustive, Left
from placement.reference import Domain, Ids
from placement.strategies import jobspec
from placement.wanted import Need, Part
from treepool import Pool, parse_shape
from treepool.errors import TooComplex
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import NodeType
from treepool.placement.on_node import fit
from treepool.placement.request import need
from treepool.rfc import idset
from treepool.rfc.count import Count

#: In how many tests the random cases are, so that they run side by side.
CHUNKS = 4

#: The most slots that are asked for.
MOST = 4


# ---- Every way to deal the slots out ----


class Dealt:
    """Whether so many slots fit: for each domain in turn, how many slots take it is tried.

    Slots are alike but for the group that their domains are in (``local``), for how many domains
    they still need and whether they lack a core, so only how many of each kind take a domain makes
    a difference.
    """

    def __init__(self, root: Domain, free: Ids, slot: Need, local: bool) -> None:
        (self.part,) = slot.parts
        self.slot = slot
        self.local = local
        self.tree = Exhaustive(root, free, local)
        self.domains = self.tree.options(0, self.part, self.tree.start)
        self.known: dict[Any, bool] = {}

    def most(self) -> int:
        """How many slots fit, up to MOST."""
        return next((n for n in range(MOST) if not self.fits(n + 1)), MOST)

    def fits(self, number: int) -> bool:
        k = self.part.count.minimum
        return any(
            self.dealt(0, tuple((g, k, self.slot.a_core) for g in groups), self.tree.start)
            for groups in combinations_with_replacement(self.groups(), number)
        )

    def groups(self) -> list[int]:
        """The domains in which all domains of a slot may be."""
        k = self.part.count.minimum
        if not self.local or k == 1:
            return [0]
        tree = self.tree
        able = [
            i
            for i, d in enumerate(tree.domains)
            if d.name == self.part.name and tree.able(i, self.part)
        ]

        def could(i: int) -> bool:
            inside = tree.inside[i] & {*able}
            cored = not self.part.a_core or any(tree.domains[j].ids.cores for j in inside)
            return cored and len(inside) >= k

        return [i for i in range(len(tree.domains)) if tree.is_smallest(i, could)]

    def dealt(self, position: int, slots: tuple[tuple[int, int, bool], ...], left: Left) -> bool:
        """Whether *slots*, each with its group, the domains it still needs and whether one of them
        must have a core, can be met from the domains from *position* on."""
        if position == len(self.domains):
            return not any(k or lacks for _, k, lacks in slots) and self.beside(len(slots), left)
        key = position, slots, left
        if key not in self.known:
            place = self.domains[position]
            self.known[key] = any(
                self.dealt(position + 1, following, remaining)
                for taken, following in self.takers(place, slots)
                for remaining in self.given(place, taken, left)
            )
        return self.known[key]

    def takers(self, place: int, slots: Any) -> Iterator[tuple[int, Any]]:
        """How many of *slots* may take the domain at *place*, and the slots after that."""
        cored = bool(self.tree.domains[place].ids.cores)
        kinds = sorted({s for s in slots if s[1] and place in self.tree.inside[s[0]]})

        def chosen(kinds: Any) -> Iterator[dict[Any, int]]:
            if not kinds:
                yield {}
                return
            for number in range(slots.count(kinds[0]) + 1):
                for others in chosen(kinds[1:]):
                    yield {kinds[0]: number, **others}

        for numbers in chosen(kinds):
            after = list(slots)
            for kind, number in numbers.items():
                for _ in range(number):
                    after.remove(kind)
                    after.append((kind[0], kind[1] - 1, kind[2] and not cored))
            yield sum(numbers.values()), tuple(sorted(after))

    def given(self, place: int, times: int, left: Left) -> Iterator[Left]:
        """What is left after the domain at *place* gave so many times, in each way to do so."""
        if not times:
            yield left
        elif self.part.whole:
            remaining = self.tree.without(left, place) if times == 1 else None
            if remaining:
                yield remaining
        else:
            each = self.part.need
            for points in combinations_with_replacement(self.tree.hosts(place, each), times):
                remaining = left
                for point in points:
                    amount = each.cores, each.gpus
                    remaining = remaining and self.tree.less(remaining, point, amount)
                if remaining:
                    yield remaining

    def beside(self, number: int, left: Left) -> bool:
        """Whether so many of the amounts beside the domains can be had."""
        if not (self.slot.cores or self.slot.gpus):
            return True
        # Hosts do not overlap.
        amount = self.slot.cores, self.slot.gpus
        found = 0
        for host in self.tree.hosts(0, self.slot):
            remaining = self.tree.less(left, host, amount)
            while remaining:
                found, left = found + 1, remaining
                remaining = self.tree.less(left, host, amount)
        return found >= number


# ---- Random trees and needs ----


def random_tree(rng: random.Random) -> tuple[Any, int, int]:
    """A topo of up to some 24 domains, and how many cores and GPUs it has."""
    numbers = [0, 0]
    coreless = rng.choice([0, 0, 0.3])

    def some(kind: int, least: int, most: int) -> str:
        number = rng.randint(least, most)
        numbers[kind] += number
        return idset.encode_ids(range(numbers[kind] - number, numbers[kind]))

    def domain(names: list[str]) -> Any:
        topo: dict[str, Any] = {}
        if names:
            inner = names[1:] if rng.random() < 0.8 else names[2:]
            topo[names[0]] = [domain(inner) for _ in range(rng.choice([1, 2, 2, 3]))]
            if rng.random() < 0.8:
                return topo
        if rng.random() < coreless:
            cores, gpus = "", some(1, 1, 2)
        else:
            cores, gpus = some(0, 1, rng.choice([2, 4, 5])), some(1, 0, rng.choice([0, 0, 1, 2]))
        if not names or rng.random() < 0.5:  # otherwise they are of no domain that is listed
            topo.update({"cores": cores} if cores else {})
            topo.update({"gpus": gpus} if gpus else {})
        return topo

    names = rng.choice([["socket", "numa"], ["socket", "numa", "l3"], ["numa", "l3"]])
    topo = {names[0]: [domain(names[1:]) for _ in range(rng.choice([2, 2, 3, 4]))]}
    if numbers[0] > MOST_CORES:
        return random_tree(rng)
    return listed(topo)[0], *numbers


def searched(root: Domain, slot: Need, locality: str) -> bool:
    """Whether *slot* needs an amount beside domains: whole ones of different sizes, or all local.

    Which domains leave enough for the other amounts is then no matter of numbers alone.
    """
    (part,) = slot.parts
    sizes = {(len(d.ids.cores), len(d.gpus)) for d in root.walk() if d.name == part.name}
    uneven = part.whole and len(sizes) > 1
    return bool(slot.cores or slot.gpus) and (uneven or locality == "required")


def listed(topo: Any) -> tuple[Any, set[int], set[int]]:
    """*topo* with all ids that are in a domain listed by it, as RFC 49 wants; and these."""
    cores = {*idset.iterate(idset.decode(topo.get("cores", "")))}
    gpus = {*idset.iterate(idset.decode(topo.get("gpus", "")))}
    made: dict[str, Any] = {}
    for name, items in topo.items():
        if name not in ("cores", "gpus"):
            made[name] = []
            for item in items:
                inner = listed(item)
                made[name].append(inner[0])
                cores |= inner[1]
                gpus |= inner[2]
    if cores:
        made["cores"] = idset.encode_ids(sorted(cores))
    if gpus:
        made["gpus"] = idset.encode_ids(sorted(gpus))
    return made, cores, gpus


def random_slot(rng: random.Random, names: list[str]) -> Need:
    """k domains of one of *names* each, whole or with an amount in each, perhaps one beside."""
    amounts = [(1, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (5, 0)]
    whole = rng.random() < 0.35
    beside = rng.choice(amounts) if rng.random() < 0.4 else (0, 0)
    each = rng.choice([(0, 0), (2, 0), (0, 1)] if whole else amounts)
    part = Part(
        rng.choice(names),
        one(rng.choice([1, 1, 2, 2, 3, 4])),
        whole,
        Need(*each),
        whole and beside == (0, 0),
    )
    return Need(*beside, parts=(part,), a_core=part.a_core)


def one(number: int) -> Count:
    return Count(number, number)


def ask(slot: Need, most: int, locality: str) -> need.Ask:
    """The engine's ask for up to *most* such slots."""
    (part,) = slot.parts
    inner = need.Need(part.need.cores, part.need.gpus)
    asked = need.Part(part.name, part.count, part.whole, inner, part.a_core)
    each = need.Need(slot.cores, slot.gpus, parts=(asked,), with_core=slot.a_core)
    group = need.Part(need.SLOT, Count(1, most), False, each)
    return need.ask_of(group, True, False, locality)


def state_of(node: NodeType, free: Ids) -> NodeState:
    return NodeState(node, idset.from_ids(free.cores), idset.from_ids(free.gpus))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_many_slots_fit_as_there_are_ways_for(chunk: int) -> None:
    rng = random.Random(f"layout {chunk}")
    largest = 0
    for _ in range(examples(500) // CHUNKS):
        topo, ncores, ngpus = random_tree(rng)
        everything = Ids(frozenset(range(ncores)), frozenset(range(ngpus)))
        node = compile_topo(topo, idset.from_ids(everything.cores), idset.from_ids(everything.gpus))
        root = Domain("node", topo, everything)
        largest = max(largest, len(list(root.walk())))
        for _ in range(4):
            busy = rng.choice([0, 0.1, 0.3])
            free = Ids(*(frozenset(i for i in ids if rng.random() >= busy) for ids in everything))
            slot = random_slot(rng, sorted(node.named))
            for locality in ("preferred", "required"):
                found = fit.compute(state_of(node, free), ask(slot, MOST, locality))
                number = len(found.steps) if found else 0
                expected = Dealt(root, free, slot, locality == "required").most()
                case = f"{topo}\n{free}\n{slot}\n{locality}"
                if found is not None and found.gave_up:
                    assert searched(root, slot, locality), case
                    assert number <= expected, case
                else:
                    assert number == expected, case
    assert largest >= 18


def fragmented(rng: random.Random, chance: float) -> NodeState:
    """A node of 24 L3 domains of eight cores, of which each core is free by *chance*."""
    topo = {"l3": [{"cores": f"{8 * i}-{8 * i + 7}"} for i in range(24)]}
    node = compile_topo(topo, (1 << 192) - 1, 0)
    return NodeState(node, idset.from_ids(i for i in range(192) if rng.random() < chance), 0)


@pytest.mark.parametrize("locality", ["preferred", "required"])
@pytest.mark.parametrize("chance", [0.35, 0.45, 0.5, 0.6, 0.75])
def test_on_a_fragmented_node_of_24_domains_no_search_gives_up(
    chance: float, locality: str
) -> None:
    """slot=3/l3=6/core=4: each slot takes six domains, and a domain has room for two at most."""
    rng = random.Random(f"fragmented {chance}")
    slot = Need(parts=(Part("l3", one(6), False, Need(4)),))
    for _ in range(5):
        state = fragmented(rng, chance)
        room = [bin(state.cores >> 8 * i & 255).count("1") // 4 for i in range(24)]
        fitting = [n for n in (1, 2, 3) if sum(min(n, copies) for copies in room) >= 6 * n]
        found = fit.compute(state, ask(slot, 3, locality))
        assert len(found.steps if found else ()) == max(fitting, default=0)
        assert found is None or not found.gave_up
        for number, step in enumerate(found.steps if found else (), 1):
            assert bin(step.cores).count("1") == 24 * number
            assert step.cores & ~state.cores == 0


#: L3 domains of one to five cores, and six cores in none.
UNEVEN = {
    "socket": [
        {"numa": [{"l3": [{"cores": "0-1"}]}, {"l3": [{"cores": c} for c in ("2", "3-7", "8")]}]},
        {
            "numa": [
                {"l3": [{"cores": "11"}, {"cores": "12-13", "gpus": "0-1"}]},
                {"l3": [{"cores": "18"}]},
                {"l3": [{"cores": "19-20", "gpus": "3-4"}, {"cores": "21-22"}]},
            ]
        },
        {
            "numa": [
                {"l3": [{"cores": "23-25"}, {"cores": "26-27"}, {"cores": "28-31"}]},
                {"l3": [{"cores": "32-33"}, {"cores": "34-35"}]},
                {"l3": [{"cores": "36"}, {"cores": "37"}]},
            ]
        },
    ]
}


def test_whole_domains_of_different_sizes_with_an_amount_beside_may_be_too_complex() -> None:
    """The twelve smallest domains have 18 of the 38 cores, which leaves five for each of four."""
    entry = {"rank": "0", "children": {"core": "0-37", "gpu": "0-4"}}
    key = {"writer": "TreePool", "children": [{"ranks": "0", "topo": UNEVEN}]}
    R = {"version": 1, "execution": {"R_lite": [entry], "nodelist": ["n0"]}, "scheduling": key}
    pool = Pool(R)
    request = pool.parse_resource_request(jobspec(parse_shape("slot=4/[l3=3{x};core=5]")))
    with pytest.raises(TooComplex):  # and not another InfeasibleRequest
        pool.check_feasibility(request)
