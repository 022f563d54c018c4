"""flux submit --test-only: what the job would get now or when, in hosts, and no job is made."""

import json

import pytest
from test_cliplugin import COMMANDS

from broker import GUEST


@pytest.fixture(scope="module")
def two(small):
    """The small instance with two queues, of which one is disabled."""
    queues = {"open": {"requires": []}, "closed": {"requires": []}}
    policy = {"jobspec": {"defaults": {"system": {"queue": "open"}}}}
    with small.configured(queues=queues, policy=policy) as instance:
        instance.flux("queue", "disable", "--quiet", "closed")
        yield instance


def asked(instance, command, *words, status=0):
    """What ``flux COMMAND --test-only WORDS...`` prints; it must leave no job."""
    before = instance.flux("jobs", "-ano", "{id}")
    done = instance.run(command, "--test-only", *words)
    assert instance.flux("jobs", "-ano", "{id}") == before
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout


def test_each_command_says_what_its_job_would_get_now(two):
    for command, words in COMMANDS.items():
        text = asked(two, command, "-c2", "-g1", *words)
        assert text.splitlines()[1] == "     on fake0/core[0-1,4-5],gpu[0-1]", command
        assert text.startswith("slot=2/[core=2;gpu]: would start now\n")


def test_a_job_that_would_wait_is_told_when_and_on_which_hosts(two):
    two.wait(two.submit("-N1", "-n1", "--exclusive", "-t10m"), "alloc")
    two.wait(two.submit("-N1", "-n1", "--exclusive", "-t20m"), "alloc")
    for who in ({}, GUEST):
        text = asked(two.with_env(**who), "submit", "-c2", "-t1m", "true")
        assert "would wait: 0 of 1 slots free now\n     it would start about " in text
        assert text.rstrip().endswith(" on fake0/core[0-1]")
    two.cancel_all()


#: What could never run, and what is said of it.
WRONG = [
    (["-c9"], "infeasible: no node has 9 cores: the largest has 8"),
    (["--queue=closed"], "slot/core: would be refused: queue closed is disabled"),
    (["--queue=none"], "--queue: not one of this instance's queues"),
    (["--within=rack"], "--within: 'rack' is not a locality above the nodes"),
    (["--requires=host:gone"], "no node is called gone"),
    (["--dry-run"], "--test-only: not with --dry-run"),
    (["--resources-shape=slot/core=9"], "no node has 9 cores"),
]


def test_what_could_never_run_is_an_error_of_one_line(two):
    for words, said in WRONG:
        for command in ("submit", "run"):
            (line,) = asked(two, command, *words, "true", status=1).splitlines()
            assert said in line


def test_bulk_jobs_and_copies_are_told_one_by_one(two):
    done = two.run("bulksubmit", "--test-only", "-c{}", "echo", "{}", ":::", "1", "2", "9")
    heads = [line for line in done.stdout.splitlines() if "would" in line]
    assert heads == ["echo 1: slot/core: would start now", "echo 2: slot/core=2: would start now"]
    assert done.stderr.startswith("echo 9: slot/core=9: infeasible: ")
    assert done.returncode == 1
    text = asked(two, "submit", "--cc=1-2", "--wait", "true")
    assert [line[:5] for line in text.splitlines() if "would" in line] == ["cc=1:", "cc=2:"]


def test_what_keeps_a_job_away_from_the_scheduler_is_said(two):
    job = two.submit("-n1")
    words = ("--urgency=hold", f"--dependency=afterok:{job}")
    text = asked(two, "submit", *words, "true")
    assert "but first: it depends on afterok=" in text
    assert "but first: it is held: its urgency is 0" in text
    two.cancel_all()


def test_a_job_of_higher_urgency_does_not_wait_for_the_turn_of_others(two):
    fifo = {**json.loads(two.flux("config", "get")), "sched-treepool": {"policy": "fifo"}}
    two.flux("config", "load", stdin=json.dumps(fifo))
    two.wait(two.submit("-N1", "-n1", "--exclusive"), "alloc")
    assert two.waits(two.submit("-N2", "-n2", "--exclusive"))
    assert "is ahead in the queue" in asked(two, "submit", "true")
    assert "is ahead in the queue" not in asked(two, "submit", "--urgency=20", "true")
    refused = asked(two.with_env(**GUEST), "submit", "--urgency=20", "true", status=1)
    assert "--urgency: above 16 is for the owner of the instance" in refused
    two.cancel_all()


def test_no_job_runs_should_the_command_submit_it_all_the_same(two):
    script = (
        "import flux.job; from treepool.flux import testonly as t\n"
        "made = flux.job.JobspecV1.from_command(['true']); made.environment = {}\n"
        "submit = flux.job.submit_async; t.begin(made, '--test-only', False)\n"
        "print(submit(flux.Flux(), made.dumps()).get_id())\n"
    )
    job = two.flux("python", "-c", script)
    assert "test_only" in two.wait(job, "exception")["note"]


def test_with_another_scheduler_it_says_so_in_one_line(small):
    small.load("sched-simple")
    (line,) = asked(small, "submit", "true", status=1).splitlines()
    assert "--test-only: this instance runs sched-simple, not sched-treepool" in line


def test_without_an_instance_it_says_so_and_a_program_is_told_what_to_do(two):
    nowhere = two.with_env(FLUX_URI="local:///nonexistent")
    assert len(nowhere.run("submit", "--test-only", "true").stderr.splitlines()) == 1
    script = "from flux.job import JobspecV1\nJobspecV1.from_submit(['a'], test_only=True)"
    assert "--test-only: for commands; a program asks" in two.run("python", "-c", script).stderr
