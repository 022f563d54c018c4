"""Windows in a real instance: in Flux's words and roles, and that a restart keeps them.

``told.py`` has what they keep away, whom they admit, and what is told of it.
"""

import json
import time

import pytest

from broker import GUEST, Instance
from schemas import conforms


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def instance(state):
    with Instance(2, 4, 0, options=[f"-Sstatedir={state}"]) as instance:
        instance.load("sched-treepool")
        yield instance


def window(instance, *words):
    return instance.run("treepool", "window", *words)


def listed(instance):
    done = window(instance, "list", "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for line in found:
        conforms(line, "window")
    return found


GOOD = ["--hosts=fake0", "--start=+1h", "--duration=1h", "--name=w"]


@pytest.mark.parametrize(
    "words, status, said",
    [
        (["add", *GOOD, "--hosts=fake[0-9]"], 1, "no host 'fake2', 'fake3'"),
        (["add", *GOOD, "--user=nobody-of-this-name"], 1, "no user 'nobody-of-this-name'"),
        (["add", *GOOD, "--queue=night"], 1, "no queue 'night'"),
        (["add", *GOOD, "--start=yestermorrow"], 2, "--start: 'yestermorrow'"),
        (["add", *GOOD, "--duration=1000000000d"], 2, "--duration: '1000000000d': is out of"),
        (
            ["add", "--hosts=fake0", "--start=yesterday 8am", "--duration=2h"],
            1,
            "argument --start: 'yesterday 8am': the window is over already: it ends at ",
        ),
        (["remove", "nothing"], 1, "there is no window 'nothing'"),
        (["remove", "\udcff"], 1, "there is no window '\\udcff'"),
    ],
)
def test_what_cannot_be_is_one_line(instance, words, status, said):
    done = window(instance, *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
    assert said in done.stderr
    assert listed(instance) == []


def test_what_the_owner_adds_in_flux_s_words_guests_see_and_a_restart_keeps(instance, state):
    for start in ("2127-01-01", "2127-01-01 8am"):  # a date is its midnight
        words = ("--hosts=fake0", f"--start={start}", "--duration=1h", f"--name=w{len(start)}")
        assert window(instance, "add", *words).returncode == 0
    first, second = (entry["start"] for entry in listed(instance))
    assert time.strftime("%H:%M", time.localtime(first)) == "00:00"
    assert second - first == 8 * 3600
    guest = instance.with_env(**GUEST)
    before = listed(guest)
    for words in (["remove", "w10"], ["add", *GOOD]):
        done = window(guest, *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert "owner" in done.stderr
    again = window(instance, "add", *GOOD[:3], "--name=w10")
    assert "argument --name: there is a window 'w10' already" in again.stderr
    assert listed(instance) == before
    instance.close()
    with Instance(2, 4, 0, options=[f"-Sstatedir={state}"]) as after:
        after.load("sched-treepool")
        assert listed(after) == before
