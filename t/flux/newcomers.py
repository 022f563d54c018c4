"""Pages for those who come from other systems: their tables, and jobs that run as a row says.

The nodes are brokers of this machine, so that tasks start; their cores and GPUs are in R alone.
"""

import json
import re
import shlex

from broker import REPOSITORY, Instance
from made import nodes
from treepool.rfc import idset

#: What each task of a job says.
TELL = ("sh", "-c", "echo task $FLUX_TASK_RANK")

#: What the package has for ``treepool demo``.
DEMO = REPOSITORY / "treepool" / "flux" / "demo"


def table(page, heading):
    """The rows of the *page*'s table whose first line begins with *heading*."""
    rows = page.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [
        [cell.strip().replace("\\|", "|") for cell in row.strip().strip("|").split(" | ")]
        for row in rows
    ]


def codes(text):
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


class Machine(Instance):
    """An instance with *R*, a broker for each node; *leaf* nodes are in each lowest domain."""

    patience = 300

    def __init__(self, folder, R, leaf, conf=()):
        self.leaf, self.seen = leaf, {}
        self.said = folder / "said"
        (ranks,) = (entry["rank"] for entry in R["execution"]["R_lite"])
        R["execution"]["nodelist"] = [f"fake[{ranks}]"]
        super().__init__(size=idset.size(idset.decode(ranks)), R=R, conf=conf)
        self.load("sched-treepool")

    def gets(self, words):
        """What the job of ``flux submit WORDS`` gets, which runs once for all pages that have it.

        That is its ranks, and the numbers of cores, GPUs, lowest domains and tasks.
        """
        if words not in self.seen:
            self.seen[words] = self.ran(words)
        return self.seen[words]

    def ran(self, words):
        """The same; it runs to its end, and each task tells."""
        options = shlex.split(words.replace("host:n", "host:fake"))
        # This machine has not the cores of R.
        options += ["--setopt=cpu-affinity=off", f"--output={self.said}", "--wait-event=clean"]
        job = self.flux("submit", *options, *TELL, timeout=self.patience)
        tasks = self.said.read_text().splitlines()
        assert sorted(tasks) == sorted(f"task {number}" for number in range(len(tasks)))
        ranks, cores, gpus = set(), 0, 0
        R = json.loads(self.flux("job", "info", job, "R"))
        for entry in R["execution"]["R_lite"]:
            here = set(idset.iterate(idset.decode(entry["rank"])))
            ranks |= here
            cores += len(here) * idset.size(idset.decode(entry["children"]["core"]))
            gpus += len(here) * idset.size(idset.decode(entry["children"].get("gpu", "")))
        return ranks, cores, gpus, len({rank // self.leaf for rank in ranks}), len(tasks)


def guides(folder):
    """The nodes and queues of ``treepool demo``; any queue may use all nodes, so no job waits."""
    R = json.loads((DEMO / "R.json").read_text())
    R["execution"]["properties"].update(batch="0-31", debug="0-31")
    instance = Machine(folder, R, 8, [DEMO / "conf.toml"])
    instance.flux("queue", "start", "--all", "--quiet")
    return instance


def mig(folder):
    """Two nodes, each with a GPU that is divided into MIG instances; there are no queues."""
    topo = {"numa": [{"cores": "0-7", "gpus": "0"}, {"cores": "8-15", "gpus": "1-2"}]}
    topo["numa"][1]["mig-1g.10gb"] = [
        {"cores": "8-11", "gpus": "1"},
        {"cores": "12-15", "gpus": "2"},
    ]
    return Machine(folder, nodes("0-1", "0-15", "0-2", topo), 1)


def run(instance, command):
    """Run a *command* of the page; its ID is a job that runs, or one that waits (urgency)."""
    job = instance.submit("-n1")
    instance.wait(job, "alloc")
    if "urgency" in command:
        job = instance.submit("-N32", "-n32", "--exclusive")
    try:
        words = shlex.split(command.replace("ID", job).replace("--hosts n", "--hosts fake"))
        assert words[0] == "flux"
        instance.flux(*words[1:])
    finally:
        instance.cancel_all()
