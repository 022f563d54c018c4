"""What one input costs a target: CPU time and memory, measured in a process of its own."""

import os
import pickle
import resource
import sys
import time

import attrs

from fuzz.targets import attempt

#: What no input of 1 MiB may exceed, in seconds of CPU time and MiB above the start. The promise is
#: a second on a machine of today with nothing else to do; a slow and busy one may take four.
MAX_SECONDS, MAX_MIB = 4.0, 200

#: Where a child that goes wild is stopped.
_CPU_LIMIT, _MEMORY_LIMIT = 60, 4 << 30


@attrs.frozen
class Cost:
    """How a target took an input: the outcome (see ``attempt``), CPU seconds, MiB at the peak."""

    outcome: str
    seconds: float
    mib: float

    @property
    def good(self):
        """Whether the input was answered within the limits."""
        answered = not self.outcome.startswith(("misbehaved", "killed"))
        return answered and self.seconds <= MAX_SECONDS and self.mib <= MAX_MIB


def cost(name, data):
    """The Cost of *data* to target *name*."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(_measured(name, data), out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as results:
        found = results.read()
    _, status = os.waitpid(child, 0)
    if not found:
        return Cost(f"killed: status {status}", float("inf"), float("inf"))
    return Cost(*pickle.loads(found))


def _measured(name, data):
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT, _CPU_LIMIT))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    before, start = _peak(), time.process_time()
    try:
        outcome = attempt(name, data)
    except BaseException as e:
        outcome = f"misbehaved: {type(e).__name__}: {str(e)[:300]}"
    return outcome, time.process_time() - start, _peak() - before


def _peak():
    """The most memory this process has had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
