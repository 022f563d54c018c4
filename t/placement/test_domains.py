"""Which domain above the nodes a job gets, where one rule of doc/design.md alone decides."""

import pytest

from placement.test_work import cluster, request
from treepool.placement.pool import Pool
from treepool.rfc import idset

#: A core of each socket. On a node without these, 24 cores are in two sockets.
ONE_EACH = 1 | 1 << 24 | 1 << 48 | 1 << 72


def pool_of(fabric, taken, nodes=8):
    """Nodes of four sockets of 24 cores and a GPU; job 0 has on each rank what *taken* has."""
    R = cluster(nodes)
    R["scheduling"]["fabric"] = fabric
    pool = Pool(R, policy="best-fit")
    entries = [
        {"rank": str(rank), "children": {"core": idset.encode(cores), "gpu": idset.encode(gpus)}}
        for rank, (cores, gpus) in taken.items()
    ]
    for entry in entries:
        entry["children"] = {name: ids for name, ids in entry["children"].items() if ids}
    hosts = [f"cray{rank}" for rank in taken]
    pool.register_alloc(0, {"version": 1, "execution": {"R_lite": entries, "nodelist": hosts}})
    return pool


def ranks(pool, shape):
    """The ranks that a job of this *shape* gets."""
    allocation = pool.alloc(1, request(pool, shape))
    return sorted(rank for those, _, _ in allocation.parts
                  for rank in idset.iterate(those))  # fmt: skip


def cores(number):
    return (1 << number) - 1


@pytest.mark.parametrize("fewer, chosen", [(False, [0, 1]), (True, [2, 3])])
def test_the_domain_with_the_fewest_free_cores_comes_first_whatever_gpus_it_has(fewer, chosen):
    taken = {rank: (cores(4), 0b1111) for rank in (0, 1)}
    taken.update({rank: (cores(8 if fewer else 2), 0) for rank in (2, 3)})
    pool = pool_of({"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}, taken, nodes=4)
    assert ranks(pool, "node=2/slot/core=1") == chosen


def test_the_smallest_domain_is_one_in_which_all_slots_are_local_if_there_is_one():
    taken = dict.fromkeys((0, 1), (ONE_EACH, 0))
    pool = pool_of({"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}, taken, nodes=4)
    assert ranks(pool, "node=2/slot/core=24") == [2, 3]


def test_of_two_domains_the_smaller_one_has_fewer_levels_inside_and_not_less_that_is_free():
    fabric = {
        "pod": [
            {"cell": [{"switch": [{"ranks": "0"}, {"ranks": "1"}]}], "switch": [{"ranks": "2"}]},
            {"switch": [{"ranks": "3"}, {"ranks": "4"}, {"ranks": "5"}]},
        ]
    }
    pool = pool_of(fabric, {0: (cores(4), 0)}, nodes=6)
    assert ranks(pool, "node=3/slot/core=24") == [3, 4, 5]


def test_the_rest_goes_to_a_domain_with_just_enough_room_in_which_all_its_slots_are_local():
    taken = dict.fromkeys((3, 4), (ONE_EACH, 0))
    switches = [{"ranks": "0-2"}, {"ranks": "3-4"}, {"ranks": "5-6"}]
    pool = pool_of({"switch": switches}, taken, nodes=7)
    assert ranks(pool, "node=5/slot/core=24") == [0, 1, 2, 5, 6]


def test_the_rest_goes_to_the_smallest_domain_of_the_one_that_fits_best():
    """Not to the best of its cells, and then to the best switch of that."""
    fabric = {
        "pod": [
            {"cell": [{"switch": [{"ranks": "0-4"}]}]},
            {
                "cell": [
                    {"switch": [{"ranks": "5"}, {"ranks": "6"}]},
                    {"switch": [{"ranks": "7"}, {"ranks": "8"}]},
                ]
            },
        ]
    }
    # Rank 5 has the fewest free cores, but its cell has more than the other.
    taken = {5: (cores(90), 0), 7: (cores(60), 0), 8: (cores(60), 0)}
    pool = pool_of(fabric, taken, nodes=9)
    assert ranks(pool, "node=6/slot/core=1") == [0, 1, 2, 3, 4, 5]
