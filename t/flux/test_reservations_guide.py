"""doc/reservations.md: a DAT from the request to its end, each command of the guide in turn."""

import json
import shlex
import time

import pytest

from broker import REPOSITORY, Instance, key_of
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "reservations.md").read_text()
COMMANDS = [
    line
    for block in blocks(GUIDE, "sh")
    for line in block.splitlines()
    if "spares" not in line  # test_spares.py types it
]

#: What stands in the guide for what is here: who she is, her program, and days that are seconds.
HERE = {
    "--user alice": "--queue dat",
    "./solve": "true",
    "submit --window": "submit -q dat --window",
}


@pytest.fixture(scope="module")
def site():
    """Eight nodes below two switches, with a queue for the one who asks and one for all others."""
    key = key_of("rfc49-cluster-a")
    halves = [{"name": "s0", "ranks": "0-3"}, {"name": "s1", "ranks": "4-7"}]
    conf = ["queues.batch.requires=[]", "queues.dat.requires=[]"]
    with Instance(8, 120, 8, {**key, "fabric": {"switch": halves}}, conf=conf) as site:
        site.load("sched-treepool")
        site.flux("queue", "start", "--all", "--quiet")
        yield site


def typed(site, *days):
    """What the next commands of the guide print, with its *days* (text, seconds from now)."""
    for command in COMMANDS[typed.position :]:
        typed.position += 1
        for theirs, ours in HERE.items():
            command = command.replace(theirs, ours)
        for text, seconds in days:
            command = command.replace(f"'{text}'", f"{time.time() + seconds:.0f}")
        command = command.replace("$(flux job last)", typed.last)
        done = site.run(*shlex.split(command)[1:])
        assert done.returncode == (1 if "explain" in command else 0), (command, done.stderr)
        if "submit" in command and "test-only" not in command:
            typed.last = done.stdout.strip()
        yield done.stdout


typed.position, typed.last = 0, ""


def expiration(site, job):
    updates = site.flux("job", "eventlog", "--format=json", job).splitlines()
    found = [e["context"]["expiration"] for e in map(json.loads, updates)
             if e["name"] == "resource-update"]  # fmt: skip
    return found[-1] if found else site.R(job)["execution"]["expiration"]


def test_a_dat_from_the_request_to_the_end(site):
    small = [site.submit("-qbatch", "-N1", "--exclusive", "-t8h") for _ in range(2)]
    large = site.submit("-qbatch", "-N2", "--exclusive", "-t8h", "--requires=rank:4-7")
    for job in (*small, large):
        site.wait(job, "alloc")
    story = typed(site, ("monday 8am", 60), ("monday 4pm", 100), ("monday 10am", 8))

    said = next(story)  # two jobs are below the one switch, one below the other
    assert said.startswith("would have added window dat: fake[4-7], from ")
    assert said.splitlines()[1:] == [f"would end when it starts: {large}"]
    assert site.flux("treepool", "window", "list") == "no windows"

    assert next(story).startswith("added window dat: fake[4-7], from ")
    start = json.loads(site.flux("treepool", "window", "list", "--json"))["start"]
    assert abs(site.soon(lambda: expiration(site, large)) - start) < 1
    warning = site.wait(large, "exception")
    assert (warning["type"], warning["severity"]) == ("window", 5)
    assert "for window dat" in warning["note"]
    assert "dat" in next(story)

    assert "would wait: window dat opens at " in next(story)
    job = next(story).strip()
    assert "waits: window dat opens at " in next(story)
    later = site.submit("-qbatch", "-N1", "--exclusive", "-t1h", "--requires=rank:6-7")

    assert all(next(story).startswith("changed window dat: fake[4-7]") for _ in range(3))
    site.wait(large, "clean")  # at the start, to which the limit was cut again
    site.wait(job, "alloc")
    R = site.R(job)["execution"]
    end = json.loads(site.flux("treepool", "window", "list", "--json"))["end"]
    assert [entry["rank"] for entry in R["R_lite"]] == ["4-7"]
    assert R["expiration"] == end
    assert [site.state(one) for one in (*small, later)] == ["R", "R", "S"]

    assert "dat" in next(story)
    site.run("cancel", job)
    assert next(story) == "removed window dat\n"
    site.wait(later, "alloc")
    assert next(story, None) is None
