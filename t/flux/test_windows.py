"""Windows in real instances: what they keep away, who may come in, and that they are kept."""

import json
import subprocess
import time

import pytest

from broker import PATIENCE, Instance
from schemas import conforms

TREEPOOL = ("sched-treepool", "policy=easy")


@pytest.fixture(scope="module")
def two():
    """Two nodes of four cores, with two queues."""
    conf = ["queues.batch.requires=[]", "queues.debug.requires=[]"]
    with Instance(2, 4, 0, conf=conf) as instance:
        instance.load(*TREEPOOL)
        instance.flux("queue", "start", "--all", "--quiet")
        yield instance


@pytest.fixture(autouse=True)
def tidy(two):
    """Ends what a test leaves."""
    yield
    two.cancel_all()
    for window in listed(two):
        two.flux("treepool", "window", "remove", window["name"])


def window(instance, *words):
    return instance.run("treepool", "window", *words)


def add(instance, *words, hosts="fake[0-1]", start="+1h", duration="1h", name="maint"):
    done = window(instance, "add", "--hosts", hosts, "--start", start, "--duration", duration,
                  "--name", name, *words)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def listed(instance):
    done = window(instance, "list", "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for line in found:
        conforms(line, "window")
    return found


def submit(instance, *words, queue="batch"):
    return instance.submit(f"--queue={queue}", *words)


def pending(instance, job):
    instance.settle()
    return instance.state(job) == "S"


def reason(instance, job):
    """What *job* is told; the scheduler tells at most every few seconds, when something happens."""
    for _ in range(15):
        told = instance.annotation(job, "reason_pending")
        if told:
            break
        time.sleep(1)
        submit(instance, "-t2h", "-n1")
    return told


def test_a_job_that_would_reach_into_a_window_waits_and_a_short_one_runs(two):
    add(two)
    long, endless = submit(two, "-t2h", "-n1"), submit(two, "-n1", queue="debug")
    assert pending(two, long)
    assert pending(two, endless)
    assert reason(two, long).startswith("window maint")
    short = submit(two, "-t30m", "-n1")
    two.wait(short, "alloc")
    assert pending(two, long)


def test_other_nodes_stay_in_use(two):
    add(two, hosts="fake0")
    assert two.placed(submit(two, "-t2h", "-n1"))[0][0] == "1"


def test_a_window_of_a_queue_admits_its_jobs_and_those_that_wait_already(two):
    add(two, "--queue=debug", start="now")
    kept, admitted = submit(two, "-t10m", "-n1"), submit(two, "-t10m", "-n1", queue="debug")
    two.wait(admitted, "alloc")
    assert pending(two, kept)
    two.flux("treepool", "window", "remove", "maint")
    two.wait(kept, "alloc")
    two.cancel_all()
    add(two, start="now")
    waiting = submit(two, "-t10m", "-n1", queue="debug")
    assert pending(two, waiting)
    two.flux("treepool", "window", "remove", "maint")
    two.cancel_all()


def test_jobs_that_wait_have_the_leave_that_a_changed_window_gives(two):
    add(two, "--queue=debug", start="+5m")
    add(two, start="now", name="first")
    waiting = submit(two, "-t1h", "-n1", queue="debug")
    assert pending(two, waiting)
    two.flux("treepool", "window", "remove", "maint")
    add(two, start="+5m")  # of the same name, for nobody
    two.flux("treepool", "window", "remove", "first")
    assert pending(two, waiting)
    two.flux("treepool", "window", "remove", "maint")
    two.wait(waiting, "alloc")


def test_a_window_of_a_user_admits_the_user(two):
    user = two.flux("getattr", "security.owner")
    add(two, f"--user={user}", start="now")
    job = submit(two, "-n1")
    two.wait(job, "alloc")
    (entry,) = listed(two)
    assert entry["users"] == [int(user)]


def test_remove_lets_the_job_start(two):
    add(two)
    job = submit(two, "-t2h", "-n1")
    assert pending(two, job)
    assert two.flux("treepool", "window", "remove", "maint") == "removed window maint"
    two.wait(job, "alloc")


def test_running_jobs_that_may_reach_into_it_are_named(two):
    job, short = submit(two, "-t2h", "-n1"), submit(two, "-t10m", "-n1")
    two.wait(short, "alloc")
    said = add(two)
    assert said.stderr.strip().endswith(f"these jobs may still run when it starts: {job}")
    two.flux("treepool", "window", "remove", "maint")
    assert add(two, "--queue=batch").stderr == ""
    two.load(*TREEPOOL)
    two.flux("treepool", "window", "remove", "maint")
    assert add(two, "--queue=batch").stderr == "", "of a scheduler before, too"
    two.flux("treepool", "window", "remove", "maint")
    assert job in add(two, "--queue=debug").stderr


def test_a_reload_keeps_windows_and_who_may_come_in(two):
    add(two, "--queue=debug", start="now")
    before = listed(two)
    two.load(*TREEPOOL)
    assert listed(two) == before
    kept, admitted = submit(two, "-t10m", "-n1"), submit(two, "-t10m", "-n1", queue="debug")
    two.wait(admitted, "alloc")
    assert pending(two, kept)


def test_a_job_starts_when_a_window_ends_that_came_before_a_later_one(two):
    add(two, start="+1h", name="later")
    add(two, start="now", duration="4s")
    job = submit(two, "-t10m", "-n1")
    assert pending(two, job)
    two.wait(job, "alloc")


def test_a_window_that_is_over_leaves_the_list_and_the_kvs(two):
    add(two, start="now", duration="1s")
    job = submit(two, "-t10m", "-n1")
    two.wait(job, "alloc")
    assert listed(two) == []
    two.load(*TREEPOOL)
    assert listed(two) == []  # it answers when it is ready, after the command that loads it
    assert json.loads(two.flux("kvs", "get", "sched-treepool.windows")) == []


def test_windows_get_names_of_their_own_also_at_once(two):
    words = ("flux", "treepool", "window", "add", "--hosts=fake0", "--start=+1h", "--duration=1h")
    adding = [
        subprocess.Popen(words, env=two.env, stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    told = sorted(process.communicate(timeout=PATIENCE)[0] for process in adding)
    names = [f"window{number}" for number in range(1, 9)]
    assert [line.split(":")[0] for line in told] == [f"added window {name}" for name in names]
    assert sorted(entry["name"] for entry in listed(two)) == names


@pytest.mark.parametrize(
    "start", ["2127-01-01T08:00:00Z", "2127-01-01T10:00+02:00", "2127-01-01 08:00:00+00:00"]
)
def test_a_time_may_be_iso_8601_as_in_the_configuration(two, start):
    add(two, start=start)
    assert [entry["start"] for entry in listed(two)] == [4954464000]


def test_a_date_is_its_midnight_and_flux_s_own_form_of_a_time_holds_beside_it(two):
    for start in ("2127-01-01", "2127-01-01 8am"):
        add(two, start=start, name=f"w{len(start)}")
    first, second = (entry["start"] for entry in listed(two))
    assert time.strftime("%H:%M", time.localtime(first)) == "00:00"
    assert second - first == 8 * 3600


def test_what_shows_the_instance_shows_its_windows(two):
    add(two)
    job = submit(two, "-t2h", "-n1")
    assert pending(two, job)
    for words in (["status"], ["show", "--instance"]):
        assert "window maint: fake[0-1], from " in two.flux("treepool", *words)
    assert reason(two, job).startswith("window maint")
    said = two.run("treepool", "explain", job).stdout
    assert "it may not reach into window maint: fake[0-1], from " in said
    line = json.loads(two.run("treepool", "explain", job, "--json").stdout)
    conforms(line, "explain-job")
    first, *_ = two.flux("treepool", "status", "--json").splitlines()
    conforms(json.loads(first), "status-window")
    assert line["window"] == json.loads(first)["window"]
    table = window(two, "list").stdout.splitlines()
    assert table[0].split() == ["name", "hosts", "start", "end", "for", "source"]
    assert table[1].startswith("maint  fake[0-1]  ")
    assert table[1].endswith("nobody  kvs")


GOOD = ["--hosts=fake0", "--start=+1h", "--duration=1h", "--name=w"]


@pytest.mark.parametrize(
    "words, status, said",
    [
        (["add", *GOOD, "--hosts=fake[0-9]"], 1, "no host 'fake2', 'fake3'"),
        (["add", *GOOD, "--hosts=n[1-"], 2, "--hosts: "),
        (["add", *GOOD, "--user=nobody-of-this-name"], 1, "no user 'nobody-of-this-name'"),
        (["add", *GOOD, "--queue=night"], 1, "no queue 'night'"),
        (["add", *GOOD, "--name=a b"], 2, "--name: "),
        (["add", *GOOD, "--start=yestermorrow"], 2, "--start: 'yestermorrow'"),
        (["add", *GOOD, "--start=2127-01-01T25:00"], 2, "is not an ISO 8601 time from 1970 to"),
        (["add", *GOOD, "--duration=0s"], 2, "--duration: "),
        (["add", *GOOD, "--duration=inf"], 2, "--duration: "),
        (["add", *GOOD, "--duration=1000000000d"], 2, "--duration: '1000000000d': is out of"),
        (["add", *GOOD, "--end=now"], 2, "not allowed with argument"),
        (["add", *GOOD[:2], "--end=now"], 2, "--end: must be later than the start"),
        (["add", "--hosts=fake0", "--start=1000", "--end=2000"], 1, "argument --end: has passed"),
        (
            ["add", "--hosts=fake0", "--start=yesterday 8am", "--duration=2h"],
            1,
            "argument --start: 'yesterday 8am': the window is over already: it ends at ",
        ),
        (["remove", "nothing"], 1, "there is no window 'nothing'"),
    ],
)
def test_what_cannot_be_is_one_line(two, words, status, said):
    done = window(two, *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
    assert said in done.stderr
    assert listed(two) == []


def test_a_name_is_given_once(two):
    add(two)
    done = window(two, "add", *GOOD[:3], "--name=maint")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "argument --name: there is a window 'maint' already" in done.stderr


def test_guests_see_windows_and_change_none(two, monkeypatch):
    add(two)
    monkeypatch.setitem(two.env, "FLUX_HANDLE_USERID", "12345")
    monkeypatch.setitem(two.env, "FLUX_HANDLE_ROLEMASK", "0x2")
    assert [entry["name"] for entry in listed(two)] == ["maint"]
    for words in (["remove", "maint"], ["add", *GOOD]):
        done = window(two, *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert "owner" in done.stderr


def test_another_scheduler_has_no_windows(two):
    two.load("sched-simple")
    try:
        done = window(two, "list")
        assert done.returncode == 2
        told = (
            "treepool window: this instance runs sched-simple, not sched-treepool (for an instance"
        )
        assert done.stderr.startswith(told) and done.stderr.count("\n") == 1
    finally:
        two.load(*TREEPOOL)


def test_a_request_of_any_form_is_answered(two):
    done = two.run("python", "-c", RPCS)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    assert all(
        "[Errno 22] " in line and "Traceback" not in line for line in done.stdout.splitlines()
    )
    assert listed(two) == []


RPCS = """
import flux
handle = flux.Flux()
for what in ("add", "remove"):
    for payload in (None, [], 7, {"name": 7}, {}, {"name": None}):
        try:
            print(handle.rpc(f"sched-treepool.window-{what}", payload).get())
        except OSError as e:
            print(e)
"""


def test_windows_of_the_configuration_cannot_be_removed_by_command():
    end = int(time.time()) + 7200
    entry = f'[{{"name":"conf","hosts":"fake0,gone","start":"2026-01-01T00:00:00Z","end":{end}}}]'
    with Instance(2, 4, 0, conf=[f"sched-treepool.windows={entry}"]) as instance:
        instance.load("sched-treepool")
        (found,) = listed(instance)
        assert (found["name"], found["source"]) == ("conf", "configuration")
        assert "window conf: this instance has no host 'gone'" in instance.log()
        assert instance.placed(instance.submit("-n1"))[0][0] == "1"
        done = window(instance, "remove", "conf")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert "remove it there" in done.stderr
        assert "already" in window(instance, "add", *GOOD[:3], "--name=conf").stderr


def test_invalid_windows_of_the_configuration_fail_the_load():
    entry = '[{"name":"conf","hosts":"fake0","start":5,"end":4}]'
    with Instance(2, 4, 0, conf=[f"sched-treepool.windows={entry}"]) as instance:
        instance.flux("module", "remove", "sched-simple")
        assert instance.run("module", "load", "sched-treepool").returncode != 0
        said = "configuration: sched-treepool.windows: /0/end: must be later than the start"
        assert f"sched-treepool.err[0]: {said}" in instance.log()
        instance.flux("module", "load", "sched-simple")


def test_a_restart_of_the_instance_keeps_windows(tmp_path):
    found = []
    for first in (True, False):
        with Instance(2, 4, 0, options=[f"-Sstatedir={tmp_path}"]) as instance:
            instance.load("sched-treepool")
            if first:
                add(instance)
            found.append(listed(instance))
    assert found[0] == found[1]
    assert len(found[0]) == 1
