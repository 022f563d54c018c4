"""Questions to the scheduler: what can be asked, how much at a time, and what is answered."""

import json
import re

import pytest

from broker import GUEST, REPOSITORY

DOCUMENT = REPOSITORY / "doc/questions.md"

#: Sends the questions of stdin all at once: [topic, payload, whether it streams]. Prints the
#: answers to each, the last of which is an error or null.
SCRIPT = """
import json, sys
import flux
from flux.constants import FLUX_RPC_STREAMING

handle = flux.Flux()
futures = []
for topic, payload, streams in json.load(sys.stdin):
    flags = FLUX_RPC_STREAMING if streams else 0
    futures.append((handle.rpc("sched-treepool." + topic, payload, nodeid=0, flags=flags), streams))
for future, streams in futures:
    answers = []
    try:
        answers.append(future.get())
        while streams:
            future.reset()
            answers.append(future.get())
        answers.append(None)
    except OSError as e:
        answers.append([e.errno, e.strerror])
    print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def instance(cluster):
    """600 jobs, of which 480 run."""
    cluster.load("sched-treepool", "policy=easy")
    cluster.submit("--cc=1-600", "-t1h", "-n1", "-c4")
    assert cluster.soon(lambda: cluster.stats()["pending_jobs"] == 120, 30)
    yield cluster
    cluster.cancel_all()


def answers(instance, *questions, guest=True):
    """The answers to each of *questions*: (topic, payload) or (topic, payload, streams)."""
    full = [(*question, False)[:3] for question in questions]
    asking = instance.with_env(**(GUEST if guest else {}))
    return [
        json.loads(line)
        for line in asking.flux("python", "-c", SCRIPT, stdin=json.dumps(full)).splitlines()
    ]


def slot(cores=1):
    inside = [{"type": "core", "count": cores}]
    return [{"type": "slot", "count": 1, "label": "s", "with": inside}]


#: Sends bytes that are no text in C; prints the errno of the answer.
RAW = """
import flux
from flux.core.inner import ffi, lib

handle = flux.Flux()
future = lib.flux_rpc_raw(handle.handle, b"sched-treepool.job", b"abc", 3, 0, 0)
print(ffi.errno if lib.flux_rpc_get(future, ffi.NULL) < 0 else 0)
"""


def test_what_is_no_text_is_refused_and_fills_no_log(instance):
    asking = instance.with_env(**GUEST)
    assert asking.flux("python", "-c", RAW).strip() == "71"
    assert "question" not in instance.log()


def test_every_key_of_an_answer_is_documented(instance):
    pending = instance.flux("jobs", "-no", "{id.dec}", "--filter=pending").split()
    running = instance.flux("jobs", "-no", "{id.dec}", "--filter=running").split()
    said = answers(
        instance,
        ("look", {}, True),
        ("jobs", {}, True),
        ("job", {"id": int(pending[0])}),
        ("job", {"id": int(running[0])}),
        ("ask", {"resources": slot(), "duration": 60}),
        ("ask", {"resources": slot(121)}),
        ("try", {"jobs": [{"resources": slot(1)}, {"resources": slot(121)}, {}]}, True),
        ("numbers", {}),
        ("totals", {}),
    )
    documented = set(re.findall(r"`([a-z0-9_]+|R)`", DOCUMENT.read_text()))
    for one in said:
        for answer in one[:-1]:
            keys = {key for key in answer if not key.startswith(("sched_", "forecast_"))}
            assert keys <= documented | {"version"}
    numbers = said[-2][0]
    for name in ("passes", "jobs", "free"):
        assert set(numbers[name]) <= documented


def test_what_is_open_at_unload_is_answered(instance):
    listed = instance.flux("jobs", "-no", "{id.dec}", "--filter=pending").splitlines()
    questions = [("job", {"id": int(listed[-1 - i])}) for i in range(10)]
    remove = 'handle.rpc("module.remove", {"name": "sched-treepool"})'
    script = SCRIPT.replace("for future,", f"{remove}\nfor future,")
    full = [(*question, False) for question in questions]
    said = instance.flux("python", "-c", script, stdin=json.dumps(full)).splitlines()
    assert len(said) == 10
    instance.load("sched-treepool", "policy=easy")
