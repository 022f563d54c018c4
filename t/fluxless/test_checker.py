"""The soak's checker finds what is planted: one violation of each kind in a good record."""

import copy
import json

import pytest

from checker import (
    DRAIN_GRACE,
    KINDS,
    LATE_GRACE,
    ORDER_GRACE,
    PATIENCE,
    PROMPT,
    check,
    misplaced,
)
from records import domains

TOPO = {"socket": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]}


def job(jobid, rank, cores, gpus, start, end):
    """A job that had *cores* and *gpus* of *rank* from *start* to *end*, as it asked."""
    events = [
        {"name": name, "timestamp": at, **({"context": context} if context else {})}
        for name, at, context in [
            ("submit", start - 1, {"userid": 1}),
            ("priority", start - 0.5, {"priority": 16}),
            ("alloc", start, None),
            ("start", start + 0.1, None),
            ("finish", end - 0.1, {"status": 0}),
            ("release", end - 0.05, {"ranks": "all", "final": True}),
            ("free", end, None),
            ("clean", end + 0.1, None),
        ]
    ]
    children = {"core": cores, "gpu": gpus} if gpus else {"core": cores}
    R = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": str(rank), "children": children}],
            "nodelist": [f"fake{rank}"],
            "starttime": start,
            "expiration": 0.0,
        },
        "scheduling": {"writer": "TreePool", "children": [{"ranks": str(rank), "topo": TOPO}]},
    }
    ends = (text.partition("-") for text in (cores, gpus))
    number = [int(b or a) - int(a) + 1 if a else 0 for a, _, b in ends]
    wanted = {"cores": [number[0]] * 2, "gpus": [number[1]] * 2, "form": "slot"}
    return {"id": jobid, "events": events, "R": R, "wanted": wanted}


def good():
    """A record without violations: two jobs share a rank, a third has it after the first."""
    jobs = [
        job(1, 0, "0-3", "0", 100.0, 110.0),
        job(2, 0, "4-7", "1", 101.0, 120.0),
        job(3, 0, "0-3", "0", 110.0, 115.0),
        job(4, 1, "0-1", "", 112.0, 140.0),
    ]
    return {
        "cluster": {
            "nodes": 2,
            "cores": 8,
            "gpus": 2,
            "topos": [json.dumps(TOPO, sort_keys=True)],
        },
        "jobs": jobs,
        "submitted": [1, 2, 3, 4],
        "resource": [
            {"name": "resource-define", "timestamp": 1.0, "context": {"method": "kvs"}},
            {"name": "drain", "timestamp": 90.0, "context": {"idset": "1"}},
            {"name": "undrain", "timestamp": 111.0, "context": {"idset": "1"}},
        ],
        "housekeeping": [],
        "stops": [],
        "promises": {"1": {"told": None, "started": 100.0}, "4": {"told": 111.0, "started": 111.5}},
        "quiet": [{"time": 150.0, "allocated": [0, 0, 0], "free": [2, 16, 4]}],
    }


@pytest.fixture
def record():
    return copy.deepcopy(good())


def found(record, validate=None):
    """The kinds of violation in *record*, each once."""
    return sorted({violation.kind for violation in check(record, validate)[1]})


def event(job, name):
    """The job's event of that name."""
    return next(e for e in job["events"] if e["name"] == name)


def without(job, *names):
    """Take the events of these names from the job."""
    job["events"] = [e for e in job["events"] if e["name"] not in names]


def refuse(job, at, kind="alloc"):
    """Make of *job* one that got an exception and nothing else."""
    without(job, "alloc", "start", "finish", "release", "free")
    context = {"type": kind, "severity": 0, "note": "no"}
    job["events"].insert(2, {"name": "exception", "timestamp": at, "context": context})
    job["R"] = None


def test_a_good_record_has_none(record):
    counts, violations = check(record, lambda R: [])
    assert violations == []
    assert (counts["jobs"], counts["holds checked"], counts["Rs checked"]) == (4, 4, 4)
    assert counts["events"] == 4 * 8 + 3


def R_lite(record):
    """What job 2 has of its rank."""
    return record["jobs"][1]["R"]["execution"]["R_lite"][0]["children"]


def key_of_4(record):
    """The entry of job 4's key."""
    return record["jobs"][3]["R"]["scheduling"]["children"][0]


#: What is done to a good record, and the kinds of violation that it then has.
PLANTED = {
    "a GPU in two jobs at once": (
        ["amount", "overlap"], lambda r: R_lite(r).update(gpu="0-1")
    ),
    "a core in two jobs at once": (["overlap"], lambda r: R_lite(r).update(core="3-6")),
    "an allocation a moment before the other is freed": (
        ["overlap"], lambda r: event(r["jobs"][2], "alloc").update(timestamp=109.999)
    ),
    "an allocation during another's housekeeping": (
        ["overlap"], lambda r: r.update(housekeeping=[[1, 0, 110.0, 110.5]])
    ),
    "housekeeping on another rank, and without an end": (
        [], lambda r: r.update(housekeeping=[[1, 1, 110.0, 110.5], [1, 0, 110.0, None]])
    ),
    "a job that was never freed": (["leak"], lambda r: without(r["jobs"][3], "free")),
    "cores that are allocated at the end": (
        ["leak"], lambda r: r["quiet"][0].update(allocated=[1, 1, 0])
    ),
    "a submitted job that is not there": (["lost"], lambda r: r["submitted"].append(5)),
    "a job that did not end": (
        ["lost"], lambda r: without(r["jobs"][3], "clean", "free", "release", "finish")
    ),
    "a job that could run and was refused": (["lost"], lambda r: refuse(r["jobs"][3], 111.7)),
    "a job that was cancelled": ([], lambda r: refuse(r["jobs"][3], 111.7, "cancel")),
    "a job that can never run and was not refused": (
        ["lost"], lambda r: r["jobs"][3].update(wanted={"infeasible": True})
    ),
    "a job without R": (["lost"], lambda r: r["jobs"][3].update(R=None)),
    "a job that waits while nothing runs": (["stuck"], lambda r: stuck_after(r, PATIENCE + 0.1)),
    "a job that waits as long as a reload takes": ([], lambda r: stuck_after(r, PATIENCE - 0.1)),
    "an allocation on a drained node": (
        ["drained"], lambda r: r["resource"][2].update(timestamp=112.5)
    ),
    "a node that is never undrained": (["drained"], lambda r: r["resource"].pop(2)),
    "more cores than asked": (["amount"], lambda r: wanted(r, cores=[3, 3])),
    "fewer nodes than asked": (["amount"], lambda r: wanted(r, nodes=[2, 4])),
    "other ranks than asked": (["amount"], lambda r: wanted(r, ranks=[0, 0])),
    "a key for more ranks": (["key"], lambda r: key_of_4(r).update(ranks="0-1")),
    "no key": (["key"], lambda r: r["jobs"][3]["R"].pop("scheduling")),
    "another topology": (["key"], lambda r: key_of_4(r).update(topo={"cores": "0-7"})),
    "hosts of other ranks": (
        ["key"], lambda r: r["jobs"][3]["R"]["execution"].update(nodelist=["fake[0-1]"])
    ),
    "an event that comes twice": (
        ["order"],
        lambda r: r["jobs"][0]["events"].insert(5, {"name": "alloc", "timestamp": 109.91}),
    ),
    "times that go back": (
        ["order"], lambda r: event(r["jobs"][3], "clean").update(timestamp=139.5)
    ),
    "what went wrong otherwise": (["problem"], lambda r: r.update(problems=["module load: no"])),
    "a job that starts later than it was told": (
        ["late"], lambda r: r["promises"]["4"].update(started=111.5 + LATE_GRACE)
    ),
    "a step as long as may be": ([], lambda r: r.update(steps=[PROMPT])),
    "a longer step": (["slow"], lambda r: r.update(steps=[0.001, PROMPT + 0.01])),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(record, what):
    kinds, plant = PLANTED[what]
    plant(record)
    assert found(record) == kinds


def test_every_kind_is_planted():
    planted = {kind for kinds, _ in PLANTED.values() for kind in kinds}
    assert {*KINDS} - planted == {"invalid", "passed", "unanswered", "window"}, "tested below"


def wanted(record, **more):
    record["jobs"][3]["wanted"].update(more)


def test_a_job_that_ended_because_the_broker_was_killed_is_not_lost(record):
    context = {"type": "exec", "severity": 0, "note": "guest"}
    exception = {"name": "exception", "timestamp": 131.0, "context": context}
    record["jobs"][3]["events"].insert(4, exception)
    assert found(record) == ["lost"]
    record["stops"] = [[129.0, 130.0, "crash"]]
    assert found(record) == []


@pytest.mark.parametrize(("later", "kinds"), [(128.5, []), (127.5, ["lost"])])
def test_a_job_that_came_as_the_broker_was_killed_is_not_lost(record, later, kinds):
    record["stops"] = [[129.0, 130.0, "crash"]]
    record["submitted"] += [5, 6]
    record["jobs"].append(job(6, 0, "0", "", 131.0, 132.0))
    event(record["jobs"][-1], "submit")["timestamp"] = later
    event(record["jobs"][-1], "priority")["timestamp"] = 130.5
    assert found(record) == kinds


def stuck_after(record, seconds):
    """The record with a job that waits for so many *seconds* after all others are over."""
    record["jobs"].append(job(5, 0, "0", "", 140.0 + seconds, 200.0 + seconds))
    event(record["jobs"][-1], "priority")["timestamp"] = 135.0
    event(record["jobs"][-1], "submit")["timestamp"] = 134.0
    record["submitted"].append(5)
    return record


@pytest.mark.parametrize("end, kinds", [(None, ["drained"]), (113.0, ["drained"]), (111.0, [])])
def test_an_allocation_on_a_rank_that_is_gone_is_found(record, end, kinds):
    record["quiet"] = []
    record["gone"] = [["1", 90.0, end]]
    assert found(record) == kinds


def test_a_job_whose_resources_a_scheduler_refused_holds_them_no_longer(record):
    without(record["jobs"][0], "free", "finish", "release")
    assert found(record) == ["leak", "overlap"]
    context = {"type": "scheduler-restart", "severity": 0, "note": "gone"}
    exception = {"name": "exception", "timestamp": 109.0, "context": context}
    record["jobs"][0]["events"].insert(4, exception)
    assert found(record) == ["lost"], "its rank is there"
    record["gone"] = [["0", 108.9, 109.9]]
    assert found(record) == []


#: Job 4 is on rank 1 from 112 on.
WINDOW = {"ranks": "1", "start": 130.0, "end": 150.0, "queues": [], "added": 90.0, "removed": None}


@pytest.mark.parametrize(
    "change, expiration, kinds",
    [
        ({}, 0.0, ["window"]),
        ({}, 130.0, []),
        ({"ranks": "0"}, 130.1, []),
        ({"queues": ["parent"]}, 130.1, []),
        ({"queues": ["other"]}, 130.1, ["window"]),
        ({"added": 112.1 - DRAIN_GRACE}, 130.1, []),
        ({"removed": 111.0}, 130.1, []),
        ({"start": 105.0, "end": 111.0}, 0.0, []),
    ],
)
def test_a_job_that_reaches_into_a_window_is_found(record, change, expiration, kinds):
    record["windows"] = [{**WINDOW, **change}]
    record["jobs"][3]["R"]["execution"]["expiration"] = expiration
    record["jobs"][3]["wanted"]["queue"] = "debug"
    record["cluster"]["parents"] = {"debug": "parent"}
    for other in record["jobs"][:3]:
        other["R"]["execution"]["expiration"] = 120.0
    assert found(record) == kinds


@pytest.mark.parametrize(
    "change, kinds",
    [
        ({}, []),
        ({"error": "ENOSYS"}, []),
        ({"error": "EINVAL"}, ["unanswered"]),
        ({"seconds": 2.0}, []),
        ({"work": PROMPT + 0.01}, ["slow"]),
        ({"work": PROMPT + 0.01, "starting": True}, []),
        ({"question": "ask", "work": PROMPT + 0.01}, []),
    ],
)
def test_answers_are_right_and_prompt(record, change, kinds):
    answer = {"time": 100.0, "question": "ping", "seconds": 0.2, "work": None, "error": None}
    record["answers"] = [{**answer, "starting": False, **change}]
    assert found(record) == kinds


FABRIC = {"rack": [{"name": "r0", "switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]}, {"ranks": "8"}]}


@pytest.mark.parametrize(
    "wanted, right, wrong",
    [
        ({"within": ["switch"]}, [[0, 3]], [[3, 4], [8], [0, 8]]),
        ({"within": ["rack"]}, [[3, 4], [8]], [[0, 8]]),
        ({"groups": ["switch", 2]}, [[0, 1, 6, 7], [4, 5]], [[0, 1, 2, 4], [0, 8]]),
        ({"spread": ["switch", 2, 2]}, [[0, 1, 6, 7]], [[0, 1, 2, 4], [0, 4], [0, 1]]),
        ({}, [[3, 4, 8]], []),
    ],
)
def test_a_job_elsewhere_in_the_fabric_than_asked_is_found(wanted, right, wrong):
    fabric = list(domains(FABRIC))
    assert not [ranks for ranks in right if list(misplaced(wanted, ranks, fabric))]
    assert not [ranks for ranks in wrong if not list(misplaced(wanted, ranks, fabric))]


def test_a_fabric_that_is_not_the_clusters_cut_to_the_job_is_found(record):
    cut = {"rack": [{"name": "r", "switch": [{"ranks": "0-1"}]}]}
    record["cluster"]["fabric"] = cut
    for one in record["jobs"]:
        rank = one["R"]["execution"]["R_lite"][0]["rank"]
        one["R"]["scheduling"]["fabric"] = {"rack": [{"name": "r", "switch": [{"ranks": rank}]}]}
    assert found(record) == []
    record["jobs"][0]["R"]["scheduling"]["fabric"] = cut
    assert found(record) == ["key"]
    record["jobs"][0]["R"]["scheduling"]["fabric"] = {"rack": [{"switch": [{"ranks": "0"}]}]}
    assert found(record) == ["key"]


def test_an_r_that_does_not_validate_is_found(record):
    def validate(R):
        return ["wrong"] if R["execution"]["R_lite"][0]["rank"] == "1" else []

    assert found(record, validate) == ["invalid"]


@pytest.mark.parametrize(
    ("queue", "policy", "kinds"),
    [
        ("batch", "fifo", ["passed"]),
        ("express", "fifo", ["passed"]),
        ("other", "fifo", []),
        ("express", "easy", []),
    ],
)
def test_a_job_that_passes_the_first_of_a_fifo_line_is_found(record, queue, policy, kinds):
    record["cluster"]["parents"] = {"express": "batch"}
    first = {"told": None, "started": 105.0 + ORDER_GRACE, "queue": "batch", "policy": policy}
    record["promises"] = {"9": first, "10": {**first, "started": 104.9, "queue": queue}}
    assert found(record) == kinds
    record["promises"]["10"]["started"] = 105.1
    assert found(record) == []
