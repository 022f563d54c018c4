"""RFC 49: which scheduling keys are valid, and how their ranks follow an R."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepool.errors import InvalidKey
from treepool.rfc import idset, topo
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import KeyEntry, SchedulingKey, is_treepool

DATA = Path(__file__).parent / "data"
A = json.loads((DATA / "rfc49-cluster-a.json").read_text())
B = json.loads((DATA / "rfc49-cluster-b.json").read_text())
FLAT = {"cores": "0-7"}


def key(*children: dict, **other: object) -> dict:
    """A key with these entries."""
    return {"writer": "TreePool", "children": list(children), **other}


def entry(ranks: str, node: object = FLAT) -> dict:
    """An entry of a key."""
    return {"ranks": ranks, "topo": node}


def problems(document: object) -> list[str]:
    """The problems of a key as lines; checks that ``read`` agrees with them."""
    lines = [str(p) for p in SchedulingKey.problems(document)]  # type: ignore[arg-type]
    if lines:
        with pytest.raises(InvalidKey) as raised:
            SchedulingKey.read(document)  # type: ignore[arg-type]
        assert str(raised.value) == lines[0]
    else:
        SchedulingKey.read(document)  # type: ignore[arg-type]
    return lines


def problems_of_topo(node: object) -> list[str]:
    """The problems of a key with this topo, their pointers relative to the topo."""
    at = "/children/0/topo"
    lines = problems(key(entry("0", node)))
    assert all(line.startswith(at) for line in lines)
    return [line[len(at) :] for line in lines]


@pytest.mark.parametrize(("cluster", "size"), [(A, 16), (B, 1152)], ids=["A", "B"])
def test_the_keys_of_rfc_49_are_valid_and_come_out_as_they_went_in(cluster, size):
    read = SchedulingKey.read(cluster)
    assert idset.size(read.mask) == size
    assert read.to_dict() == cluster
    assert SchedulingKey.read(json.dumps(cluster)) == read
    assert problems(cluster) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], ["must be an object, not an array"]),
        ({}, ["key 'writer' is missing"]),
        ({"writer": "fluxion"}, ["/writer: must be 'TreePool', not 'fluxion'"]),
        (key({"ranks": "0"}), ["/children/0: key 'topo' is missing"]),
        (key(entry("")), ["/children/0/ranks: must have at least one id"]),
        (
            key(entry("0-4"), entry("9"), entry("3-7")),
            ["/children/2/ranks: ranks 3-4 are in an earlier entry too"],
        ),
        ('{"a" 1}', ["scheduling key: line 1 column 6: not JSON: Expecting ':' delimiter"]),
        ('{"writer": 1, "writer": 2}', ["scheduling key: duplicate key 'writer'"]),
    ],
)  # fmt: skip
def test_an_entry_has_ranks_of_its_own_and_a_topo(document, expected):
    assert problems(document) == expected


@pytest.mark.parametrize("name", sorted(topo.RESERVED - topo.RESOURCE_KEYS))
def test_a_locality_has_no_reserved_name(name):
    (line,) = problems_of_topo({name: [FLAT]})
    assert line.startswith(f"/{name}: '{name}' cannot be the name of a locality")


def test_only_an_array_of_objects_is_refused_under_a_reserved_name():
    assert (
        problems_of_topo({"core": "0-3", "slot": {}, "node": [], "topo": [1, 2], "ranks": "0"})
        == []
    )
    assert problems_of_topo({"core": [FLAT], "gpu": [{}]}) == [
        "/core: 'core' cannot be the name of a locality; the key for core ids is \"cores\"",
        "/gpu: 'gpu' cannot be the name of a locality; the key for GPU ids is \"gpus\"",
    ]


@pytest.mark.parametrize("name", ["socket", "numa", "apu", "L3 cache", "é", "a/b~c"])
def test_a_locality_may_have_any_other_name(name):
    assert problems_of_topo({name: [{"cores": "0"}, {"cores": "1"}]}) == []


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ([], [": must be an object, not an array"]),
        ({"numa": 3}, ["/numa: must be an array, not 3"]),
        ({"l3": [FLAT, 3]}, ["/l3/1: must be an object, not 3"]),
        ({3: 4}, ["/3: a key must be a string, not 3"]),
        ({"rack": [float("nan")]}, [": has a value that is not JSON"]),
        ({"cores": 3}, ["/cores: must be a string, not 3"]),
        ({"memory": -1}, ["/memory: must be at least 0, not -1"]),
        ({"storage": {}}, ["/storage: must be an array, not an object"]),
        (
            {"storage": [{}]},
            ["/storage/0: key 'capacity' is missing", "/storage/0: key 'path' is missing"],
        ),
        ({"storage": [{"path": "", "capacity": 1}]}, ["/storage/0/path: must not be empty"]),
        (
            {"storage": [{"path": "/", "capacity": -2}]},
            ["/storage/0/capacity: must be at least 0 and at most 1e+30, not -2"],
        ),
    ],
)
def test_a_problem_of_a_domain_has_its_pointer(node, expected):
    assert problems_of_topo(node) == expected


@pytest.mark.parametrize("unit", sorted(topo.UNITS))
def test_a_capacity_may_have_any_unit_of_bytes(unit):
    assert problems_of_topo({"storage": [{"path": "/", "capacity": 1.5, "unit": unit}]}) == []


@pytest.mark.parametrize("unit", ["gib", "GIB", "", "Gi", "furlong", 3, None])
def test_a_capacity_has_no_other_unit(unit):
    (line,) = problems_of_topo({"storage": [{"path": "/", "capacity": 1, "unit": unit}]})
    assert line.startswith("/storage/0/unit: must be one of 'B', ")


def test_siblings_share_no_core_and_no_gpu():
    shared = {
        "numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7"}, {"cores": "2-4", "gpus": "0"}]
    }
    assert problems_of_topo(shared) == [
        "/numa/2: cores 2-3 and gpus 0 also in the sibling at /children/0/topo/numa/0"
    ]


def test_the_first_of_many_siblings_that_share_an_id_is_named():
    numa = [{"cores": str(i)} for i in range(2000)]
    numa += [{"cores": f"{i},{i + 2000}"} for i in (0, 255, 256, 1535, 1999)]
    assert problems(key(entry("0", {"numa": numa}))) == [
        f"/children/0/topo/numa/{2000 + n}: cores {i} also in the sibling at "
        f"/children/0/topo/numa/{i}"
        for n, i in enumerate((0, 255, 256, 1535, 1999))
    ]


def test_siblings_of_different_localities_share_no_ids():
    assert problems_of_topo(
        {"socket": [{"cores": "0-3"}], "apu": [{"numa": [{"cores": "3"}]}]}
    ) == ["/apu/0: cores 3 also in the sibling at /children/0/topo/socket/0"]


@pytest.mark.parametrize(
    "listed",
    [
        {},
        {"cores": "8", "gpus": "1"},
        {"cores": "0-8", "gpus": "0-1"},
        {"cores": "0-2,8", "gpus": ""},
    ],
    ids=["nothing", "what-none-inside-has", "all", "some"],
)
def test_a_domain_has_what_it_lists_and_what_the_domains_inside_have(listed):
    inside = {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7"}]}
    (socket,) = topo.read({"socket": [{**listed, **inside}]}).inside
    assert idset.encode(socket.cores) == ("0-8" if listed else "0-7")
    assert idset.encode(socket.gpus) == ("0-1" if "1" in listed.get("gpus", "") else "0")


def test_a_locality_is_not_inside_one_of_the_same_name():
    assert problems_of_topo({"numa": [{"socket": [{"numa": [FLAT]}]}]}) == [
        "/numa/0/socket/0/numa: locality 'numa' is inside one of the same name"
    ]


def test_localities_nest_sixteen_levels_and_no_deeper():
    node: dict = FLAT
    for level in reversed(range(topo.MAX_LEVELS)):
        node = {f"level{level}": [node]}
    assert problems_of_topo(node) == []
    (line,) = problems_of_topo({"outermost": [node]})
    assert line.endswith("/level15: localities are nested deeper than 16 levels")


@pytest.mark.depth
def test_a_topo_has_at_most_65536_domains():
    full = {"tile": [{}] * (topo.MAX_DOMAINS - 1)}
    SchedulingKey.read(key(entry("0", full)))
    with pytest.raises(InvalidKey, match=r"^/children/0/topo: has more than 65536 domains$"):
        SchedulingKey.read(key(entry("0", {**full, "more": [{}]})))


@pytest.mark.parametrize(
    ("scheduling", "answer"),
    [
        ({"writer": "TreePool"}, True),
        ({"writer": "TreePool:x"}, True),
        ({"writer": "treepool"}, False),
        ({"writer": "TreePoolX"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_the_scheme_of_the_writer_names_the_scheduler(scheduling, answer):
    assert is_treepool(scheduling) is answer


# ---- ranks ----

RANKS = st.sets(st.integers(0, 200), max_size=40)


@st.composite
def keys(draw: st.DrawFn) -> SchedulingKey:
    """Keys of some entries with disjoint, non-empty ranks."""
    owners = draw(st.dictionaries(st.integers(0, 200), st.integers(0, 3), max_size=40))
    nodes = [{"cores": f"0-{n + 1}"} for n in range(4)]
    children = []
    for n in range(4):
        ranks = idset.from_ids(rank for rank, owner in owners.items() if owner == n)
        if ranks:
            children.append(KeyEntry(ranks, nodes[n]))
    return SchedulingKey(tuple(children), extra=draw(st.sampled_from([{}, {"site": [1]}])))


def topos(of: SchedulingKey) -> dict[int, object]:
    """The reference: the topo of each rank."""
    return {rank: e.topo for e in of.children for rank in idset.iterate(e.ranks)}


def text(ids: set[int]) -> int:
    return idset.from_ids(ids)


@given(keys())
def test_a_key_survives_its_json(some):
    assert SchedulingKey.read(some.to_dict()) == some
    assert SchedulingKey.read(json.dumps(some.to_dict())) == some


@given(keys(), RANKS)
def test_a_trimmed_key_has_the_ranks_asked_for_with_the_topos_they_had(some, ranks):
    trimmed = some.trim(text(ranks))
    assert topos(trimmed) == {r: t for r, t in topos(some).items() if r in ranks}
    assert all(e.ranks for e in trimmed.children)
    assert trimmed.extra == some.extra
    assert trimmed.trim(text(ranks)) == trimmed


@given(keys(), RANKS)
def test_a_rank_becomes_its_position_among_all_ranks_of_the_r(some, flat):
    before = topos(some)
    ranks = sorted(set(before) | flat)
    renumbered = some.renumber(text(set(ranks)))
    assert topos(renumbered) == {ranks.index(r): t for r, t in before.items()}
    assert topos(some.renumber()) == dict(enumerate(before[r] for r in sorted(before)))


@given(keys(), RANKS)
def test_a_key_about_the_ranks_of_r_lite_stays_as_it_is(some, flat):
    assert some.map_to(some.mask | text(flat)) is some


@given(keys().filter(lambda some: some.children), st.data())
def test_a_key_about_more_ranks_than_r_lite_has_is_cut_to_those(some, data):
    before = topos(some)
    kept = data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
    cut = some.map_to(text(kept))
    assert topos(cut) == {rank: before[rank] for rank in kept}
    assert cut.extra == some.extra


@pytest.mark.parametrize(("ranks", "above"), [("10-13", "0-3"), ("0-3", "10-13"), ("9", "8")])
@pytest.mark.parametrize("allocated", [False, True])
def test_children_and_fabric_must_each_be_about_ranks_of_R(ranks, above, allocated):
    switch = {"switch": [{"ranks": above}]}
    some = SchedulingKey.read({**key(entry(ranks)), "fabric": switch})
    strange = [name for name, own in (("children", ranks), ("fabric", above)) if own != "0-3"]
    if allocated and "10-13" in (ranks, above):  # as many, so each maps by its own positions
        mapped = some.map_to(0b1111, allocated=True)
        assert mapped.described == mapped.fabric.mask() == 0b1111
        return
    assert [p.pointer for p in some.misplaced(0b1111, allocated)] == [f"/{n}" for n in strange]
    with pytest.raises(InvalidKey, match=rf"^/{strange[0]}: .* of R_lite$"):
        some.map_to(0b1111, allocated)


@given(keys(), st.integers(0, 300))
def test_mapping_to_as_many_ranks_with_gaps_keeps_the_order(some, first):
    ranks = [first + i * i for i in range(idset.size(some.mask))]
    before = topos(some)
    assert topos(some.map_to(text(set(ranks)), allocated=True)) == dict(
        zip(ranks, (before[r] for r in sorted(before)))
    )


@pytest.mark.parametrize(
    ("outer", "kept", "found"),
    [
        ("1-3", "1-2", {1: 2, 2: 3}),  # of positions 0-2, 0 is excluded
        ("1-3", "0-2", {0: 1, 1: 2, 2: 3}),
        ("0,2", "1", {1: 2}),
        ("4-6,9", "0-2", {0: 4, 1: 5, 2: 6}),
        ("0-3", "1,3", {1: 1, 3: 3}),
        ("1-3", "2-3", {2: 2, 3: 3}),  # there is no position 3
        ("1-3", "", {}),
    ],
)
def test_in_an_instance_inside_a_job_positions_count_before_ranks_are_excluded(outer, kept, found):
    some = SchedulingKey.read({
        **key(*(entry(str(r), {"cores": str(r)}) for r in idset.iterate(idset.decode(outer)))),
        "fabric": {"switch": [{"ranks": outer}]},
    })  # fmt: skip
    mapped = some.map_to(idset.decode(kept), allocated=True)
    assert topos(mapped) == {rank: {"cores": str(r)} for rank, r in found.items()}
    assert (mapped.fabric.mask() if found else mapped.fabric) == (idset.decode(kept) or None)
    inside = some.ranks_in(idset.decode(kept), allocated=True)
    assert [idset.encode(ranks) for ranks in inside if ranks] == [str(r) for r in found]


def test_an_R_with_a_start_time_was_allocated():
    R = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "1", "children": {"core": "0"}}],
            "nodelist": ["n2"],
            "starttime": 100.5,
            "expiration": 0,
        },
        "scheduling": key(entry("0", {"cores": "0-1"}), entry("2", {"cores": "0"})),
    }
    assert topos(ResourceSet.read(R).key()) == {1: {"cores": "0"}}
    R["execution"]["starttime"] = 0
    with pytest.raises(InvalidKey):
        ResourceSet.read(R)


def test_a_key_of_great_depth_raises_invalid_key():
    node: dict = {}
    for _ in range(50_000):
        node = {"numa": [node]}
    assert problems(key(entry("0", node))) == ["scheduling key: nested deeper than 64 levels"]


# ---- allocated: which cores of the topo the nodes of an allocation have ----


def key_with_allocated(allocated):
    """A key that has it beside ``children``, as treepool 0.1 wrote it."""
    children = [{"ranks": "2-5", "topo": {"cores": "0-7"}}]
    return {"writer": "TreePool", "children": children, "allocated": allocated}


def told_of(some):
    """The ``allocated`` of each entry of a key by its ranks."""
    return {entry["ranks"]: entry.get("allocated") for entry in some.to_dict()["children"]}


def test_allocated_ids_move_with_the_ranks_of_their_entry():
    some = SchedulingKey.read(
        key(
            {**entry("2,4"), "allocated": {"cores": "4-7", "gpus": "1"}},
            {**entry("5"), "allocated": {"cores": "1", "site": {"cores": "0"}}},
        )
    )
    four, five = {"cores": "4-7", "gpus": "1"}, {"cores": "1", "site": {"cores": "0"}}
    assert told_of(some) == {"2,4": four, "5": five}
    assert told_of(some.trim(0b011000)) == {"4": four}
    assert told_of(some.renumber()) == {"0-1": four, "2": five}


def test_allocated_ids_beside_children_are_those_of_the_ranks_that_they_name():
    some = SchedulingKey.read(
        key_with_allocated([{"ranks": "2,4", "cores": "4-7"}, {"ranks": "5", "cores": "1"}])
    )
    assert told_of(some) == {"3": None, "2,4": {"cores": "4-7"}, "5": {"cores": "1"}}
    assert "allocated" not in some.to_dict() and "allocated" not in some.extra
    lost = SchedulingKey.read(key_with_allocated([{"ranks": "2,9", "cores": "4-7"}]))
    assert told_of(lost) == {"2-5": {"cores": ""}}  # some, nobody knows which


@pytest.mark.parametrize(
    ("allocated", "pointer"),
    [
        (3, "/allocated"),
        ([3], "/allocated/0"),
        ([{"ranks": "2"}], "/allocated/0"),
        ([{"ranks": "2", "cores": "x"}], "/allocated/0/cores"),
        ([{"ranks": "2", "cores": "1"}, {"ranks": "2-3", "cores": "1"}], "/allocated/1/ranks"),
    ],
)
def test_each_fault_of_allocated_is_reported_at_its_place(allocated, pointer):
    found = [p.pointer for p in SchedulingKey.problems(key_with_allocated(allocated))]
    assert found == [pointer]


@pytest.mark.parametrize(
    ("allocated", "pointer"),
    [(3, ""), ({}, ""), ({"cores": 3}, "/cores"), ({"cores": "1", "site": 3}, "/site")],
)
def test_each_fault_of_allocated_in_an_entry_is_reported_at_its_place(allocated, pointer):
    found = SchedulingKey.problems(key({**entry("2"), "allocated": allocated}))
    assert [p.pointer for p in found] == [f"/children/0/allocated{pointer}"]
