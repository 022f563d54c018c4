"""Pages for those who come from other systems: their tables, and what the job of a row gets."""

import json
import re
import shlex

from broker import REPOSITORY, Instance
from treepool.rfc import idset

R = json.loads((REPOSITORY / "doc" / "fabric.json").read_text())


def table(page, heading):
    """The rows of the *page*'s table whose first line begins with *heading*."""
    rows = page.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip().strip("|").split(" | ")] for row in rows]


def codes(text):
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def machine():
    """The 32 nodes of doc/fabric.json, with memory, properties and queues."""
    key = R["scheduling"]
    topo = key["children"][0]["topo"]
    sockets = [{**socket, "memory": 128} for socket in topo["socket"]]
    children = [{**key["children"][0], "topo": {**topo, "socket": sockets}}]
    conf = [
        "queues.batch.requires=[]",
        "queues.debug.requires=[]",
        'policy.jobspec.defaults.system.queue="batch"',
    ]
    properties = {"gpu-a100": "0-31", "fast": "0-15", "ib": "8-31"}
    env = {"TREEPOOL_TEST_PROPERTIES": json.dumps(properties)}
    return Instance(32, 96, 4, {**key, "children": children}, conf=conf, env=env)


def begin(instance):
    """Load the scheduler, and start the queues."""
    instance.load("sched-treepool")
    instance.flux("queue", "start", "--all", "--quiet")


def gets(instance, words):
    """(ranks, cores, GPUs, switches) of the job of ``flux submit WORDS``, which then ends."""
    # Fake nodes have no host that Flux would find: their ranks stand for them.
    job = instance.submit(*shlex.split(words.replace("host:n", "rank:")))
    ranks, cores, gpus = set(), 0, 0
    for entry in instance.R(job)["execution"]["R_lite"]:
        here = set(idset.iterate(idset.decode(entry["rank"])))
        ranks |= here
        cores += len(here) * idset.size(idset.decode(entry["children"]["core"]))
        gpus += len(here) * idset.size(idset.decode(entry["children"].get("gpu", "")))
    instance.flux("cancel", job)
    instance.wait(job, "clean")
    return ranks, cores, gpus, len({rank // 8 for rank in ranks})


def run(instance, command):
    """Run a *command* of the page; its ID is a job that runs, or one that waits (urgency)."""
    job = instance.submit("-n1")
    instance.wait(job, "alloc")
    if "urgency" in command:
        job = instance.submit("-N32", "-n32", "--exclusive")
    try:
        words = shlex.split(command.replace("ID", job))
        assert words[0] == "flux"
        instance.flux(*words[1:])
    finally:
        instance.cancel_all()
