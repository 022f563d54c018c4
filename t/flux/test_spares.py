"""Spare nodes of an instance in a job: nodes are drained, come back, and are lost for good."""

import json

import pytest

from broker import QUICK_BROKERS, REPOSITORY
from documents import blocks
from schemas import conforms


@pytest.fixture
def inner(four):
    """An instance in a job on all four, of which one is a spare, as its user asks for it."""
    four.load("sched-treepool")
    guide = (REPOSITORY / "doc" / "reservations.md").read_text()
    (typed,) = (line for block in blocks(guide, "sh") for line in block.splitlines()
                if "spares" in line)  # fmt: skip
    words = typed.replace("-N17", "-N4").split()[1:-1]
    options = ["exit-timeout=none", "cpu-affinity=off", "gpu-affinity=off"]
    here = [f"--conf={one}" for one in ("tbon.topo=kary:0", "resource.noverify=true")]
    here += ["--exclusive", "--output=/dev/null", *(f"-o{option}" for option in options)]
    here += [f"--broker-opts={option}" for option in QUICK_BROKERS]
    script = "flux kvs put ready=1; exec sleep inf"
    instance = four.inside(four.flux(*words, *here, "--wrap", *script.split()))
    instance.scheduler = "sched-treepool"
    assert instance.soon(lambda: instance.resources("free")[0] == 4)
    yield instance
    four.cancel_all()


def spares(instance):
    """The spare nodes, as ``window list`` has them; and the job of all others starts."""
    (line,) = instance.flux("treepool", "window", "list", "--json").splitlines()
    conforms(json.loads(line), "window")
    return json.loads(line)["hosts"]


def submit(instance, nodes):
    return instance.submit(f"-N{nodes}", f"-n{nodes}", "--exclusive")


def test_jobs_of_all_other_nodes_run_whether_a_node_is_drained_returns_or_is_lost(inner):
    assert spares(inner) == "fake3"
    refused = inner.run("submit", "-N4", "-n4", "true")
    told = refused.stderr or inner.wait(refused.stdout.strip(), "exception")["note"]
    assert told.strip().endswith("of those in the pool, 3 can serve it, beside 1 spare node")
    first = submit(inner, 3)
    inner.wait(first, "alloc")
    waits = submit(inner, 1)
    assert inner.waits(waits)
    assert "spare nodes: fake3, until others fail" in inner.flux("treepool", "status")
    explained = inner.run("treepool", "explain", waits).stdout
    assert "what is free is kept as spare" in explained
    assert "it may not reach into spare nodes: fake3, until others fail" in explained

    inner.flux("resource", "drain", "1")
    inner.wait(waits, "alloc")
    assert inner.placed(waits)[0][0] == "3" and spares(inner) == ""
    assert inner.state(first) == "R", "no job ends for it"
    assert "spare nodes: none left" in inner.flux("treepool", "status")
    inner.cancel_all()
    again = submit(inner, 3)
    inner.wait(again, "alloc")
    assert inner.placed(again)[0][0] == "0,2-3"
    inner.flux("resource", "undrain", "1")
    assert inner.soon(lambda: spares(inner) == "fake1")
    inner.cancel_all()
    assert inner.soon(lambda: spares(inner) == "fake3")

    inner.flux("overlay", "disconnect", "2")
    assert inner.soon(lambda: inner.resources("all")[0] == 3)
    last = submit(inner, 3)
    inner.wait(last, "alloc")
    assert inner.placed(last)[0][0] == "0-1,3" and spares(inner) == ""
    inner.cancel_all()
    taken = inner.run("treepool", "window", "add", "--name=spares", "--hosts=fake0", "--start=now",
                      "--duration=1h")  # fmt: skip
    assert "there is a window" in taken.stderr
    assert "in the configuration" in inner.run("treepool", "window", "remove", "spares").stderr
