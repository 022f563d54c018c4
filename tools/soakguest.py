"""Run by Flux's Python in the instance of a soak: asks the scheduler again and again.

``soakguest.py JSON`` asks what guests ask (doc/questions.md), and pings the module, until its
stdin ends. It notes how long each answer takes, in the file ``answers`` of the run's directory.
It also notes how long the module itself worked until it answered, because what else the machine
does is not in that, and whether this was the first answer of a module, which had to start. JSON is
an object as for ``Hand`` in soakhand.py.
"""

import errno
import json
import random
import select
import sys
import time
from pathlib import Path

import TreePool  # noqa: F401 (makes treepool importable)

# isort: split

import flux
from flux.constants import FLUX_RPC_STREAMING

from soakadmin import module_of, worked
from soakcluster import QUEUES
from soakjobs import SHAPES
from treepool import parse_shape

#: Seconds after which a question counts as unanswered.
PATIENCE = 60.0

#: Most seconds between two questions.
PAUSE = 0.2


class Guest:
    """Asks; *told* as for soakhand.Hand."""

    def __init__(self, told):
        self.told = told
        self.chance = random.Random(f"{told['seed']}/guest")
        self.handle = flux.Flux()
        self.broker = int(self.handle.attr_get("broker.pid"))
        #: The process of the module now, and that of the last answer.
        self.module = self.known = None
        self.submitted = Path(told["directory"]) / "submitted"

    def run(self):
        """Ask until stdin ends."""
        questions = [self.ping, self.ping, self.look, self.job, self.ask, self.numbers]
        with (Path(self.told["directory"]) / "answers").open("a") as file:
            while not select.select([sys.stdin], [], [], self.chance.uniform(0, PAUSE))[0]:
                file.write(json.dumps(self.answer(self.chance.choice(questions))) + "\n")

    def answer(self, question):
        """Ask a *question*; what is noted of the answer."""
        began, before, error = time.time(), self.worked(), None
        try:
            question()
        except OSError as e:
            error = errno.errorcode.get(e.errno, str(e))
        seconds, after = time.time() - began, worked(self.module)
        work = after - before if None not in (before, after) else None
        self.worked()
        starting = self.module != self.known
        self.known = self.module if error is None else self.known
        said = {"time": began, "question": question.__name__, "seconds": seconds}
        return {**said, "work": work, "starting": starting, "error": error}

    def worked(self):
        """How long the module has worked, which may be another one since the last question."""
        if worked(self.module) is None:
            self.module = module_of(self.broker)
        return worked(self.module)

    def rpc(self, topic, payload=None, flags=0):
        """The first answer to an RPC, and its future."""
        future = self.handle.rpc(f"sched-treepool.{topic}", payload or {}, nodeid=0, flags=flags)
        future.wait_for(PATIENCE)
        return future.get(), future

    def ping(self):
        """What the module answers at once."""
        self.rpc("ping", {"pad": ""})

    def numbers(self):
        """The module's numbers."""
        self.rpc("numbers")

    def look(self):
        """What is where."""
        _, future = self.rpc("look", flags=FLUX_RPC_STREAMING)
        try:
            while True:
                future.reset()
                future.wait_for(PATIENCE)
                future.get()
        except OSError as e:
            if e.errno != errno.ENODATA:
                raise

    def job(self):
        """Why one of the last jobs waits, or where it is."""
        jobs = self.submitted.read_text().split() if self.submitted.exists() else []
        self.rpc("job", {"id": int(self.chance.choice(jobs[-100:] or ["1"]))})

    def ask(self):
        """What some shape would get."""
        asked = {"resources": parse_shape(self.chance.choice(SHAPES)), "duration": 60}
        self.rpc("ask", {**asked, "queue": self.chance.choice(QUEUES)})


if __name__ == "__main__":
    Guest(json.loads(sys.argv[1])).run()
