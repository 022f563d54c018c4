"""sched-treepool with faults: a scheduler module for tests, whose own arguments say which.

================== ===========================================================================
``timeout=S``      brokers have S seconds to answer, counted in tenths of a second
``few=N``          of more than N nodes digests are asked for
``digest=S``       of those that may take one second, they take S
``bad-answers=N``  the first N answers of each broker are errors
================== ===========================================================================
"""

from collections import Counter

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux import digests, discover
from treepool.flux.sched import TreepoolScheduler


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


def mod_main(h, *args):
    """Run the module, with what is wrong with it."""
    rest = []
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "timeout":
            discover.TICK, discover.TIMEOUT = 0.1, float(value)
        elif name == "few":
            discover.FEW = int(value)
        elif name == "digest":
            digests.TIMEOUT, digests.COMMAND = 1, ("sh", "-c", f"sleep {value}; echo {64 * 'a'}")
        elif name == "bad-answers":
            answer_badly(int(value))
        else:
            rest.append(arg)
    TreepoolScheduler(h, *rest).run()
