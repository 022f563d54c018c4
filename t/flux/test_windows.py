"""Windows in a real instance: in Flux's words and roles, and that a restart keeps them.

``told.py`` has what they keep away, whom they admit, and what is told of it.
"""

import json
import time

import pytest

from broker import GUEST, Instance
from schemas import conforms


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


@pytest.fixture
def restarted(tmp_path):
    """Starts an instance of two nodes, each time with the state of the one before."""

    def start():
        instance = Instance(2, 4, 0, options=[f"-Sstatedir={tmp_path}"])
        instance.load("sched-treepool")
        return instance

    return start


def test_what_the_owner_adds_in_flux_s_words_guests_see_and_a_restart_keeps(restarted):
    with restarted() as instance:
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
    with restarted() as after:
        assert listed(after) == before
