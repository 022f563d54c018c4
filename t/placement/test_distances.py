"""Distances between the domains of a node: a slot that must span some takes the nearest."""

from __future__ import annotations

import pytest

from made import alloc, nodes
from treepool.placement.nodes.compile import compile_topo
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import MAX_DOMAINS, Distances, digest
from treepool.rfc.shape import parse_shape
from treepool.view.explain import explain
from work import Lines


def matrix(number, far):
    """Distances by a function of two places; 10 is local."""
    rows = range(number)
    return tuple(tuple(10 if i == j else far(i, j) for j in rows) for i in rows)


#: Eight sockets with links to three others each.
CUBE = {frozenset((i, i ^ step)) for i in range(8) for step in (2, 4, 7)}


def cube(i, j):
    return 21 if frozenset((i, j)) in CUBE else 31


def R(topo, cores, distances):
    made = nodes(cores=cores, topo=topo)
    made["scheduling"]["links"] = {digest(topo): {"distances": distances}}
    return made


EIGHT = R(
    {"socket": [{"cores": f"{4 * i}-{4 * i + 3}"} for i in range(8)]},
    "0-31",
    {"locality": "socket", "values": [list(row) for row in matrix(8, cube)]},
)


def cores_of(allocation):
    return allocation.to_dict()["execution"]["R_lite"][0]["children"]["core"]


# -- the choice


@pytest.mark.parametrize("locality", ["numa", "socket"])
def test_a_matrix_that_is_not_about_the_topos_domains_tells_nothing(locality):
    topo = {"numa": [{"cores": str(i)} for i in range(5)]}
    distances = Distances(locality, matrix(4, lambda i, j: 20 + i + j))
    assert compile_topo(topo, 31, 0, distances=distances).root.apart == {}


def test_the_order_of_domains_is_that_of_their_cores_not_of_the_json():
    topo = {"numa": [{"cores": "2"}, {"cores": "0"}, {"cores": "1"}]}
    far = Distances("numa", matrix(3, lambda i, j: 12 if {i, j} == {0, 2} else 30))
    root = compile_topo(topo, 0b111, 0, distances=far).root
    assert [d.cores for d in root.children] == [1, 2, 4]
    zero, one, two = root.children
    assert root.apart[zero][two] == 12_000 < root.apart[zero][one] == root.apart[one][two]


# -- jobs


@pytest.mark.parametrize("busy", [None, "slot/core=1"])
def test_near_domains_are_found_also_among_too_many_to_compare_all_sets(busy):
    """Six of twelve can be had in 924 ways."""
    values = [list(row) for row in matrix(13, lambda i, j: 12 if i % 2 == j % 2 else 31)]
    topo = {"numa": [{"cores": str(i)} for i in range(13)]}
    pool = Pool(R(topo, "0-12", {"locality": "numa", "values": values}))
    if busy:
        alloc(pool, 1, busy)
    assert cores_of(alloc(pool, 2, "slot/core=6")) == ("1,3,5,7,9,11" if busy else "0,2,4,6,8,10")


def test_a_job_inside_a_job_knows_the_distances():
    pool = Pool(EIGHT)
    alloc(pool, 1, "slot/socket{x}")
    outer = alloc(pool, 2, "slot/core=20")
    inner = Pool(outer.to_dict())
    found = alloc(inner, 1, "slot/core=8")
    chosen = idset.decode(cores_of(found))
    places = [i for i in range(8) if chosen >> 4 * i & 1]
    assert frozenset(places) in CUBE


# -- fitness and explanation


def test_what_is_near_counts_more_than_what_is_far():
    def fitness(shape, jobs=()):
        pool = Pool(EIGHT)
        for i, job in enumerate(jobs, 2):
            alloc(pool, i, job)
        return alloc(pool, 1, shape).fitness().memory

    assert fitness("slot/core=4") == 1
    near = fitness("slot/core=8")
    assert near == pytest.approx(0.5 + 0.5 * (31 - 21) / (31 - 10))
    # Only sockets 0 and 1 are left, two links apart.
    kept = ["slot/socket{x}"] * 8
    pool = Pool(EIGHT)
    for i, job in enumerate(kept):
        alloc(pool, 10 + i, job)
    pool.free(10)
    pool.free(11)
    assert alloc(pool, 1, "slot/core=8").fitness().memory == 0.5


def test_explain_says_how_far_apart_the_domains_of_a_slot_are():
    pool = Pool(EIGHT)
    told = explain(pool, "slot/core=8", parse_shape("slot/core=8"))
    ((place,),) = [one.places for one in told.taken]
    assert (place.spans, place.apart, place.nearest) == ("2 sockets", 21, 21)
    for i in range(8):
        alloc(pool, 10 + i, "slot/socket{x}")
    pool.free(10)
    pool.free(11)
    ((place,),) = [one.places for one in explain(pool, "x", parse_shape("slot/core=8")).taken]
    assert (place.apart, place.nearest) == (31, 21)


def test_the_work_of_a_job_on_as_many_domains_as_a_key_may_have_is_bounded():
    far = [list(row) for row in matrix(MAX_DOMAINS, lambda i, j: 11 + (i + j) % 7)]
    pool = Pool(
        R(
            {"numa": [{"cores": str(i)} for i in range(MAX_DOMAINS)]},
            f"0-{MAX_DOMAINS - 1}",
            {"locality": "numa", "values": far},
        )
    )
    with Lines(20 * MAX_DOMAINS**2) as work:
        allocation = alloc(pool, 1, f"slot/core={MAX_DOMAINS // 2}")
        assert 0 < allocation.fitness().memory < 1
    assert work.count < 10 * MAX_DOMAINS**2


@pytest.mark.depth
def test_very_many_domains_beside_the_same_memory_are_not_compared():
    topo = {
        "numa": [
            {"l2": [{"cores": str(i)} for i in range(2000)]},
            *({"cores": str(i)} for i in (2001, 2002, 2003)),
        ]
    }
    far = matrix(4, lambda i, j: 11 + (i + j) % 7)
    with Lines(2_000_000):
        root = compile_topo(topo, (1 << 2004) - 1, 0, distances=Distances("numa", far)).root
    assert len(root.apart) == 4 and root.children[0].apart == {}


@pytest.mark.depth
def test_as_many_domains_as_a_key_may_have_are_compiled_in_bounded_work():
    topo = {"socket": [{"cores": str(i)} for i in range(MAX_DOMAINS)]}
    far = Distances("socket", matrix(MAX_DOMAINS, lambda i, j: 11 + (i + j) % 7))
    with Lines() as work:
        compile_topo(topo, (1 << MAX_DOMAINS) - 1, 0, distances=far)
    assert work.count < 40 * MAX_DOMAINS**2
