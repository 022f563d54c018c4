"""What administrators do in a soak, at random: drain, reload, configure, windows, brokers lost."""

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from flux.idset import IDset

from soakcluster import QUEUES, SCHEDULERS, TABLES

#: Flux's own with treepool's pool. When it is unloaded it leaves jobs with an R and no alloc event,
#: and it never learns of what jobs free while it starts (doc/upstream.md): so only where no
#: restart follows before all jobs are over, and not while they are waited for.
SIMPLE = ["sched-simple", "pool-class=TreePool"]

#: Tables that must be refused, and change nothing.
WRONG = ({"policy": "best"}, {"queues": {"nowhere": {"policy": "easy"}}}, {"straddle": -1})

#: Most windows at a time.
WINDOWS = 6


class Admin:
    """Acts on the instance of *hand*, see soakhand.py."""

    def __init__(self, hand):
        self.hand, self.handle, self.chance = hand, hand.handle, hand.chance
        self.nodes = hand.told["nodes"]
        self.gone = set(IDset(hand.told["gone"]))
        drained = self.handle.rpc("resource.status", nodeid=0).get()["drain"]
        self.drained = {rank for idset in drained for rank in map(int, IDset(idset))}
        self.windows = {entry["name"] for entry in self.windows_now()}
        self.broker = int(self.handle.attr_get("broker.pid"))

    def actions(self):
        """(weight, action) of each."""
        return [
            (0.05, self.drain),
            (0.06, self.undrain),
            (0.05, self.reload),
            (0.04, self.add_window),
            (0.02, self.remove_window),
            (0.03, self.configure),
            (0.02, self.stop),
            (0.01, self.lose),
        ]

    def command(self, *words, stdin="", wrong=False):
        """``flux WORDS``; that it fails is a problem, or if it is *wrong* that it does not."""
        done = subprocess.run(
            ["flux", *words], capture_output=True, text=True, timeout=120, input=stdin
        )
        if (done.returncode == 0) == wrong:
            self.hand.problem(f"flux {' '.join(words)} {stdin}: {done.stderr.strip() or 'taken'}")
        return done.stdout

    def everything_back(self):
        """All nodes in use, no windows, the plain configuration, a scheduler of treepool."""
        self.undrain(everything=True)
        self.load_table({})
        self.reload(SCHEDULERS)
        while self.windows:
            self.remove_window()

    # -- nodes

    def drain(self):
        """Drain a few nodes, mostly of those that are used first."""
        last = self.chance.choice([min(self.nodes, 16), min(self.nodes, 64), self.nodes]) - 1
        first = self.chance.randint(0, last)
        ranks = set(range(first, min(last, first + self.chance.choice([0, 1, 7])) + 1))
        new = ranks - self.drained - self.gone
        if new and len(self.drained | new) <= self.nodes // 4:
            told = {"targets": str(IDset(sorted(new))), "reason": "soak"}
            self.handle.rpc("resource.drain", told, nodeid=0).get()
            self.drained |= new
            self.hand.counts["drains"] += 1

    def undrain(self, everything=False):
        """Give back some of the drained nodes."""
        if self.drained:
            some = len(self.drained) if everything else self.chance.randint(1, len(self.drained))
            back = self.chance.sample(sorted(self.drained), some)
            told = {"targets": str(IDset(sorted(back)))}
            self.handle.rpc("resource.undrain", told, nodeid=0).get()
            self.drained -= set(back)
            self.hand.counts["undrains"] += 1

    def lose(self):
        """Lose a broker until the instance is started again, where that takes its node away."""
        left = set(IDset(self.hand.told["lost"])) - self.gone
        if left and not self.hand.told["settle"]:
            rank = self.chance.choice(sorted(left))
            self.command("overlay", "disconnect", str(rank))
            self.gone.add(rank)
            self.drained.discard(rank)
            self.hand.note("lost", json.dumps([rank, time.time()]))
            self.hand.counts["brokers lost"] += 1

    # -- the queues

    def stop(self):
        """Stop a queue for a moment."""
        queue = self.chance.choice(QUEUES)
        self.command("queue", "stop", "--quiet", queue)
        time.sleep(self.chance.uniform(0, 1))
        self.command("queue", "start", "--quiet", queue)
        self.hand.counts["queue stops"] += 1

    # -- the scheduler

    def loaded(self):
        """The names of the schedulers that are loaded."""
        listed = self.command("module", "list").split("\n")
        return [line.split()[0] for line in listed if line.startswith("sched-")]

    def reload(self, known=None):
        """Another scheduler of *known*, or the same again."""
        if known is None:
            settle = self.hand.told["settle"]
            known = [*SCHEDULERS, SIMPLE, SIMPLE] if settle else SCHEDULERS
        new = self.chance.choice(known)
        while new == SIMPLE and self.windows:  # which knows of none
            self.remove_window()
        self.measure()
        for name in self.loaded():
            self.command("module", "remove", name)
        self.command("module", "load", *new)
        self.hand.counts["reloads"] += 1

    def configure(self):
        """Another table in the configuration, or one that is refused."""
        wrong = self.chance.random() < 0.3 and self.loaded() == ["sched-treepool"]
        if wrong:
            self.load_table(self.chance.choice(WRONG), wrong)
        self.load_table(self.chance.choice(TABLES))
        self.hand.counts["configurations"] += 1 + wrong

    def load_table(self, table, wrong=False):
        """Load the configuration with *table*."""
        conf = {**self.handle.rpc("config.get").get(), "sched-treepool": table}
        self.command("config", "load", stdin=json.dumps(conf), wrong=wrong)

    def measure(self):
        """Note what the module has measured of itself, and how large it and the broker are."""
        with suppress(OSError):
            numbers = self.handle.rpc("sched-treepool.numbers", {}).get()
            sizes = [resident(pid) for pid in (self.broker, module_of(self.broker))]
            told = {"time": time.time(), "steps": numbers["steps"], "resident": sizes}
            self.hand.note("measured", json.dumps(told))

    # -- windows

    def windows_now(self):
        """The windows that the scheduler has; none if it knows of none."""
        with suppress(OSError):
            return self.handle.rpc("sched-treepool.window-list").get()["windows"]
        return []

    def add_window(self):
        """Keep some nodes, soon and for a while, from all jobs, or for a queue."""
        if len(self.windows) >= WINDOWS or self.loaded() != ["sched-treepool"]:
            return
        first = self.chance.randint(0, self.nodes - 1)
        last = min(self.nodes - 1, first + self.chance.choice([0, 3, 40]))
        ranks = IDset(sorted({*range(first, last + 1)} - self.gone))
        if not ranks:
            return
        start = time.time() + self.chance.uniform(-5, 30)
        window = {
            "name": f"w{time.time_ns()}",
            "hosts": f"fake[{ranks}]",
            "start": start,
            "end": start + self.chance.uniform(10, 40),
            **self.chance.choice([{}, {"queues": [self.chance.choice(QUEUES)]}, {"users": [4242]}]),
        }
        self.handle.rpc("sched-treepool.window-add", window).get()
        self.windows.add(window["name"])
        told = {**window, "ranks": str(ranks), "added": time.time()}
        self.hand.note("windows", json.dumps(told))

    def remove_window(self):
        """Give up one of the windows, if it is not over."""
        if self.windows:
            name = self.windows.pop()
            self.hand.note("windows", json.dumps({"name": name, "removed": time.time()}))
            with suppress(OSError):
                self.handle.rpc("sched-treepool.window-remove", {"name": name}).get()


def module_of(broker):
    """The process id of sched-treepool below that of a broker; None if there is none."""
    for children in Path(f"/proc/{broker}/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, children.read_text().split()):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sched-treepool"):
                    return pid
    return None


def resident(pid):
    """The resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) if pid else 0
    return round(pages * 4096 / (1 << 20), 1)


def worked(pid):
    """The CPU time of a process, in seconds; None if it is not there."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return None
