"""What a person sees of a running instance is what Flux says of it."""

import getpass
import json
import os
import pty
import re
import select
import signal
import subprocess
from contextlib import suppress

import pytest

from schemas import conforms


@pytest.fixture(scope="module")
def busy(cluster):
    """Sixteen nodes: a job of four GPUs, one of two nodes, one that waits; rank 0 is drained."""
    cluster.load("sched-treepool", "policy=easy")
    cluster.near = cluster.submit("-n4", "-c8", "-g1")
    cluster.wide = cluster.submit("-N2", "-n2", "-c60", "-g4", "--job-name=train")
    cluster.wait(cluster.wide, "alloc")
    cluster.waiting = cluster.submit("-N16", "-n16", "--exclusive")
    cluster.blocked = cluster.submit("-N15", "-n15", "--exclusive")
    cluster.flux("resource", "drain", "0", "broken")
    assert cluster.waits(cluster.waiting, cluster.blocked)
    yield cluster
    cluster.flux("resource", "undrain", "0")
    cluster.cancel_all()


def lines(instance, *words):
    """The lines of JSON that a status prints, without the totals, and the totals."""
    found = [json.loads(x) for x in instance.flux("treepool", "status", *words).splitlines()]
    conforms(found[-1], "status-totals")
    return found[:-1], found[-1]["totals"]


def test_what_the_scheduler_tells_is_printed_without_the_engine(busy):
    """The engine takes as much CPU as all that ``flux jobs`` does: no command is to be slower."""
    tracing = busy.with_env(PYTHONPROFILEIMPORTTIME="1")
    for words in (
        ("status", "--users", "--jobs", "--json"),
        ("status", "--prometheus"),
        ("explain", busy.near),
        ("alloc", "slot=1/core=2"),
        ("where", busy.near),
        ("window", "list"),
    ):
        done = tracing.run("treepool", *words)
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert done.returncode == 0 and "treepool.flux.libflux" in loaded
        assert not loaded & {"flux", "rich.console", "treepool.placement.pool"}, words


def test_jobs_gpus_and_totals_are_those_of_flux(busy):
    facts, totals = lines(busy, "--jobs", "--gpus", "--json")
    assert (totals["nodes"], totals["drained"]) == (16, 1)
    assert (totals["cores_used"], totals["gpus_used"]) == busy.resources("allocated")[1:]
    assert totals["cores_free"] == busy.resources("free")[1]
    gpus, jobs = ([fact for fact in facts if kind in fact] for kind in ("gpu", "summary"))
    for kind, those in (("status-gpu", gpus), ("status-job", jobs)):
        for fact in those:
            conforms(fact, kind)
    by_id = {job["job"]: job for job in jobs}
    assert set(by_id) == {busy.near, busy.wide, busy.waiting, busy.blocked}
    for job in (busy.near, busy.wide):
        assert by_id[job]["summary"] == busy.annotation(job, "resource_summary")
        assert f"{by_id[job]['fitness']:.2f}" == busy.annotation(job, "locality")
    assert by_id[busy.wide]["name"] == "train"
    held = [(g["rank"], g["gpu"], g["domain"]) for g in gpus if g["job"] == busy.near]
    assert held == [(0, i, f"numa {i}") for i in range(4)]


@pytest.mark.parametrize("form", [(), ("--print-R",)])
def test_what_several_jobs_would_get_is_what_one_finds_who_allocates_on_a_copy(busy, form):
    shapes = ("slot=2/[core=8;gpu=1]", "slot=13/node{x}", "slot=3/core=50", "slot=17/node{x}")
    words = (
        "treepool",
        "alloc",
        *form,
        "--locality=required",
        *shapes,
        "slot=/x",
        "slot/socket{x}",
    )
    told = busy.run(*words)
    looked = busy.run(*words, "--policy=packing")  # the default: a copy of the nodes has it
    assert told.returncode == looked.returncode == 1
    assert (told.stdout, told.stderr) == (looked.stdout, looked.stderr)
    assert "core" in told.stdout


def test_watch_redraws_in_the_same_place_until_it_is_interrupted(busy):
    ours, theirs = pty.openpty()
    words = ["flux", "treepool", "status", "--jobs", "--watch", "0.1"]
    # In the background of a shell SIGINT is ignored, here and in what is started here.
    heeded = signal.signal(signal.SIGINT, signal.SIG_DFL)
    watching = subprocess.Popen(words, env=busy.env, stdin=theirs, stdout=theirs, stderr=theirs)
    signal.signal(signal.SIGINT, heeded)
    os.close(theirs)
    said = ""
    while said.count("\x1b[H") < 3 and select.select([ours], [], [], 30)[0]:
        said += os.read(ours, 1 << 16).decode()
    watching.send_signal(signal.SIGINT)
    with suppress(OSError):  # it has ended; it could not if nobody read what it still writes
        while select.select([ours], [], [], 30)[0] and os.read(ours, 1 << 16):
            pass
    assert watching.wait(30) in (0, -signal.SIGINT), "Flux lets it end a wait"
    os.close(ours)
    before, first, second, *_ = said.split("\x1b[H")
    assert before == ""
    assert first.startswith("16 nodes: ")
    assert first.rstrip().endswith("\x1b[J")
    assert busy.wide in second


def test_the_states_of_nodes_cores_and_gpus_add_up_to_what_flux_has(busy):
    said = busy.flux("treepool", "status", "--prometheus")
    for place, what in enumerate(("nodes", "cores", "gpus")):
        found = re.findall(rf'^treepool_{what}{{state="(\w+)"}} (\d+)$', said, re.M)
        numbers = {state: int(number) for state, number in found}
        assert sum(numbers.values()) == busy.resources("all")[place]
        if what != "nodes":  # Flux counts a node as free and as allocated if it is both
            for state in ("free", "allocated"):
                assert numbers[state] == busy.resources(state)[place]
        assert bool(numbers["drained"]) == (what != "gpus"), "jobs have all GPUs of the node"


def test_the_owner_sees_what_each_user_has(busy):
    user = getpass.getuser()
    found = [
        json.loads(x) for x in busy.flux("treepool", "status", "--users", "--json").splitlines()
    ]
    conforms(found[0], "status-user")
    assert found[0] == {"version": 1, "user": user, "running": 2, "waiting": 2, "nodes": 2,
                        "cores": busy.resources("allocated")[1], "gpus": 12}  # fmt: skip
    assert re.search(rf"^{user} +2 +2 +2 ", busy.flux("treepool", "status", "--users"), re.M)
    said = busy.flux("treepool", "status", "--users", "--prometheus").splitlines()
    assert f'treepool_user_gpus{{user="{user}"}} 12' in said
    assert "treepool_user" not in busy.flux("treepool", "status", "--prometheus")


def test_the_page_says_which_instance_when_and_what_waits(busy, tmp_path):
    page = tmp_path / "now.html"
    busy.flux("treepool", "show", "--instance", "--html", str(page))
    text = page.read_text()
    said = re.findall(r'<p class="quiet">(.*?)</p>', text)
    user = getpass.getuser()
    assert re.match(rf"Flux instance of {user} at .*, \d{{4}}-\d\d-\d\d \d\d:", said[0])
    assert said[1] == "2 waiting jobs, 1 with a reservation"
    data = json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', text)[1])
    rows = [[job, whose, name] for job, whose, name, *_ in data["waiting"]]
    assert rows == [[job, user, "true"] for job in (busy.waiting, busy.blocked)]
    assert all(why for *_, why, _ in data["waiting"])
    assert data["owners"][busy.near][0] == user
