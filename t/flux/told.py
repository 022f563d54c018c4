"""Run by Flux's Python: what people are told, and why their jobs wait, without a broker."""

import errno
import json
from contextlib import suppress
from unittest.mock import Mock

import checks
from loaded import Broker, Loaded, name_of

from treepool import parse_shape

HOUR = 3600

#: Queues of which v stands in the line of batch.
QUEUES = {"queues": {"batch": {}, "debug": {}, "v": {"parent": "batch"}}}

#: A job on so many whole nodes.
WHOLE = "slot={}/node{{x}}"

#: A user who has no job.
GUEST = 77


def in_queue(name, **more):
    return {"system": {"queue": name, **more}}


def busy(**more):
    """Four nodes under easy: a job has three for an hour, then one and another need all four."""
    here = Loaded(nodes=4, more={**QUEUES, **more}, policy="easy")
    batch = in_queue("batch")
    here.wide = here.started(WHOLE.format(3), duration=HOUR, **batch)
    here.head = here.waits(WHOLE.format(4), duration=HOUR, **batch)
    here.next = here.waits(WHOLE.format(4), duration=HOUR, **batch)
    here.wait(6)  # until they are told
    return here


def explained(here, job, userid=GUEST):
    """What *userid* is told of *job*, as text."""
    said = here.typed("explain", name_of(job), userid=userid)
    line = here.typed("explain", name_of(job), "--json", userid=userid)
    assert said.err == "" and said.status == line.status == bool(job.waits)
    assert line.json[0]["job"] == name_of(job)
    return said.out


def asked(here, shape, *words, userid=GUEST, queue="debug"):
    """What *userid* is told of a *shape*, as text."""
    words = ("explain", "--instance", shape, *((f"--queue={queue}",) if queue else ()), *words)
    said = here.typed(*words, userid=userid)
    assert said.status == ("would start now" not in said.out)
    return said.out + said.err


# -- where a job stands


def check_a_job_is_told_where_it_runs_how_close_and_until_when():
    here = busy()
    lines = explained(here, here.wide).splitlines()
    assert lines[0].startswith(f"job {name_of(here.wide)}: runs since ")
    assert lines[1] == "     on n[0-2]/core[0-7],gpu[0-1], in socket 0-1"
    assert "fitness 1.00 of 1: an idle cluster could not do better" in lines[2]
    assert "next: it ends at " in lines[3]


def check_a_job_that_waits_is_told_what_for_how_many_are_ahead_and_when_it_starts():
    here = busy()
    text = explained(here, here.head)
    assert f"job {name_of(here.head)}: waits: 1 of 4 nodes free now, 4 at " in text
    assert "queue batch: 0 jobs ahead of it, policy easy" in text
    assert "next: it starts at " in text and "at the latest, if no node fails" in text
    text = explained(here, here.next)
    assert "queue batch: 1 job ahead of it" in text and "next: it starts about " in text
    assert here.next.told["t_estimate"] == here.head.told["t_estimate"] + HOUR
    short = here.waits(duration=10 * HOUR, shape="slot/core", **in_queue("batch"))
    assert f"waits: what is free is reserved for {name_of(here.head)}" in explained(here, short)


def check_the_owner_is_also_told_which_nodes_lack_what():
    here = busy()
    text = explained(here, here.head, userid=None)
    assert "there is room for it when this job ends" in text
    assert f"job {name_of(here.wide)}: 24 cores, 6 GPUs" in text
    assert "it asks for a whole node, and jobs have 8 cores and 2 GPUs of it" in text


def check_what_keeps_nodes_away_is_said():
    here = busy()
    here.manager.mark(False, {0})
    here.drained = {"0": {"reason": "broken"}}
    job = here.waits(WHOLE.format(4), duration=60, priority=20, **in_queue("debug"))
    here.wait(6)
    text = explained(here, job)
    assert "waits: nodes are down or drained: 3 of 4 nodes up" in text
    assert "cannot be told: it needs nodes that are down or drained" in text
    text = explained(here, job, userid=None)
    assert "of which 1 is drained" in text and "drained   n0: broken" in text
    assert "it waits for nodes that are drained" in text
    (fact,) = here.typed("status", "--json").json
    assert fact["drained"] == [{"ranks": "0", "hosts": "n0", "reason": "broken"}]


def check_under_fifo_it_is_the_turn_of_the_first_and_higher_priority_is_ahead():
    here = Loaded(policy="fifo", more=QUEUES)
    here.started("slot/core=8", duration=HOUR, **in_queue("batch"))
    head = here.waits(duration=HOUR, **in_queue("v"))
    job = here.waits("slot/core", duration=60, **in_queue("batch"))
    lines = explained(here, job, userid=None).splitlines()
    assert lines[0] == f"job {name_of(job)}: waits: {name_of(head)} is ahead in the queue"
    assert "1 job ahead of it, policy fifo" in lines[1]
    assert lines[2].lstrip().startswith("next: it starts about ")
    assert len(lines) == 3, "what is free would serve it, which is not the question"
    said = asked(here, "slot/core", queue="v")
    assert f"{name_of(head)} is ahead in the queue" in said, "they stand in one line"
    assert here.submit("slot/core", priority=17, **in_queue("batch"))
    here.rest()
    assert here.manager.jobs[4].R and job.waits
    here.more = {"queues": {**QUEUES["queues"], "v": {"parent": "debug"}}}
    here.configure(policy="fifo")
    here.rest()
    assert job.R, "it stands behind others now"
    refused = here.configure(queues={"v": {"policy": "easy"}})
    here.rest()
    assert "a virtual queue has the rules of its parent" in refused.errors[0][1]


def check_explanations_go_by_the_options_of_the_scheduler():
    here = Loaded(locality="required", **{"node-policy": "first-fit"})
    for _ in range(4):  # a core is left in each socket
        here.started("slot/core=3", duration=HOUR)
    said = here.typed("explain", name_of(here.waits("slot/core=2")), "--verbose")
    assert said.status == 1
    assert "required: each slot in one socket" in said.out and "order     first-fit" in said.out


def check_without_a_job_key_the_R_of_a_job_has_no_key():
    for value, has_key in (("full", True), ("none", False)):
        job = Loaded(**{"job-key": value}).started("slot/core")
        assert ("scheduling" in job.R) == has_key


def check_cores_that_are_kept_for_gpus_are_told():
    here = Loaded(**{"gpu-cores": "2"})
    here.started("slot=8/core", duration=HOUR)
    job = here.waits("slot/core")
    said = here.typed("status")
    assert "8 free cores kept for jobs with GPUs" in said.out
    assert (
        "slots free now without cores kept for jobs with GPUs, 1 at" in job.told["reason_pending"]
    )
    here.started("slot=4/[core=2;gpu=1]")
    refused = here.submit("slot/core=5")
    here.rest()
    note = refused.msg.answers[-1]["note"]
    assert "no node has 5 cores: the largest has 4, without the cores that are kept" in note


# -- what a shape would get


def check_a_shape_is_told_what_it_would_get_now_when_or_why_never():
    here = busy()
    text = asked(here, "slot=2/[core=2;gpu=1]", "--duration=10m")
    assert text.startswith(
        "slot=2/[core=2;gpu=1]: would start now\n     on n3/core[0-1,4-5],gpu[0-1]"
    )
    text = asked(here, "node=4{x}/slot/core", "--duration=1h", queue="batch")
    assert "would wait: 1 of 4 nodes free now" in text and "it would start about " in text
    text = asked(here, "slot/core", "--duration=10h", queue="batch")
    assert f"would wait: what is free is reserved for {name_of(here.head)}" in text
    text = asked(here, "slot/core=9")
    assert text.count("infeasible: no node has 9 cores") == 1
    assert "core=8 instead of 9" in text
    for words, said in (
        ({"queue": ""}, "--queue: is missing, and there is no default: name one of batch, debug"),
        ({"queue": "nope"}, "not one of this instance's queues"),
        ({"shape": "slot/chassis/core"}, "chassis"),
        ({"queue": "\udcff"}, "a string is not valid Unicode"),
    ):
        (line,) = asked(here, **{"shape": "slot/core", **words}).splitlines()
        assert said in line, line


def check_a_shape_gets_only_nodes_that_its_queue_requires():
    here = Loaded(more={"queues": {"any": {}, "big": {"requires": ["large"]}}})
    assert here.typed("alloc", "--instance", "--queue=any", "slot/core").status == 0
    said = here.typed("alloc", "--instance", "--queue=big", "slot/core")
    assert said.status == 1 and "large" in said.out


def check_defaults_of_the_site_count_for_a_shape_as_for_a_job():
    policy = {"jobspec": {"defaults": {"system": {"duration": "1h", "queue": "short"}}}}
    long = {"policy": {"jobspec": {"defaults": {"system": {"duration": "2h"}}}}}
    here = Loaded(more={"queues": {"short": {}, "long": long}, "policy": policy})
    add(here, "maint", 90, 60)
    for words, queue, starts in (
        ((), None, True),
        (("--duration=2h",), None, False),
        ((), "long", False),
        (("--duration=1h",), "long", True),
    ):
        said = asked(here, "slot/core", *words, queue=queue)
        assert ("would start now" in said) == starts == ("window maint" not in said)


# -- windows


def add(here, name, start, minutes, *words, hosts="n[0-1]"):
    """The result of adding a window that begins in *start* minutes and lasts so many *minutes*."""
    first = here.clock.now + 60 * start
    times = (f"--start={first:.0f}", f"--end={first + 60 * minutes:.0f}")
    said = here.typed("window", "add", f"--name={name}", f"--hosts={hosts}", *times, *words)
    assert said.status == 0, said.err
    here.rest()
    return said


def remove(here, name):
    said = here.typed("window", "remove", name)
    here.rest()
    return said


def listed(here, userid=None):
    return here.typed("window", "list", "--json", userid=userid).json


def check_a_window_that_cannot_be_is_refused_in_one_line():
    here = Loaded(more=QUEUES)
    start = f"--start={here.clock.now + HOUR:.0f}"
    good = ("add", "--hosts=n0", start, "--duration=1h", "--name=w")
    for words, status, said in (
        ((*good, "--hosts=n[0-9]"), 1, "no host 'n2', 'n3'"),
        ((*good, "--user=nobody-of-this-name"), 1, "no user 'nobody-of-this-name'"),
        ((*good, "--queue=night"), 1, "no queue 'night'"),
        ((*good, "--start=yestermorrow"), 2, "--start: 'yestermorrow'"),
        ((*good, "--duration=1000000000d"), 2, "--duration: '1000000000d': is out of"),
        ((*good, "--start=1600000000"), 1, "argument --start: '1600000000': the window is over"),
        (("remove", "nothing"), 1, "there is no window 'nothing'"),
        (("remove", "\udcff"), 1, "there is no window '\\udcff'"),
    ):
        refused = here.typed("window", *words)
        assert (refused.status, refused.err.count("\n")) == (status, 1), refused
        assert said in refused.err and listed(here) == [], refused


def check_no_job_reaches_into_a_window_and_it_says_so():
    here = Loaded(policy="easy", more=QUEUES)
    add(here, "maint", 60, 60)
    long, endless = (here.waits("slot/core=8", duration=d) for d in (2 * HOUR, 0))
    assert here.started("slot/core", duration=HOUR / 2)
    here.wait(6)
    assert long.told["reason_pending"].startswith("window maint")
    assert "it may not reach into window maint: n[0-1], from " in explained(here, long)
    for words in (["status"], ["show", "--instance"]):
        assert "window maint: n[0-1], from " in here.typed(*words).out
    assert remove(here, "maint").out == "removed window maint\n"
    assert long.R and endless.waits
    said = add(here, "part", 60, 60, hosts="n0")
    may = f"these jobs may still run when it starts: {name_of(long)}"
    assert said.err.strip().endswith(may) == (0 in long.held)
    here.ended(long)
    assert endless.held, "on the other node"


def check_a_window_admits_its_queue_with_virtual_ones_and_its_users():
    here = Loaded(policy="easy", more=QUEUES)
    for words, admitted in (
        ("--queue=batch", {"batch", "v"}),
        ("--queue=v", {"v"}),
        ("--user=1", {"batch", "v", "debug"}),
        ("--user=2", set()),
    ):
        add(here, "kept", 0, 60, words)
        jobs = {
            q: here.submit("slot/core", duration=60, **in_queue(q)) for q in ("batch", "v", "debug")
        }
        here.rest()
        assert {queue for queue, job in jobs.items() if job.R} == admitted, words
        shape = asked(here, "slot/core", "--duration=1m", queue="v", userid=1)
        assert ("would start now" in shape) == ("v" in admitted)
        remove(here, "kept")
        assert all(job.R for job in jobs.values()), "those that wait start when it is gone"
        for job in jobs.values():
            here.ended(job)


def check_a_window_admits_the_jobs_of_its_bank_that_wait_or_run_when_it_is_added():
    here = Loaded(policy="easy")
    add(here, "first", 0, 60)
    ours, theirs = (
        here.waits("slot/core", duration=HOUR, system={"bank": bank}) for bank in ("physics", "art")
    )
    add(here, "bank", 5, 60, "--bank=physics")
    remove(here, "first")
    assert ours.R and theirs.waits
    remove(here, "bank")
    assert theirs.R
    said = add(here, "bank", 5, 60, "--bank=physics")
    assert said.err.strip().endswith(f"may still run when it starts: {name_of(theirs)}")


def check_jobs_that_wait_have_the_leave_that_a_changed_window_gives():
    here = Loaded(policy="easy", more=QUEUES)
    add(here, "maint", 5, 60, "--queue=debug")
    add(here, "first", 0, 60)
    job = here.waits(duration=HOUR, **in_queue("debug"))
    remove(here, "maint")
    add(here, "maint", 5, 60)  # of the same name, for nobody
    remove(here, "first")
    assert job.waits
    remove(here, "maint")
    assert job.R


def check_a_reload_keeps_windows_whom_they_admit_and_no_window_that_is_over():
    here = Loaded(policy="easy", more=QUEUES)
    add(here, "kept", 0, 10, "--queue=debug")
    add(here, "later", 60, 10)
    running = here.started("slot/core", duration=HOUR / 2, **in_queue("debug"))
    before = listed(here)
    here.reload()
    assert listed(here) == before
    assert here.started("slot/core", duration=60, **in_queue("debug"))
    waits = here.waits("slot/core", duration=60, **in_queue("batch"))
    for _ in range(12):
        here.wait(60)
    assert waits.R, "it starts when the window ends"
    assert [entry["name"] for entry in listed(here)] == ["later"]
    here.reload()
    assert [entry["name"] for entry in here.kvs["sched-treepool.windows"]] == ["later"]
    assert running.held


def check_windows_of_the_configuration_are_not_removed_by_command():
    here = Loaded(more=QUEUES)
    entry = {"name": "conf", "hosts": "n0,gone", "start": 0, "end": here.clock.now + HOUR}
    here.configure(windows=[{**entry, "queues": ["nihgt"]}])
    here.rest()
    assert [(e["name"], e["source"]) for e in listed(here, GUEST)] == [("conf", "configuration")]
    logged = [text for _, text in here.handle.logged]
    assert any("window conf: this instance has no host 'gone'" in text for text in logged)
    assert any("window conf: this instance has no queue 'nihgt'" in text for text in logged)
    assert set(here.started("slot/core").held) == {1}
    said = remove(here, "conf")
    assert said.status == 1 and "remove it there" in said.err
    again = here.typed(
        "window", "add", "--hosts=n0", "--start=2000000000", "--end=3000000000", "--name=conf"
    )
    assert again.status != 0 and again.err.count("\n") == 1 and "already" in again.err
    here.configure()
    here.rest()
    assert listed(here) == []


def conforms(line, part):
    """Assert that *line* is what output.json says of *part*, where Flux's Python can tell."""
    with suppress(ImportError):
        import schemas

        schemas.conforms(line, part)


def check_windows_and_the_fabric_are_told_as_the_schema_says():
    here = Loaded(nodes=4, fabric=True)
    add(here, "maint", 60, 60, "--user=1", hosts="n[0-3]")
    job = here.waits("slot/core", duration=2 * HOUR, user=2)
    here.wait(6)
    facts = here.typed("status", "--domains", "--json").json
    for kind, fact in zip(("fabric", "window", "totals"), facts):
        assert kind in fact
        conforms(fact, f"status-{kind}")
    (line,) = here.typed("explain", name_of(job), "--json").json
    assert line["window"]["name"] == "maint"
    conforms(line, "explain-job")


# -- a close place


def check_a_job_waits_for_one_switch_for_so_long_and_also_after_a_reload():
    for reloads in (False, True):
        here = Loaded(nodes=4, fabric=True, policy="easy")
        for rank in (0, 2):
            at = in_queue("", constraints={"ranks": [str(rank)]})
            here.started(WHOLE.format(1), duration=0, **at)
        job = here.waits(WHOLE.format(2), options={"switches": 1, "wait": 100})
        here.wait(6)
        told = "no close place is free, any will do at "
        assert job.told["reason_pending"].startswith(told) and told in explained(here, job)
        if reloads:
            here.reload()
        while here.clock.now < job.submitted + 99:
            here.wait(1)
        assert job.waits
        here.wait(2)
        assert set(job.held) == {1, 3}


def check_the_domains_of_the_fabric_are_counted():
    here = Loaded(nodes=4, fabric=True)
    here.started(WHOLE.format(1), duration=0)
    lines = here.typed("status").out.splitlines()
    assert lines[1].startswith("switch: 2 domains, 2 with idle nodes; a job of up to 2 idle nodes")
    (fabric,) = [
        one["fabric"] for one in here.typed("status", "--domains", "--json").json if "fabric" in one
    ]
    assert [one["largest"] for one in fabric["localities"]] == [2]


# -- what others may see


def check_a_guest_sees_what_the_owner_sees():
    here = busy()
    for words in (
        ("status", "--jobs", "--gpus", "--json"),
        ("show", "--instance"),
        ("window", "list"),
    ):
        said = here.typed(*words, userid=GUEST)
        assert (said.status, said.err) == (0, "") and said.out == here.typed(*words).out
    lines = here.typed("status", "--prometheus", userid=GUEST).out.splitlines()
    assert 'treepool_waiting_jobs{queue="batch",reason="in-use"} 2' in lines
    assert 'treepool_reserved_jobs{queue="batch"} 1' in lines
    for form in ((), ("--json",), ("--prometheus",)):
        said = here.typed("status", "--users", *form, userid=GUEST)
        assert (said.status, said.out) == (1, "")
        assert said.err == "treepool status: totals of users are for the owner of the instance\n"


PRIVATE = {"access": {"private-mode": True}}


def check_in_private_mode_a_guest_sees_only_that_something_is_used():
    here = busy(**PRIVATE)
    *gpus, last = here.typed("status", "--jobs", "--gpus", "--json", userid=GUEST).json
    assert last["totals"]["cores_used"] == 24
    assert {(gpu["state"], gpu["job"]) for gpu in gpus} == {("used", "other"), ("free", "")}
    guest = Broker(here, GUEST)
    for jobid in (here.wide.jobid, here.head.jobid, 1, (1 << 64) - 1):
        said = guest.module("sched-treepool.job", {"id": jobid}, False)
        assert said == [{"version": 1, "state": "unknown"}]

    def others():
        looked = guest.module("sched-treepool.look", {}, True)
        return [job for answer in looked for job in answer.get("jobs", ())]

    assert others() == [{"id": None, "parts": [["0-2", "0-7", "0-1"]], "expiration": 0}]
    for _ in range(2):
        here.started("slot/[core=4;gpu=1]", duration=60, **in_queue("debug"))
    assert others() == [{"id": None, "parts": [["0-3", "0-7", "0-1"]], "expiration": 0}]
    assert [one["jobs"] for one in guest.module("sched-treepool.jobs", {}, True)] == [[]]
    (told,) = guest.module("sched-treepool.totals", {}, False)
    assert told["all"]["nodes"]["allocated"] == 4
    assert not {"waiting", "reserved", "users"} & set(told)
    said = here.typed("status", "--prometheus", userid=GUEST)
    assert said.status == 1 and "private here" in said.err
    snapshot = json.loads(here.typed("snapshot", "-", userid=GUEST).out)
    assert (snapshot["running"], snapshot["pending"], bool(snapshot["other"])) == ([], [], True)


def check_in_private_mode_nobody_is_told_when_jobs_of_others_end_nor_how_many_are_ahead():
    here = busy(**PRIVATE)
    at = '--constraint={"ranks": ["0"]}'
    text = asked(here, "slot/core=8", "--duration=1m", at)
    assert "cannot be told: this instance does not tell when jobs of others end" in text
    own = explained(here, here.next, userid=1)
    assert "queue batch: policy easy" in own and "ahead" not in own


def check_a_guest_may_ask_and_do_nothing_else():
    here = Loaded()
    may = {"look", "jobs", "job", "ask", "try", "numbers", "totals", "window-list"}
    others = set(here.handle.handlers) - {f"sched-treepool.{name}" for name in may}
    own = {f"sched-treepool.{name}" for name in ("window-add", "config-reload", "stats-get")}
    assert {"sched.alloc", *own} <= others
    for topic in others:
        try:
            Broker(here, GUEST).module(topic, {}, False)
        except PermissionError:
            continue
        raise AssertionError(topic)


def check_a_question_that_is_malformed_is_refused_with_its_place():
    guest = Broker(Loaded(), GUEST)
    core = parse_shape("slot/core")
    for topic, payload, number, said in (
        ("job", [], errno.EPROTO, "must be an object"),
        ("job", "{", errno.EINVAL, "Expecting"),
        ("job", 30_000 * "[", errno.EINVAL, "recursion"),
        ("job", {"id": True}, errno.EPROTO, "/id: must be an integer"),
        ("job", {"id": "\ud800"}, errno.EINVAL, "a string is not valid Unicode"),
        ("look", {"version": 2}, errno.EPROTO, "/version: this scheduler speaks version 1"),
        ("look", {"x": "y" * 70_000}, errno.EMSGSIZE, "more than 65536 characters"),
        ("ask", {}, errno.EINVAL, "/resources: must be a list"),
        ("ask", {"resources": [{"type": "slot"}]}, errno.EINVAL, "/resources/0"),
        ("ask", {"resources": core, "duration": "1h"}, errno.EINVAL, "/duration: "),
        ("ask", {"resources": core, "duration": -1}, errno.EINVAL, "/duration: "),
        ("ask", {"resources": core, "options": {"nope": 1}}, errno.EINVAL, "nope"),
        ("ask", {"resources": core, "queue": ["q"]}, errno.EINVAL, "/queue: "),
        ("ask", {"resources": core, "constraints": 0}, errno.EINVAL, "object"),
        ("ask", {"resources": core, "options": {"\udcff": 1}}, errno.EINVAL, "not valid Unicode"),
        ("try", {"jobs": [7]}, errno.EPROTO, "/jobs: must be a list"),
        ("totals", {"drained": "0"}, errno.EPROTO, "/drained: must be a list"),
    ):
        try:
            guest.module(f"sched-treepool.{topic}", payload, False)
        except OSError as e:
            assert (e.errno, said in e.strerror, "\n" in e.strerror) == (number, True, False), e
        else:
            raise AssertionError((topic, payload))


def check_what_is_said_of_a_job_is_true_when_it_is_said():
    states = set()
    for turns in range(6):
        here = Loaded()
        first, second = here.started(), here.waits()
        here.clock.chance = Mock(choice=max)  # time passes: each step of work is a turn
        msg = here.send("sched-treepool.job", {"id": second.jobid})
        for _ in range(turns):
            here.handle.turn()
        here.manager.free(first)
        while not msg.answers:
            if not here.handle.turn():
                here.handle.hurry()
        state = msg.answers[0]["state"]
        assert (state == "running") == bool(second.R), state
        states.add(state)
    assert states == {"waiting", "running"}


# -- snapshots


def check_a_snapshot_has_no_names_unless_they_are_asked_for():
    here = busy()
    add(here, "of-alice", 600, 60, "--user=1")
    text = here.typed("snapshot", "-").out
    value = json.loads(text)
    assert "of-alice" not in text
    assert [job["job"] for job in value["running"] + value["pending"]] == ["job1", "job2", "job3"]
    assert {job["user"] for job in value["pending"]} == {"user1"}
    (window,) = value["windows"]
    assert (window["name"], window["users"]) == ("window1", ["user1"])
    assert value["running"][0]["parts"] == [["0-2", "0-7", "0-1"]]
    assert value["running"][0]["end"] == here.wide.started + HOUR
    assert (value["pending"][0]["queue"], value["pending"][0]["limit"]) == ("batch", HOUR)
    named = json.loads(here.typed("snapshot", "-", "--names").out)
    assert named["windows"][0]["name"] == "of-alice" and named["pending"][0]["name"] == "true"
    guests = here.typed("snapshot", "-", userid=GUEST)
    assert "2 jobs that you may not read wait, too: only their number is told" in guests.err
    assert json.loads(guests.out)["unreadable"] == 2


# -- what a job holds and nobody can read


def check_nobody_gets_the_nodes_of_a_job_whose_R_cannot_be_read_until_it_is_over():
    endless = (
        '{"execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "expiration": 1%s}}'
    )
    for R in (None, "{}", '{"execution": {"R_lite": [7]}}', "{", "", "null", endless % ("0" * 400)):
        here = Loaded(nodes=4)
        job = here.started(WHOLE.format(2), duration=HOUR)
        if R is None:
            del here.kvs[job.key]
        else:
            here.kvs[job.key] = R
        here.reload()
        every = here.waits(WHOLE.format(4), duration=60)
        here.wait(6)
        assert "2 of 4 nodes free now" in every.told["reason_pending"]
        held = "n[0-1]/core[0-7],gpu[0-1]"
        said = here.typed("status")
        assert f"held back for jobs whose R cannot be read: {held}" in said.out.splitlines()
        assert said.out.startswith("4 nodes: 2 idle, 2 full; 16 of 32 cores used")
        (told,) = [fact for fact in here.typed("status", "--json").json if "held_back" in fact]
        assert (told["held_back"], told["hosts"]) == ("rank[0-1]/core[0-7],gpu[0-1]", "n[0-1]")
        here.manager.free(job)
        for _ in range(5):
            here.wait(1)
        assert every.R
        assert any("nothing is held back any more" in text for _, text in here.handle.logged)


def check_what_is_left_of_a_node_is_given_and_of_several_such_jobs_one_ends():
    here = Loaded()
    first, second = (here.started("slot/[core=4;gpu=1]", duration=0) for _ in range(2))
    for job in (first, second):
        del here.kvs[job.key]
    here.reload()
    fills = here.started("slot=2/[core=4;gpu=1]", duration=0)
    waits = here.waits("slot/[core=4;gpu=1]")
    here.reload()
    assert set(fills.held) == {1} and waits.waits
    here.manager.free(first)
    for _ in range(5):
        here.wait(1)
    assert waits.R["execution"]["R_lite"] == [
        {"rank": "0", "children": {"core": "0-3", "gpu": "0"}}
    ]
    assert here.waits("slot/core") and second.held


def ends_unseen(here, job):
    """Let *job* be over when the next scheduler is ready, which nobody tells it."""
    ready = here.manager.ready
    here.manager.ready = lambda payload: (job.held.clear(), ready(payload))[1]


def check_jobs_that_end_unseen_are_not_counted():
    for known in (True, False):
        here = Loaded()
        job, other = (here.started("slot/core", duration=0) for _ in range(2))
        if not known:
            del here.kvs[job.key]
        ends_unseen(here, job)
        here.reload()
        for _ in range(5):
            here.wait(1)
        msg = here.send("sched.quiescent", {})
        here.rest()
        assert msg.answers[0]["alloc_current"] == 1 and other.held


if __name__ == "__main__":
    checks.run(globals())
