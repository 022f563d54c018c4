"""explain --instance tells what flux submit would lead to: defaults, stopped queues."""

import json

import pytest

from broker import Instance
from schemas import conforms

SHAPE = "slot/core=1"


@pytest.fixture(scope="module")
def site():
    """A node with a window in 90 minutes; limits and queues have defaults."""
    conf = [
        "queues.short.requires=[]",
        "queues.long.requires=[]",
        'queues.long.policy.jobspec.defaults.system.duration="2h"',
        'policy.jobspec.defaults.system.duration="1h"',
        'policy.jobspec.defaults.system.queue="short"',
    ]
    with Instance(1, 8, 0, conf=conf) as instance:
        instance.load("sched-treepool")
        instance.flux("queue", "start", "--all", "--quiet")
        window = ("treepool", "window", "add", "--hosts=fake0", "--name=maint")
        instance.flux(*window, "--start=+90m", "--duration=1h")
        yield instance


def asked(site, *words):
    """What ``explain --instance`` says of SHAPE."""
    done = site.run("treepool", "explain", "--instance", SHAPE, *words)
    assert done.stderr == ""
    assert done.returncode == ("would start now" not in done.stdout)
    line = json.loads(site.run("treepool", "explain", "--instance", SHAPE, "--json", *words).stdout)
    conforms(line, "explain-instance")
    return done.stdout, line


@pytest.mark.parametrize(
    ("words", "queue", "starts"),
    [
        ([], "short", True),
        (["--duration=2h"], "short", False),
        (["--queue=long"], "long", False),
        (["--queue=long", "--duration=1h"], "long", True),
    ],
)
def test_the_default_queue_and_limit_of_the_site_count_as_for_a_job(site, words, queue, starts):
    text, line = asked(site, *words)
    assert ("would start now" in text) == starts
    assert ("window maint" in text) != starts
    assert line["answer"]["queue"] == queue
    assert line["answer"].get("fits", starts), "only the window is in the way"
    options = [word.replace("--duration", "--time-limit") for word in words]
    job = site.submit("-n1", *options)
    site.wait(job, "priority")
    site.settle()
    assert (site.state(job) == "R") == starts
    assert site.flux("jobs", "-no", "{queue}", job) == queue
    site.cancel_all()


def test_whether_what_is_free_would_do_is_the_scheduler_s_to_say(site):
    """Only who is told which nodes lack what waits for the engine to be imported."""
    for shape, fits in (("slot/core=1", True), ("slot/core=8", False)):
        blocker = site.submit("-n1", "--time-limit=10m")
        site.wait(blocker, "alloc")
        words = ("treepool", "explain", shape, "--duration=2h")
        said = site.with_env(PYTHONPROFILEIMPORTTIME="1").run(*words)
        assert ("treepool.placement.pool" in said.stderr) != fits
        line = json.loads(site.run(*words, "--json").stdout)
        assert line["answer"]["verdict"] == "later"
        assert line["answer"]["fits"] == fits == (line["explanation"]["verdict"] == "allocated")
        site.flux("cancel", blocker)
        site.wait(blocker, "clean")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "--instance", SHAPE, "--queue=\udcff"], "a string is not valid Unicode"),
        (
            ["explain", "--instance", SHAPE, '--constraint={"properties":["\\ud800"]}'],
            "a string is not valid Unicode",
        ),
        (["window", "remove", "\udcff"], "there is no window '\\udcff'"),
    ],
)
def test_what_is_not_valid_unicode_is_refused_by_the_scheduler(site, words, said):
    done = site.run("treepool", *words)
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == f"treepool {words[0]}: {said}\n"


def test_a_queue_that_is_stopped_starts_no_job_and_one_that_is_disabled_accepts_none(site):
    site.flux("queue", "stop", "--quiet", "--message=cooling", "short")
    text, line = asked(site)
    assert text.startswith(f"{SHAPE}: would wait: queue short is stopped (cooling)\n")
    assert (line["stopped"], line["disabled"]) == ("cooling", None)
    assert "would start now" in asked(site, "--queue=long", "--duration=1h")[0]
    site.flux("queue", "start", "--quiet", "short")
    site.flux("queue", "disable", "--quiet", "--message=closed", "short")
    text, line = asked(site)
    assert text == f"{SHAPE}: would be refused: queue short is disabled (closed)\n"
    assert (line["stopped"], line["disabled"]) == (None, "closed")
    site.flux("queue", "enable", "short")
    assert "would start now" in asked(site)[0]


def test_a_job_whose_queue_is_gone_from_the_configuration_is_explained_all_the_same(site):
    conf = json.loads(site.flux("config", "get"))
    first = site.submit("--queue=short", "-N1", "-n1", "--exclusive", "-t1h")
    job = site.submit("--queue=long", "-n1", "-t1h")
    site.wait(first, "alloc")
    fewer = {**conf, "queues": {"short": conf["queues"]["short"]}}
    site.flux("config", "load", stdin=json.dumps(fewer))
    done = site.run("treepool", "explain", job)
    assert (done.stderr, done.returncode) == ("", 1)
    assert "0 of 1 slots free now" in done.stdout
    site.load("sched-treepool")  # which the job manager does not send the job any more
    site.settle()
    done = site.run("treepool", "explain", job)
    gone = "waits: queue long is stopped (the configuration does not have it any more)\n"
    assert (done.stderr, done.returncode) == ("", 1)
    assert gone in done.stdout and "until the configuration has it again" in done.stdout
    site.flux("config", "load", stdin=json.dumps(conf))
    site.cancel_all()


@pytest.fixture(scope="module")
def fast():
    """Two full nodes; the jobs of queue fast need node 1."""
    conf = ['queues.fast.requires=["fast"]', "queues.slow.requires=[]"]
    env = {"TREEPOOL_TEST_PROPERTIES": '{"fast": "1"}'}
    with Instance(2, 8, 0, conf=conf, env=env) as instance:
        instance.load("sched-treepool", "policy=easy")
        instance.flux("queue", "start", "--all", "--quiet")
        full = instance.submit("--queue=slow", "-N2", "-n2", "--exclusive", "-t1h")
        instance.wait(full, "alloc")
        yield instance


def explained(instance, *words):
    """How many nodes an explanation is about."""
    line = json.loads(instance.run("treepool", "explain", "--json", *words).stdout)
    return line["explanation"]["nodes"]


def test_an_explanation_of_a_job_goes_by_the_queue_that_it_was_moved_to(fast):
    job = fast.submit("--queue=slow", "-n1", "-t1h")
    fast.wait(job, "priority")
    assert explained(fast, job) == 2
    fast.flux("update", job, "queue=fast")
    fast.wait(job, "jobspec-update")
    assert fast.soon(lambda: explained(fast, job) == 1)


def test_an_explanation_of_a_shape_is_about_the_nodes_of_its_queue(fast):
    for queue, nodes in (("slow", 2), ("fast", 1)):
        assert explained(fast, "--instance", SHAPE, "--queue", queue, "--duration=1h") == nodes


def test_a_job_that_is_over_while_housekeeping_has_its_nodes(site):
    conf = json.loads(site.flux("config", "get"))
    keeping = {"housekeeping": {"command": ["sleep", "60"]}}
    site.flux("config", "load", stdin=json.dumps({**conf, "job-manager": keeping}))
    job = site.submit("-t1m", seconds=0.1)
    site.wait(job, "clean")
    told = site.flux("treepool", "explain", job).splitlines()
    assert told[0].startswith(f"job {job}: is over, and is being cleaned up: it completed at ")
    assert told[1].strip() == "next: fake0/core0 is free when housekeeping is done"
    conforms(json.loads(site.flux("treepool", "explain", job, "--json")), "explain-job")
    site.flux("config", "load", stdin=json.dumps(conf))
    site.flux("housekeeping", "kill", "--all")
    over = f"job {job}: is over: it "
    assert site.soon(lambda: site.flux("treepool", "explain", job).startswith(over))
