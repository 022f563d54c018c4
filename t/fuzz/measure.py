"""What one input costs a target: work or CPU time, and memory, in a process of its own."""

import os
import pickle
import resource
import sys
import time
from contextlib import nullcontext

import attrs

from fuzz.targets import attempt
from work import Lines

#: What no input of 1 MiB may exceed: lines of treepool that run, and MiB above the start. The most
#: expensive input of today takes 16 million lines, which is half a second; ``costs.py`` measures.
MAX_LINES, MAX_MIB = 24_000_000, 200

#: Where a child that never ends is stopped: CPU seconds, a hundred times what any input takes, and
#: bytes.
_CPU_LIMIT, _MEMORY_LIMIT = 600, 4 << 30


@attrs.frozen
class Cost:
    """How a target took an input: the outcome (see ``attempt``), CPU seconds, MiB at the peak.

    ``seconds`` is what it took with the counting of lines, if they were counted.
    """

    outcome: str
    seconds: float
    mib: float
    lines: int = 0

    @property
    def good(self):
        """Whether the input was answered within the limits."""
        answered = not self.outcome.startswith(("misbehaved", "killed"))
        return answered and self.lines <= MAX_LINES and self.mib <= MAX_MIB


def cost(name, data, counted=False):
    """The Cost of *data* to target *name*; its lines if they are to be *counted*."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(_measured(name, data, counted), out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as results:
        found = results.read()
    _, status = os.waitpid(child, 0)
    if not found:
        return Cost(f"killed: status {status}", float("inf"), float("inf"))
    return Cost(*pickle.loads(found))


def _measured(name, data, counted):
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT, _CPU_LIMIT))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    before, start = _peak(), time.process_time()
    work = Lines(MAX_LINES)
    try:
        with work if counted else nullcontext():
            outcome = attempt(name, data)
    except BaseException as e:
        outcome = f"misbehaved: {type(e).__name__}: {str(e)[:300]}"
    return outcome, time.process_time() - start, _peak() - before, work.count


def _peak():
    """The most memory this process has had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
