"""The fabric of a key: which trees above the nodes are valid, and how their ranks follow an R."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from treepool.errors import InvalidKey
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey

CELLS = {
    "cell": [
        {
            "name": "x1000",
            "switch": [
                {"name": "x1000c0r1", "ranks": "0-15"},
                {"name": "x1000c0r3", "ranks": "16-31"},
            ],
        },
        {"name": "x1001", "switch": [{"ranks": "32-47"}, {"ranks": "48-63"}]},
    ]
}


def key(fabric: object, *children: dict) -> dict:
    """A key with this fabric."""
    return {"writer": "TreePool", "children": list(children), "fabric": fabric}


def problems(fabric: object) -> list[str]:
    """The problems of a key with this fabric, their pointers relative to the fabric."""
    lines = [str(p) for p in SchedulingKey.problems(key(fabric))]
    assert all(line.startswith("/fabric") for line in lines)
    if lines:
        with pytest.raises(InvalidKey):
            SchedulingKey.read(key(fabric))
    return [line[len("/fabric") :] for line in lines]


def fabric_of(found: SchedulingKey) -> object:
    return found.to_dict().get("fabric")


def test_the_example_of_design_is_read_and_written_as_it_is():
    assert problems(CELLS) == []
    read = SchedulingKey.read(json.dumps(key(CELLS)))
    assert read.to_dict() == key(CELLS)
    assert read.fabric.localities() == {"cell", "switch"}
    assert read.mask == (1 << 64) - 1


def test_ranks_of_a_domain_with_domains_inside_are_their_union_or_more():
    fabric = {"cell": [{"ranks": "0-9", "switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]}]}
    assert SchedulingKey.read(key(fabric)).to_dict()["fabric"] == fabric
    fabric["cell"][0]["ranks"] = "0-7"
    assert "ranks" not in SchedulingKey.read(key(fabric)).to_dict()["fabric"]["cell"][0]
    fabric["cell"][0]["ranks"] = "0-5"
    assert problems(fabric) == ["/cell/0/ranks: lacks 6-7, which domains inside have"]


def test_unknown_keys_are_kept():
    fabric = {"vendor": "x", "switch": [{"ranks": "0", "port": [1, 2], "speed": 200}]}
    assert problems(fabric) == []
    assert SchedulingKey.read(key(fabric)).trim(1).to_dict()["fabric"] == fabric


@pytest.mark.parametrize(
    ("fabric", "problem"),
    [
        ([], ": must be an object, not an array"),
        (
            {"switch": [{"ranks": "0-"}]},
            "/switch/0/ranks: '0-' is not an id or range in idset '0-'",
        ),
        ({"switch": [{"ranks": ""}]}, "/switch/0/ranks: must have at least one id"),
        ({"switch": [{}]}, "/switch/0: has neither ranks nor domains inside"),
        ({"switch": [{"ranks": "0"}, 7]}, "/switch/1: must be an object, not 7"),
        ({"switch": [{"ranks": "0", "name": ""}]}, "/switch/0/name: must not be empty"),
        (
            {"switch": [{"ranks": "0", "name": "x" * 129}]},
            "/switch/0/name: is longer than 128 characters",
        ),
        (
            {"switch": [{"ranks": "0-3"}, {"ranks": "2-5"}]},
            "/switch/1: ranks 2-3 also in the sibling at /fabric/switch/0",
        ),
        (
            {"rack": [{"ranks": "0-3"}], "switch": [{"ranks": "9"}, {"ranks": "3"}]},
            "/switch/1: ranks 3 also in the sibling at /fabric/rack/0",
        ),
        ({"node": [{"ranks": "0"}]}, "/node: 'node' cannot be the name of a locality"),
        ({"name": [{"ranks": "0"}]}, "/name: must be a string, not an array"),
        (
            {"switch": [{"switch": [{"ranks": "0"}]}]},
            "/switch/0/switch: locality 'switch' is inside one of the same name",
        ),
    ],
)
def test_problems_have_their_pointers(fabric, problem):
    assert problem in problems(fabric)


def test_nesting_of_localities_is_bounded():
    fabric: dict = {"ranks": "0"}
    for level in range(17):
        fabric = {f"l{level}": [fabric]}
    (line,) = problems(fabric)
    assert line.endswith("localities are nested deeper than 16 levels")


def test_a_locality_is_in_the_topos_or_in_the_fabric_but_not_in_both():
    entry = {"ranks": "0", "topo": {"socket": [{"cores": "0"}]}}
    document = key({"socket": [{"ranks": "0"}]}, entry)
    (problem,) = SchedulingKey.problems(document)
    assert str(problem) == ("/fabric: locality 'socket' is in the topo of entry 0 of children, too")


def test_a_fabric_is_cut_with_names_kept_and_empty_domains_dropped():
    cut = SchedulingKey.read(key(CELLS)).trim(0b110 << 15)
    assert fabric_of(cut) == {
        "cell": [{"name": "x1000", "switch": [{"name": "x1000c0r3", "ranks": "16-17"}]}]
    }
    assert fabric_of(cut.renumber()) == {
        "cell": [{"name": "x1000", "switch": [{"name": "x1000c0r3", "ranks": "0-1"}]}]
    }
    assert fabric_of(SchedulingKey.read(key(CELLS)).trim(1 << 70)) is None


def test_a_fabric_of_more_ranks_is_cut_and_one_of_equally_many_other_ranks_is_mapped_by_position():
    read = SchedulingKey.read(key({"switch": [{"ranks": "4-5"}, {"ranks": "6-7"}]}))
    assert fabric_of(read.map_to(0b1111, True)) == {"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}
    assert fabric_of(read.map_to(0b1110000)) == {"switch": [{"ranks": "4-5"}, {"ranks": "6"}]}
    assert fabric_of(read.map_to(0b111111111)) == fabric_of(read)
    with pytest.raises(InvalidKey, match=r"^/fabric: has ranks 4-7, none of which"):
        read.map_to(0b111)


def test_ranks_that_stand_alone_do_not_prevent_mapping_by_position():
    """A job has ranks 2-5, and only rank 3 is in a switch. Its instance calls it rank 1."""
    entry = {"ranks": "2-5", "topo": {"cores": "0"}}
    read = SchedulingKey.read(key({"switch": [{"ranks": "3"}]}, entry))
    assert fabric_of(read.map_to(0b1111, True)) == {"switch": [{"ranks": "1"}]}


def R_with(scheduling: dict, ranks: str) -> dict:
    size = idset.size(idset.decode(ranks))
    execution = {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": [f"n[0-{size - 1}]"],
    }
    return {"version": 1, "execution": execution, "scheduling": scheduling}


def test_a_fabric_of_other_ranks_is_a_problem_of_the_key():
    found = ResourceSet.problems(R_with(key({"switch": [{"ranks": "8-9"}]}), "0-2"))
    assert [p.pointer for p in found] == ["/scheduling/fabric"]


# -- against sets


@st.composite
def trees(draw, ranks=24, depth=3):
    """A fabric whose domains have some of the ranks below *ranks*."""

    def domain(those, depth):
        found = {}
        if draw(st.booleans()):
            found["name"] = draw(st.text("ab", min_size=1, max_size=3))
        inside = []
        if depth and those:
            cuts = sorted(draw(st.lists(st.integers(0, len(those)), max_size=3)))
            edges = [0, *cuts]
            inside = [those[a:b] for a, b in zip(edges, edges[1:]) if a < b]
        for i, some in enumerate(inside):
            name = f"{draw(st.sampled_from('xy'))}{depth}"
            found.setdefault(name, []).append(domain(some, depth - 1))
            if i == 0 and draw(st.booleans()):
                draw(st.randoms()).shuffle(found[name])
        covered = sum(map(len, inside))
        if covered < len(those) or not inside:
            found["ranks"] = idset.encode_ids(sorted(those))
        return found

    those = draw(st.permutations(range(ranks)))
    return domain(list(those)[: draw(st.integers(1, ranks))], depth)


def paths(domain, path=()):
    """The names and localities of the domains around each rank, by rank."""
    found = {}
    if "ranks" in domain:
        found = dict.fromkeys(idset.iterate(idset.decode(domain["ranks"])), path)
    for name, items in domain.items():
        if isinstance(items, list):
            for item in items:
                found.update(paths(item, (*path, (name, item.get("name")))))
    return found


@settings(max_examples=examples(200))
@given(trees(), st.sets(st.integers(0, 24), min_size=1))
def test_cutting_and_renumbering_keep_the_domains_around_each_rank(tree, kept):
    assert problems(copy.deepcopy(tree)) == []
    read = SchedulingKey.read(key(tree))
    around = paths(tree)
    assert paths(read.to_dict()["fabric"]) == around
    cut = read.trim(idset.from_ids(kept))
    left = {rank: path for rank, path in around.items() if rank in kept}
    assert paths(cut.to_dict().get("fabric", {})) == left
    new = paths(cut.renumber(idset.from_ids(kept | set(left))).to_dict().get("fabric", {}))
    order = sorted(kept | set(left))
    assert new == {order.index(rank): path for rank, path in left.items()}
