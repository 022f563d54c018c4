"""doc/slurm.md: every command in it, run in a real instance, and what its job gets."""

import json
import re
import shlex

import pytest

from broker import REPOSITORY, Instance
from treepool.flux import options
from treepool.rfc import idset

PAGE = (REPOSITORY / "doc" / "slurm.md").read_text()
R = json.loads((REPOSITORY / "doc" / "fabric.json").read_text())

#: What the job of each row gets: nodes, cores and GPUs on all of them, and switches.
GETS = {
    "-n8 -c4": (1, 32, 0, 1),
    "-N4 -n32 -c4": (4, 128, 0, 1),
    "-N4 -n32": (4, 32, 0, 1),
    "-N2 -n2 --exclusive": (2, 192, 8, 1),
    "-n8 -c24 -g1": (2, 192, 8, 1),
    "-N2 -n2 -g2": (2, 2, 4, 1),
    "-n8 -g1": (2, 8, 8, 1),
    "--gpu num=2:gmodel=A100": (1, 1, 2, 1),
    "--resources-shape=socket=2/slot=2/core=4": (1, 16, 0, 1),
    "-n4 -c4 --memory=64GiB": (1, 16, 0, 1),
    '--requires="fast&ib" -n1': (1, 1, 0, 1),
    "--requires=host:n1 -n1": (1, 1, 0, 1),
    "--requires=-host:n3 -n1": (1, 1, 0, 1),
    "--queue=debug -n1": (1, 1, 0, 1),
    "-t 1h -n1": (1, 1, 0, 1),
    "-N8 -n8 --switches=1": (8, 8, 0, 1),
    "-N8 -n8 --switches=1@10:00": (8, 8, 0, 1),
    "-N12 -n12 --switches=2": (12, 12, 0, 2),
    "--resources-shape=switch=2/node=6/slot/core=96": (12, 1152, 0, 2),
    "-N12 -n12 --locality-wait=10m": (12, 12, 0, 2),
    "-N12 -n12 --within=cell": (12, 12, 0, 2),
    "-N16 -n16 --segment=switch:4": (16, 16, 0, 2),
    "--resources-shape=slot/switch{x}/node/core": (8, 768, 32, 1),
}


def table(heading):
    """The rows of the page's table whose first cell begins with *heading*."""
    rows = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def codes(text):
    return re.findall(r"`([^`]+)`", text)


@pytest.fixture(scope="module")
def cluster():
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
    with Instance(32, 96, 4, {**key, "children": children}, conf=conf, env=env) as instance:
        instance.load("sched-treepool")
        instance.flux("queue", "start", "--all", "--quiet")
        yield instance
        instance.cancel_all()


def test_every_row_has_a_job():
    assert {codes(row[1])[0] for row in table("Slurm | `flux submit` | the job gets")} == set(GETS)


@pytest.mark.parametrize("words", GETS)
def test_the_job_of_a_row_gets_what_stands_beside_it(cluster, words):
    # Fake nodes have no host that Flux would find: their ranks stand for them.
    job = cluster.submit(*shlex.split(words.replace("host:n", "rank:")))
    ranks, cores, gpus = set(), 0, 0
    for entry in cluster.R(job)["execution"]["R_lite"]:
        here = set(idset.iterate(idset.decode(entry["rank"])))
        ranks |= here
        cores += len(here) * idset.size(idset.decode(entry["children"]["core"]))
        gpus += len(here) * idset.size(idset.decode(entry["children"].get("gpu", "")))
    cluster.flux("cancel", job)
    cluster.wait(job, "clean")
    assert (len(ranks), cores, gpus, len({rank // 8 for rank in ranks})) == GETS[words]
    if "=host:n1" in words:
        assert ranks == {1}
    if "fast&ib" in words:
        assert ranks <= set(range(8, 16))


def commands():
    return [code for row in table("Slurm | here") for code in codes(row[1])]


@pytest.mark.parametrize("command", [code for code in commands() if "cancel" not in code])
def test_a_command_of_the_page_does_what_it_says(cluster, command):
    job = cluster.submit("-n1")
    cluster.wait(job, "alloc")
    words = shlex.split(command.replace("ID", job))
    assert words[0] == "flux"
    cluster.flux(*words[1:])
    cluster.flux("cancel", job)


def test_the_options_of_the_scheduler_are_options():
    rows = table("`slurm.conf` and others | `sched-treepool` ([admin.md](admin.md))")
    found = [code for row in rows for code in codes(row[1]) if re.match("[a-z][a-z-]+=", code)]
    assert len(found) == 6
    for code in found:
        options.read([code])
