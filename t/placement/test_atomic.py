"""A failed call changes nothing, wherever in it the failure comes.

A trace function counts the lines that a call runs in ``treepool/placement`` and raises at the n-th,
for each n, as a MemoryError or a Ctrl-C would. The pool must then be as it was, and go on as a pool
that never saw the call does.
"""

import os
import sys
from functools import lru_cache, partial

import pytest

from depth import deep
from made import asked
from treepool.errors import InfeasibleRequest, InsufficientResources, TreepoolError
from treepool.placement.pool import Pool

_PLACEMENT = os.sep + os.path.join("treepool", "placement") + os.sep


class Fault(BaseException):
    """What is raised in the middle, like KeyboardInterrupt no Exception."""


class Tracer:
    """Counts the lines run in the placement room, and raises *error* at the one called *stop*."""

    def __init__(self, stop=0, error=Fault):
        self.stop = stop
        self.error = error
        self.lines = 0

    def __call__(self, frame, event, _):
        if _PLACEMENT not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.stop:
                raise self.error
        return self

    @property
    def fired(self):
        """Whether the error was raised."""
        return 0 < self.stop <= self.lines

    def run(self, call):
        """Whether *call* went through, which no call may do from which our error came.

        None if the error came while Python closed a generator that nobody needs any more: that is
        told to the unraisable hook, and the call goes through (3.13 has a line to fail at there).
        """
        old, hook = sys.gettrace(), sys.unraisablehook
        dropped = []
        sys.unraisablehook = lambda told: dropped.append(told.exc_type)
        sys.settrace(self)
        try:
            call()
        except self.error:
            return False
        finally:
            sys.settrace(old)
            sys.unraisablehook = hook
        if self.error in dropped:
            return None
        assert not self.fired, f"line {self.stop}: the error was lost"
        return True


SOCKET = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
R = {
    "version": 1,
    "execution": {
        "R_lite": [
            {"rank": "0-3", "children": {"core": "0-7", "gpu": "0-1"}},
            {"rank": "4-5", "children": {"core": "0-3"}},
        ],
        "nodelist": ["n[0-5]"],
        "properties": {"driver:1": "0-1", "driver:2": "2-3"},
        "starttime": 0.0,
        "expiration": 2e9,
    },
    "scheduling": {
        "writer": "TreePool",
        "children": [{"ranks": "0-3", "topo": {"socket": SOCKET}}],
    },
}

#: What the pool is asked afterwards; some of it is refused.
PROBES = (
    "slot=1/core",
    "slot=1/[core=2;gpu=1]",
    "slot=2/socket{x}",
    "node=2/slot=1/core=2",
    "slot=1/node{x}",
    "slot=5/core=2",
    "slot=99/core",
    "slot=1/core=64",
)

ALLOCATIONS = (*PROBES[:6], "slot=1-9/core=3", "slot=2/node=1-3/core", "slot=2/gpu")


def busy():
    """A pool with three jobs, one of them on two nodes, and a node that is down."""
    pool = Pool(R)
    pool.alloc(1, asked(pool, "slot=1/[core=2;gpu=1]"))
    pool.alloc(2, asked(pool, "slot=2/node=1/core=3"))
    pool.alloc(3, asked(pool, "slot=1/socket{x}"))
    pool.mark_down("3")
    return pool


def seen(pool):
    """All that a caller can see of *pool*."""
    return (
        pool.to_dict(),
        pool.copy_allocated().to_dict(),
        pool.copy_down().to_dict(),
        pool.job_end_times(),
        pool.ranks,
        pool.up,
        pool.localities,
    )


def answers(pool):
    """What *pool* says to PROBES, then as the jobs before end, and comes up again."""
    found = []

    def probe(first):
        for jobid, shape in enumerate(PROBES, first):
            try:
                found.append(pool.alloc(jobid, asked(pool, shape)).to_dict())
            except TreepoolError as e:
                found.append(str(e))

    probe(100)
    for jobid in (1, 2, 3, 100):
        if pool.has_job(jobid):
            pool.free(jobid)
    probe(200)
    pool.mark_up("all")
    probe(300)
    found.append(seen(pool))
    return found


@lru_cache(None)
def expected():
    """What a pool answers that no call has failed on."""
    return answers(busy())


def held(jobid):
    """The R of what job *jobid* holds in ``busy()``."""
    pool = Pool(R)
    shapes = {1: "slot=1/[core=2;gpu=1]", 2: "slot=2/node=1/core=3"}
    found = [pool.alloc(i, asked(pool, shape)).to_dict() for i, shape in shapes.items()]
    return found[jobid - 1]


def part_of(R, rank):
    """*R* cut to one rank."""
    entry = {"rank": str(rank), "children": R["execution"]["R_lite"][0]["children"]}
    execution = {**R["execution"], "R_lite": [entry], "nodelist": [f"n{rank}"]}
    return {"version": 1, "execution": {**execution, "properties": {}}}


_TWO = held(2)
_FIRST_OF_TWO = int(_TWO["execution"]["R_lite"][0]["rank"][0])
_OTHER = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "4-5", "children": {"core": "3"}}],
        "nodelist": ["n[4-5]"],
        "starttime": 0.0,
        "expiration": 0.0,
    },
}
_KEY = {
    "writer": "TreePool",
    "children": [{"ranks": "0-3", "topo": {"numa": [{"cores": "0-7", "gpus": "0-1"}]}}],
}


def _alloc(shape, pool):
    pool.alloc(9, asked(pool, shape))


CALLS = {
    **{f"alloc {shape}": partial(_alloc, shape) for shape in ALLOCATIONS},
    "alloc of alike nodes": lambda pool: pool.alloc(
        9, asked(pool, "node=2/slot=1/core", same="driver")
    ),
    "alloc that has to wait": lambda pool: _refused(pool, "slot=4/node{x}"),
    "alloc of too much": lambda pool: _refused(pool, "slot=1/core=9"),
    "check_feasibility": lambda pool: pool.check_feasibility(asked(pool, "slot=3/core=2")),
    "free": lambda pool: pool.free(2),
    "free of all, told": lambda pool: pool.free(2, _TWO, final=True),
    "free of a part": lambda pool: pool.free(2, part_of(_TWO, _FIRST_OF_TWO)),
    "register_alloc": lambda pool: pool.register_alloc(9, _OTHER),
    "update_expiration": lambda pool: pool.update_expiration(2, 3e9),
    "occupy": lambda pool: pool.occupy(9, [(0b10111, 0xFF, 3)], 5.0),
    "mark_up": lambda pool: pool.mark_up("all"),
    "mark_down": lambda pool: pool.mark_down("0-2,5"),
    "remove_ranks": lambda pool: pool.remove_ranks("1,3-4"),
    "replace_key": lambda pool: pool.replace_key(_KEY),
    "set_options": lambda pool: pool.set_options(policy="worst-fit", locality="required"),
    "set_expiration": lambda pool: pool.set_expiration(3e9),
    "set_starttime": lambda pool: pool.set_starttime(3.0),
    "copy": lambda pool: pool.copy(),
    "copy_idle": lambda pool: pool.copy_idle(),
}


def _refused(pool, shape):
    with pytest.raises((InfeasibleRequest, InsufficientResources)):
        pool.alloc(9, asked(pool, shape))


def warm():
    """``busy()`` with all remembered that a pool remembers once it has run for long."""
    pool = busy()
    answers(pool.copy())
    return pool


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails_at_any_line_changes_neither_the_pool_nor_a_copy(name):
    other = warm()
    before = seen(other)
    for stop in range(1, 100_000, STEP):
        pool = other.copy()
        through = Tracer(stop).run(lambda pool=pool: CALLS[name](pool))
        if through:
            break
        if through is None:
            continue
        assert seen(pool) == before, f"line {stop}"
        assert answers(pool) == expected(), f"line {stop}"
    else:
        pytest.fail("the call never ends")
    assert stop > 1
    assert seen(other) == before
    assert answers(other) == expected()


#: Every how many lines to fail.
STEP = 1 if deep() else 61


@pytest.mark.depth
@pytest.mark.parametrize("name", ["alloc slot=1-9/core=3", "alloc slot=2/socket{x}", "free"])
def test_a_call_that_fails_while_nothing_is_remembered_changes_nothing(name):
    """The first of its kind in a new pool: all fits are worked out."""
    for stop in range(1, 100_000, 3 * STEP):
        pool = busy()
        before = seen(pool)
        through = Tracer(stop, MemoryError).run(lambda pool=pool: CALLS[name](pool))
        if through:
            break
        if through is None:
            continue
        assert seen(pool) == before, f"line {stop}"
        assert answers(pool) == expected(), f"line {stop}"
    assert stop > 1
