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

from broker import Instance, key_of
from schemas import conforms


def job_id(name):
    return int(subprocess.check_output(["flux", "job", "id", "--to=dec", name]))


@pytest.fixture(scope="module")
def busy():
    """Sixteen nodes: a job of four GPUs, one of two nodes, one that waits; rank 0 is drained."""
    with Instance(16, 120, 8, key_of("rfc49-cluster-a")) as instance:
        instance.load("sched-treepool", "policy=easy")
        instance.near = instance.submit("-n4", "-c8", "-g1")
        instance.wide = instance.submit("-N2", "-n2", "-c60", "-g4", "--job-name=train")
        instance.wait(instance.wide, "alloc")
        instance.waiting = instance.submit("-N16", "-n16", "--exclusive")
        instance.blocked = instance.submit("-N15", "-n15", "--exclusive")
        instance.flux("resource", "drain", "0", "broken")
        instance.settle()
        yield instance


def lines(instance, *words):
    """The lines of JSON that a status prints, without the totals, and the totals."""
    found = [json.loads(x) for x in instance.flux("treepool", "status", *words).splitlines()]
    conforms(found[-1], "status-totals")
    return found[:-1], found[-1]["totals"]


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--users", "--jobs", "--json"),
        ("status", "--prometheus"),
        ("explain", "{near}"),
        ("alloc", "slot=1/core=2"),
        ("where", "{near}"),
        ("window", "list"),
    ],
    ids=" ".join,
)
def test_what_the_scheduler_tells_is_printed_without_the_engine(busy, words):
    """The engine takes as much CPU as all that ``flux jobs`` does: no command is to be slower."""
    tracing = busy.with_env(PYTHONPROFILEIMPORTTIME="1")
    done = tracing.run("treepool", *(word.format(near=busy.near) for word in words))
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and "treepool.flux.libflux" in loaded
    assert not loaded & {"flux", "rich.console", "treepool.placement.pool"}


def test_the_totals_are_those_of_flux(busy):
    _, totals = lines(busy, "--json")
    assert (totals["nodes"], totals["drained"]) == (16, 1)
    assert (totals["cores_used"], totals["gpus_used"]) == busy.resources("allocated")[1:]
    assert totals["cores_free"] == busy.resources("free")[1]


def test_drained_nodes_are_listed_with_the_reason(busy):
    (last,) = [json.loads(x) for x in busy.flux("treepool", "status", "--json").splitlines()][-1:]
    (drained,) = last["drained"]
    assert (drained["ranks"], drained["reason"]) == ("0", "broken")
    assert f"drained: {drained['hosts']}: broken" in busy.flux("treepool", "status")


def test_each_job_has_a_line_with_its_placement(busy):
    jobs, _ = lines(busy, "--jobs", "--json")
    for job in jobs:
        conforms(job, "status-job")
    by_id = {job["job"]: job for job in jobs}
    assert set(by_id) == {busy.near, busy.wide, busy.waiting, busy.blocked}
    for job in (busy.near, busy.wide):
        assert by_id[job]["summary"] == busy.annotation(job, "resource_summary")
        assert f"{by_id[job]['fitness']:.2f}" == busy.annotation(job, "locality")
    assert by_id[busy.wide]["name"] == "train"
    assert by_id[busy.waiting]["placement"] == ""


@pytest.mark.parametrize("form", [(), ("--json",), ("--print-R",), ("--subinstance",)])
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


@pytest.mark.parametrize("words", [[], ["--gpus"]])
def test_jobs_that_wait_are_not_asked_for_unless_they_are_shown(busy, words):
    """A status of an instance with 100,000 of them would otherwise take some seconds."""
    traced = busy.with_env(FLUX_HANDLE_TRACE="1")
    for options, asked in ((words, False), ([*words, "--jobs"], True)):
        done = traced.run("treepool", "status", *options)
        assert done.returncode == 0
        assert "sched-treepool" in done.stderr
        assert (str(job_id(busy.waiting)) in done.stderr) == asked


def test_what_the_scheduler_counts_is_what_one_counts_who_looks_at_the_nodes(busy):
    told = busy.flux("treepool", "status").splitlines()
    assert busy.flux("treepool", "status", "--gpus").splitlines()[: len(told)] == told
    told, looked = (
        [json.loads(x) for x in busy.flux("treepool", "status", "--json", *more).splitlines()]
        for more in ((), ("--gpus",))
    )
    assert looked[-len(told) :] == told


def test_each_gpu_has_a_line_with_its_job(busy):
    gpus, _ = lines(busy, "--gpus", "--json")
    assert len(gpus) == 16 * 8
    for gpu in gpus:
        conforms(gpu, "status-gpu")
    held = [g for g in gpus if g["job"] == busy.near]
    assert [(g["rank"], g["gpu"], g["domain"]) for g in held] == [
        (0, i, f"numa {i}") for i in range(4)
    ]


def test_the_tables_fit_a_terminal(busy):
    said = busy.flux("treepool", "status", "--jobs", "--gpus").splitlines()
    assert all(len(line) <= 120 for line in said)
    (row,) = [line for line in said if line.startswith(busy.wide)]
    assert "train" in row
    assert "fake0/" in row and "rank" not in row


def test_watch_redraws_in_the_same_place_until_it_is_interrupted(busy):
    ours, theirs = pty.openpty()
    words = ["flux", "treepool", "status", "--jobs", "--watch", "0.1"]
    watching = subprocess.Popen(words, env=busy.env, stdin=theirs, stdout=theirs, stderr=theirs)
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


def test_the_numbers_are_for_a_textfile_collector(busy):
    said = busy.flux("treepool", "status", "--prometheus").splitlines()
    assert "treepool_jobs_with_resources 2" in said
    assert busy.run("treepool", "status", "--prometheus", "--jobs").returncode == 2
    assert busy.run("treepool", "status", "--prometheus", "--json").returncode == 2
    assert busy.run("treepool", "status", "--watch", "nan").returncode == 2


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


def test_a_queue_and_a_reason_have_the_jobs_that_wait_for_them(busy):
    def reasons():
        said = busy.flux("treepool", "status", "--prometheus")
        named = r'^treepool_waiting_jobs{queue="",reason="(.*)"} ([1-9]\d*)$'
        return dict(re.findall(named, said, re.M))

    # A job is told anew every few seconds why it waits.
    assert busy.soon(lambda: reasons() == {"down": "1", "in-use": "1"})


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


def test_the_digest_of_a_node_is_for_programs_too(busy):
    (line,) = map(json.loads, busy.flux("treepool", "digest", "--json").splitlines())
    conforms(line, "digest")
    assert busy.flux("treepool", "digest").split() == [line["digest"]]


def test_show_draws_the_instance(busy):
    said = busy.flux("treepool", "show", "--instance", "--ranks", "0")
    assert "fake0  drained" in said
    assert f"job {busy.near}" in said


def test_explain_tells_which_job_another_waits_for(busy):
    said = busy.run("treepool", "explain", busy.blocked)
    assert said.returncode == 1
    assert "there is room for it when this job ends" in said.stdout
    assert f"job {busy.wide}: 120 cores, 8 GPUs" in said.stdout


def test_explain_tells_that_a_job_waits_for_nodes(busy):
    said = busy.run("treepool", "explain", busy.waiting)
    assert said.returncode == 1
    assert "it waits for nodes that are drained" in said.stdout


def test_explain_tells_how_a_running_job_was_placed(busy):
    said = busy.run("treepool", "explain", busy.near)
    assert said.returncode in (0, 1)
    assert "numa" in said.stdout


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


@pytest.mark.parametrize("words", [["status"], ["show", "--instance"]])
def test_without_an_instance_one_line_says_so(busy, words):
    done = busy.with_env(FLUX_URI=None).run("treepool", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
