"""sched-treepool with faults: a scheduler module for tests, whose own arguments say which.

================== ===========================================================================
``fails=N``        jobs of N cores fail when their annotations are made, of N+1 cores when R is
                   made, of N+2 when it is sent to the KVS, of N+3 when the pool has noted them
``hello-takes=S``  hello takes S seconds
``timeout=S``      brokers have S seconds to answer, counted in tenths of a second
``retries=T,T``    they are asked again after so many tenths of a second each time
``few=N``          of more than N nodes digests are asked for
``no-digests``     ... which no node has
``bad-answers=N``  the first N answers of each broker are errors
``breaks=C.M:N``   method M of class C, of the module's own, raises at its call number N
================== ===========================================================================
"""

import time
from collections import Counter
from itertools import count

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux import digests, discover
from treepool.flux.pool import AllocatedR
from treepool.flux.sched import TreepoolScheduler
from treepool.placement.allocation import Allocation
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool

#: Of these ``breaks`` breaks methods.
CLASSES = (discover.Discovery, Pool, Queue, TreepoolScheduler)


def cores_of(allocation):
    """How many cores a job got."""
    return sum(
        bin(ranks).count("1") * bin(cores).count("1") for ranks, cores, _ in allocation.parts
    )


class Faulty(TreepoolScheduler):
    """The faults that are the scheduler's own."""

    fails = -9
    hello_takes = 0.0

    def started(self, job, allocation, how):
        if cores_of(allocation) == self.fails:
            raise RuntimeError("no annotations")
        super().started(job, allocation, how)

    def alloc_success(self, msg, R, annotations=None):
        if R["execution"]["R_lite"][0]["children"]["core"] == f"0-{self.fails + 1}":
            raise OSError("no KVS")
        super().alloc_success(msg, R, annotations)

    def _sched_hello(self):
        time.sleep(self.hello_takes)
        super()._sched_hello()


def fail_in_pool(number):
    """Make allocations fail: their R for *number* + 1 cores, their start for *number* + 3."""
    to_dict, register = Allocation.to_dict, Pool.register_alloc

    def failing_to_dict(self):
        if cores_of(self) == number + 1:
            raise MemoryError("no R")
        return to_dict(self)

    def failing_start(self, jobid, allocation):
        register(self, jobid, allocation)
        if isinstance(allocation, Allocation) and cores_of(allocation) == number + 3:
            raise MemoryError("no memory")

    Allocation.to_dict, Pool.register_alloc = failing_to_dict, failing_start
    assert AllocatedR.to_dict  # which is made of it


def answer_badly(times):
    """Make the first so many answers of each broker errors."""
    answered, answer_of = Counter(), discover.answer_of
    on_answer = discover.Discovery._on_answer
    rank = 0

    def remembering(self, future, question):
        nonlocal rank
        rank = question.rank
        on_answer(self, future, question)

    def failing(future):
        answered[rank] += 1
        return "a bad answer" if answered[rank] <= times else answer_of(future)

    discover.Discovery._on_answer, discover.answer_of = remembering, failing


def break_once(where):
    """Make a method raise, once."""
    name, _, number = where.partition(":")
    class_name, method = name.split(".")
    (made,) = (c for c in CLASSES if c.__name__ == class_name)
    works, calls = getattr(made, method), count(1)

    def broken(self, *args, **more):
        if next(calls) == int(number):
            raise RuntimeError(f"{name} is broken\n\x1b")
        return works(self, *args, **more)

    setattr(made, method, broken)


def mod_main(h, *args):
    """Run the module, with what is wrong with it."""
    rest = []
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "fails":
            Faulty.fails = int(value)
            fail_in_pool(Faulty.fails)
        elif name == "hello-takes":
            Faulty.hello_takes = float(value)
        elif name == "timeout":
            discover.TICK, discover.TIMEOUT = 0.1, float(value)
        elif name == "retries":
            discover.RETRIES = tuple(map(int, value.split(","))) if value else ()
        elif name == "few":
            discover.FEW = int(value)
        elif name == "no-digests":
            digests.COMMAND = ("false",)
        elif name == "bad-answers":
            answer_badly(int(value))
        elif name == "breaks":
            break_once(value)
        else:
            rest.append(arg)
    Faulty(h, *rest).run()
