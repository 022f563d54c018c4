"""What an ordinary user learns of an instance that belongs to another, and what a job is told."""

import json
import os
import time

import pytest

from broker import GUEST, Failed, Instance, key_of
from features import needs_private_mode
from schemas import conforms
from treepool import parse_shape
from treepool.rfc.times import clock


def guest(instance, *words):
    """The finished process of ``flux treepool WORDS...``, run by a guest."""
    return instance.with_env(**GUEST).run("treepool", *words)


def said(instance, *words, status=0):
    done = guest(instance, *words)
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


def explained(instance, job, status):
    """What a guest is told of *job*: the lines, and all in one; also for programs."""
    text = said(instance, "explain", job, status=status)
    line = json.loads(said(instance, "explain", job, "--json", status=status))
    conforms(line, "explain-job")
    assert (line["job"], line["state"] == "RUN") == (job, "runs since" in text)
    return text.splitlines(), text


@pytest.fixture(scope="module")
def busy():
    """Four nodes, two queues of policy easy: a job on three nodes, others that wait."""
    conf = ["queues.batch.requires=[]", "queues.debug.requires=[]"]
    with Instance(4, 120, 8, key_of("rfc49-cluster-a"), conf=conf) as instance:
        instance.load("sched-treepool", "policy=easy")
        instance.flux("queue", "start", "--all", "--quiet")
        batch = ("--queue=batch", "-t1h")
        instance.wide = instance.submit(*batch, "-N3", "-n3", "--exclusive", "--job-name=train")
        instance.wait(instance.wide, "alloc")
        instance.head = instance.submit(*batch, "-N4", "-n4", "--exclusive")
        instance.next = instance.submit(*batch, "-N4", "-n4", "--exclusive")
        instance.settle()
        yield instance


# -- what is where


def test_status_and_show_are_the_same_for_a_guest(busy):
    for words in (["status"], ["status", "--gpus", "--json"], ["show", "--instance"]):
        assert said(busy, *words).splitlines() == busy.flux("treepool", *words).splitlines()


def test_a_guest_sees_where_jobs_are_and_how_close(busy):
    lines = [json.loads(x) for x in said(busy, "status", "--jobs", "--json").splitlines()]
    jobs = {line["job"]: line for line in lines[:-1]}
    assert set(jobs) == {busy.wide, busy.head, busy.next}
    assert jobs[busy.wide]["summary"] == busy.annotation(busy.wide, "resource_summary")
    assert (jobs[busy.wide]["fitness"], jobs[busy.wide]["nodes"]) == (1.0, 3)
    assert lines[-1]["totals"]["cores_used"] == 3 * 120


@pytest.fixture
def private(busy):
    """The same in private mode."""
    conf = json.loads(busy.flux("config", "get"))
    busy.flux("config", "load", stdin=json.dumps({**conf, "access": {"private-mode": True}}))
    yield busy
    busy.flux("config", "load", stdin=json.dumps(conf))


@needs_private_mode
def test_in_private_mode_a_guest_sees_only_that_something_is_used(private):
    lines = said(private, "status", "--jobs", "--gpus", "--json").splitlines()
    *gpus, last = [json.loads(line) for line in lines]
    assert last["totals"]["cores_used"] == 3 * 120
    assert {gpu["state"] for gpu in gpus} == {"free", "used"}
    assert {gpu["job"] for gpu in gpus} == {"", "other"}
    for job in (private.wide, private.head):
        done = guest(private, "explain", job)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1


#: Asks sched-treepool something, and prints each answer; see doc/questions.md.
ASK = """
import json, sys
from treepool.flux import client

name, question = sys.argv[1], json.loads(sys.argv[2])
handle = client.connected()
if name in ("look", "jobs"):
    answers = client.answers(handle, name)
else:
    answers = [client.ask(handle, name, question)]
for answer in answers:
    print(json.dumps(answer))
"""


def number(instance, job):
    return int(instance.flux("job", "id", "--to=dec", job))


def answers(instance, name, userid=GUEST["FLUX_HANDLE_USERID"], **question):
    """What a guest is told by the scheduler itself."""
    code = f"import TreePool\n{ASK}"
    shown = instance.with_env(**{**GUEST, "FLUX_HANDLE_USERID": str(userid)})
    text = shown.flux("python", "-c", code, name, json.dumps(question))
    return [json.loads(line) for line in text.splitlines()]


@needs_private_mode
def test_in_private_mode_a_job_of_others_is_as_unknown_as_one_that_there_is_not(private):
    ids = [number(private, private.wide), number(private, private.head), 1, (1 << 64) - 1]
    told = [answers(private, "job", id=jobid) for jobid in ids]
    assert told == 4 * [[{"version": 1, "state": "unknown"}]]


@needs_private_mode
def test_in_private_mode_a_guest_is_told_what_is_used_not_by_how_many_jobs_nor_until_when(private):
    def others():
        return [job for answer in answers(private, "look") for job in answer.get("jobs", ())]

    before = others()
    assert before == [{"id": None, "parts": [["0-2", "0-119", "0-7"]], "expiration": 0}]
    short = ("--queue=debug", "-t10m", "-n1", "-c15", "-g1")
    jobs = [private.submit(*short) for _ in range(8)]
    for job in jobs:
        private.wait(job, "alloc")
    used = {"id": None, "parts": [["0-3", "0-119", "0-7"]], "expiration": 0}
    try:
        assert others() == [used]
        with pytest.raises(Failed, match="private here"):
            answers(private, "numbers")
        (told,) = answers(private, "totals")
        assert told["all"]["nodes"]["allocated"] == 4
        assert not {"waiting", "reserved", "users"} & set(told)
        assert [one["jobs"] for one in answers(private, "jobs")] == [[]]
    finally:
        private.flux("cancel", *jobs)
        for job in jobs:
            private.wait(job, "clean")


@needs_private_mode
def test_in_private_mode_a_guest_is_not_told_when_the_job_on_a_node_ends(private):
    one = {"resources": parse_shape("slot/core=120"), "duration": 60, "queue": "debug"}
    for rank, verdict in (("0", "later"), ("3", "now")):
        (told,) = answers(private, "ask", **one, constraints={"ranks": [rank]})
        assert told["verdict"] == verdict
        assert told.get("t_estimate") is None
        assert told.get("no_estimate") == ("private" if verdict == "later" else None)
    words = ("explain", "--instance", "slot/core=120", "--duration=1m", "--queue=debug")
    line = said(private, *words, '--constraint={"ranks": ["0"]}', status=1)
    assert "cannot be told: this instance does not tell when jobs of others end" in line


@needs_private_mode
def test_in_private_mode_the_user_of_a_job_is_told_that_it_is_held(private):
    user = private.with_env(**{**GUEST, "FLUX_HANDLE_USERID": str(os.getuid())})
    job = private.submit("--queue=debug", "-n1", "--urgency=0")
    private.wait(job, "priority")
    done = user.run("treepool", "explain", job)
    assert done.stdout.startswith(f"job {job}: is held: its urgency is 0"), done.stderr
    private.flux("cancel", job)


@needs_private_mode
def test_in_private_mode_nobody_is_told_how_many_jobs_of_others_are_ahead_of_his(private):
    told = answers(private, "job", userid=os.getuid(), id=number(private, private.next))
    assert (told[0]["state"], told[0]["ahead"]) == ("waiting", None)
    user = private.with_env(**{**GUEST, "FLUX_HANDLE_USERID": str(os.getuid())})
    assert "queue batch: policy easy" in user.run("treepool", "explain", private.next).stdout


def test_a_guest_gets_the_numbers(busy):
    lines = said(busy, "status", "--prometheus").splitlines()
    assert "treepool_jobs_with_resources 1" in lines
    assert 'treepool_waiting_jobs{queue="batch",reason="in-use"} 2' in lines
    assert 'treepool_reserved_jobs{queue="batch"} 1' in lines
    assert 'treepool_queue_cores{queue="debug",state="free"} 120' in lines
    samples = [line.rpartition(" ")[2] for line in lines if not line.startswith("#")]
    assert all(float(sample) >= 0 for sample in samples)


@pytest.mark.parametrize("form", [(), ("--json",), ("--prometheus",)])
def test_what_each_user_has_is_for_the_owner(busy, form):
    done = guest(busy, "status", "--users", *form)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "treepool status: totals of users are for the owner of the instance\n"


def test_without_sched_treepool_the_owner_is_told_what_jobs_get_too(small):
    small.load("sched-simple")
    assert "fake0" in small.flux("treepool", "alloc", "slot=1/core=1")
    assert "only its owner" in guest(small, "alloc", "slot=1/core=1").stderr


@pytest.mark.parametrize("words", [["status"], ["show", "--instance"]])
def test_without_sched_treepool_a_guest_is_told_so_and_the_owner_is_served(small, words):
    small.load("sched-simple")
    done = guest(small, *words)
    assert (done.returncode, done.stdout) == (1, "")
    other = "this instance runs sched-simple, not sched-treepool"
    assert f"{other}, and only its owner" in done.stderr
    said = small.flux("treepool", *words)
    assert "2" in said and f"\n{other} (for an instance that does: flux alloc" in said


# -- what a shape would get


def test_what_would_start_now(busy):
    shape = "slot=2/[core=8;gpu=1]"
    text = said(busy, "explain", "--instance", shape, "--queue", "debug", "--duration", "10m")
    assert text.startswith(f"{shape}: would start now\n     on fake3/core[0-7,15-22],gpu[0-1]\n")
    assert "fitness 1.00" in text


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [
        ("slot=2/[core=8;gpu=1]", "now"),
        ("node=4{x}/slot/core=1", "later"),
        ("slot/core=121", "infeasible"),
    ],
)
def test_what_a_program_is_told_of_a_shape(busy, shape, verdict):
    words = ("explain", "--instance", shape, "--queue=debug", "--duration=10m", "--json")
    line = json.loads(said(busy, *words, status=verdict != "now"))
    conforms(line, "explain-instance")
    assert line["answer"]["verdict"] == verdict
    assert bool(line["placement"]) == (verdict == "now") == (line["explanation"] is None)


def test_what_the_owner_is_told_of_a_job_that_waits(busy):
    line = json.loads(busy.run("treepool", "explain", busy.head, "--json").stdout)
    conforms(line, "explain-job")
    assert line["explanation"]["verdict"] == "waits"
    assert [job["job"] for job in line["explanation"]["waits"]["jobs"]] == [busy.wide]


def test_what_would_start_later(busy):
    words = ("explain", "--instance", "node=4{x}/slot/core=1", "--queue", "batch")
    text = said(busy, *words, "--duration", "1h", status=1)
    assert "would wait: 1 of 4 nodes free now" in text
    assert "it would start about " in text
    assert f"job {busy.wide}: 360 cores, 24 GPUs" in text


def test_what_would_delay_a_reservation_waits(busy):
    words = ("explain", "--instance", "slot/core=1", "--queue", "batch", "--duration", "10h")
    text = said(busy, *words, status=1)
    assert f"would wait: what is free is reserved for {busy.head}" in text


def test_what_would_run_into_a_window_waits(busy):
    window = ("treepool", "window", "add", "--hosts=fake3", "--start=+30m", "--duration=1h")
    busy.flux(*window, "--name=maint", "--user", GUEST["FLUX_HANDLE_USERID"])
    busy.flux(*window, "--name=others", "--user=root", "--queue=batch")
    words = ("explain", "--instance", "slot/core=1", "--queue", "debug", "--duration")
    assert "would start now" in said(busy, *words, "20m")
    assert "would wait: window others" in said(busy, *words, "40m", status=1)
    busy.flux("treepool", "window", "remove", "others")
    assert "would start now" in said(busy, *words, "40m"), "the other one admits this user"
    busy.flux("treepool", "window", "remove", "maint")


def test_what_a_queue_requires_counts():
    conf = ['queues.fast.requires=["fast"]', "queues.slow.requires=[]"]
    env = {"TREEPOOL_TEST_PROPERTIES": '{"fast": "1"}'}
    with Instance(2, 8, 0, conf=conf, env=env) as instance:
        instance.load("sched-treepool")
        instance.flux("queue", "start", "--all", "--quiet")
        words = ("explain", "--instance", "slot/core=1", "--queue")
        assert "on fake0/core" in said(instance, *words, "slow")
        assert "on fake1/core" in said(instance, *words, "fast")
        text = said(instance, "explain", "--instance", "node=2/slot/core", "--queue=fast", status=1)
        assert "infeasible" in text
        script = "import flux, json, sys; flux.Flux().rpc(*map(json.loads, sys.argv[1:])).get()"
        core = {"type": "core", "count": 1}
        slot = {"type": "slot", "count": 1, "label": "s", "with": [core]}
        for wrong in ([], 0, ""):
            question = {"resources": [slot], "queue": "fast", "constraints": wrong}
            both = map(json.dumps, ("sched-treepool.ask", question))
            assert "must be an object" in instance.run("python", "-c", script, *both).stderr


def test_what_can_never_run(busy):
    text = said(busy, "explain", "--instance", "slot=1/core=121", "--queue", "batch", status=1)
    assert text.count("infeasible: no node has 121 cores") == 1
    assert "core=120 instead of 121" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["slot=1/core=1"],
            "--queue: is missing, and there is no default: name one of batch, debug",
        ),
        (["slot=1/core=1", "--queue", "nope"], "not one of this instance's queues"),
        (["slot=1/chassis/core=1", "--queue", "batch"], "chassis"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused_in_one_line(busy, words, problem):
    done = guest(busy, "explain", "--instance", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert problem in done.stderr


# -- where a job stands


def test_a_job_that_runs(busy):
    lines, text = explained(busy, busy.wide, 0)
    assert lines[0].startswith(f"job {busy.wide}: runs since ")
    assert "on fake[0-2]/core[0-119],gpu[0-7], in numa 0-7" in text
    assert "fitness 1.00 of 1: an idle cluster could not do better" in text
    assert "next: it ends at " in text


def test_a_job_with_a_reservation(busy):
    lines, text = explained(busy, busy.head, 1)
    assert lines[0].startswith(f"job {busy.head}: waits: 1 of 4 nodes free now, 4 at ")
    assert "queue batch: 0 jobs ahead of it, policy easy" in text
    assert "next: it starts at " in text
    assert "at the latest" in text


def test_a_job_without_a_reservation_has_an_estimate_too(busy):
    told = float(busy.soon(lambda: busy.annotation(busy.next, "t_estimate")))
    assert told == pytest.approx(float(busy.annotation(busy.head, "t_estimate")) + 3600, abs=1)
    assert "eta:" in busy.flux("jobs", "-no", "{contextual_info}", busy.next)
    _, text = explained(busy, busy.next, 1)
    assert "queue batch: 1 job ahead of it" in text
    assert f"next: it starts about {clock(told, time.time())}" in text


def test_a_job_that_would_be_served_but_for_a_reservation(busy):
    job = busy.submit("--queue=batch", "-t10h", "-n1")
    busy.settle()
    _, text = explained(busy, job, 1)
    assert f"waits: what is free is reserved for {busy.head}" in text
    assert "allocated" not in text
    busy.flux("cancel", job)


def test_the_owner_sees_which_nodes_lack_what_too(busy):
    done = busy.run("treepool", "explain", busy.head)
    assert done.returncode == 1
    assert "it asks for a whole node, and jobs have 120 cores and 8 GPUs of it" in done.stdout
    assert f"job {busy.wide}: 360 cores, 24 GPUs" in done.stdout


def test_a_job_of_a_stopped_queue(busy):
    busy.flux("queue", "stop", "--quiet", "--message=cooling", "debug")
    job = busy.submit("--queue=debug", "-n1")
    busy.wait(job, "priority")
    lines, text = explained(busy, job, 1)
    assert lines[0] == f"job {job}: waits: queue debug is stopped (cooling)"
    assert "until an administrator starts it" in text
    busy.flux("cancel", job)
    busy.flux("queue", "start", "--quiet", "debug")


def test_a_job_of_urgency_0(busy):
    job = busy.submit("--queue=debug", "-n1", "--urgency=0")
    busy.wait(job, "priority")
    lines, text = explained(busy, job, 1)
    assert lines[0] == f"job {job}: is held: its urgency is 0"
    assert f"flux job urgency {job} default" in text
    busy.flux("cancel", job)


def test_a_job_that_depends_on_others_or_on_the_time(busy):
    job = busy.submit("--queue=debug", "-n1", f"--dependency=afterok:{busy.wide}")
    lines, _ = explained(busy, job, 1)
    assert lines[0].startswith(f"job {job}: waits: it depends on after-success=")
    later = busy.submit("--queue=debug", "-n1", "--begin-time=+1h")
    lines, _ = explained(busy, later, 1)
    assert lines[0].startswith(f"job {later}: waits: it depends on the time: ")
    busy.flux("cancel", job, later)


def test_jobs_that_are_over(busy):
    job = busy.submit("--queue=debug", "-t10m", "-n1", seconds=0.1)
    busy.wait(job, "clean")
    lines, _ = explained(busy, job, 0)
    assert lines[0].startswith(f"job {job}: is over: it completed at ")
    job = busy.submit("--queue=debug", "-n121", "-N1")
    busy.wait(job, "clean")
    _, text = explained(busy, job, 1)
    assert "alloc: each node is to host 121 slots: the most that fits is 120" in text
    assert "it never had resources" in text


def test_a_job_that_only_drained_nodes_keep_waiting(busy):
    busy.flux("resource", "drain", "0", "broken")
    job = busy.submit("--queue=debug", "-t1m", "-N4", "-n4", "--urgency=31")
    busy.settle()
    _, text = explained(busy, job, 1)
    assert "waits: nodes are down or drained: 3 of 4 nodes up" in text
    assert "cannot be told: it needs nodes that are down or drained" in text
    owner = busy.run("treepool", "explain", job).stdout
    assert "of which 1 is drained" in owner
    assert (
        f"drained   {busy.flux('resource', 'list', '-i', '0', '-no', '{nodelist}')}: broken"
        in owner
    )
    assert "it waits for nodes that are drained" in owner
    busy.flux("cancel", job)
    busy.flux("resource", "undrain", "0")


def test_a_job_that_there_is_not(busy):
    done = guest(busy, "explain", "ƒ1111")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no such job" in done.stderr


# -- with other options


def test_an_explanation_goes_by_the_options_of_the_scheduler(small, idle):
    small.load("sched-treepool", "locality=required", "node-policy=first-fit")
    small.submit("--cc=1-4", "-t1h", "-n1", "-c3")  # a core is left in each NUMA domain
    job = small.submit("-t1h", "-n1", "-c2")
    small.settle()
    done = small.run("treepool", "explain", job, "--verbose")
    assert done.returncode == 1
    assert "required: each slot in one numa" in done.stdout
    assert "order     first-fit" in done.stdout
    assert "there is room for it when one of these ends" in done.stdout


def test_a_job_that_the_scheduler_has_not_been_sent(small, idle):
    small.load("sched-treepool", "queue-depth=2")
    small.submit("-t1h", "-N2", "-n2", "--exclusive")
    jobs = [small.submit("-t1h", "-N2", "-n2", "--exclusive") for _ in range(4)]
    small.settle()
    lines, text = explained(small, jobs[-1], 1)
    assert lines[0] == f"job {jobs[-1]}: waits: the job manager has not sent it to the scheduler"
    assert "others leave the scheduler's queue" in text


# -- with fifo


def test_a_job_that_the_first_of_its_queue_holds_up(small, idle):
    small.load("sched-treepool", "policy=fifo")
    small.wait(small.submit("-t1h", "-n1", "-c8"), "alloc")
    head = small.submit("-t1h", "-N2", "-n2", "--exclusive")
    job = small.submit("-t1h", "-n1")
    small.settle()
    done = small.run("treepool", "explain", job)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == f"job {job}: waits: {head} is ahead in the queue"
    assert "1 job ahead of it, policy fifo" in lines[1]
    assert lines[2].lstrip().startswith("next: it starts about ")
    assert len(lines) == 3, "what is free would serve it, which is not the question"
