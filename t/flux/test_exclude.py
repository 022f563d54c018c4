"""Ranks that ``resource.exclude`` keeps from the scheduler: R loses them, its key does not."""

import json

import pytest

from broker import QUICK_BROKERS, Instance
from made import nodes
from treepool.rfc import idset

NUMA = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
SOCKET = [{"cores": "0-5", "gpus": "0"}, {"cores": "6-7", "gpus": "1"}]

#: Ranks 0 and 1 have numa, 2 and 3 have sockets: whoever mistakes one rank for another is seen.
R = nodes("0-3", "0-7", "0-1", nodelist=["fake[0-3]"])
R["scheduling"] = {
    "writer": "TreePool",
    "children": [
        {"ranks": "0-1", "topo": {"numa": NUMA}},
        {"ranks": "2-3", "topo": {"socket": SOCKET}},
    ],
}

WAYS = {
    "sched-treepool": ("sched-treepool",),
    "sched-simple pool-class=TreePool": ("sched-simple", "pool-class=TreePool"),
    "sched-simple, by the writer of R": ("sched-simple",),
}


@pytest.fixture(scope="module")
def four():
    """Four brokers, of which rank 0 is excluded from the start."""
    with Instance(size=4, R=R, conf=['resource.exclude="0"']) as instance:
        assert instance.soon(lambda: instance.resources("free") == (3, 24, 6))
        yield instance
        instance.cancel_all()


def exclude(instance, ranks, words=("sched-treepool",)):
    """Restart Flux's resource module, and so the scheduler, with *ranks* excluded."""
    resource = {"path": instance.file.name, "noverify": True, "exclude": ranks}
    instance.flux("module", "remove", instance.scheduler)
    instance.flux("config", "load", stdin=json.dumps({"resource": resource}))
    instance.flux("module", "reload", "resource")
    instance.flux("module", "load", *words)


@pytest.mark.parametrize("words", WAYS.values(), ids=WAYS)
def test_the_other_ranks_keep_the_topo_that_is_theirs(four, words):
    four.load(*words)
    assert four.soon(lambda: "pool-class=treepool Rv1 rank[1-3]/" in four.ready())
    jobs = [four.shape("slot=1/numa{x}") for _ in range(2)]
    assert [four.placed(job) for job in jobs] == [[("1", "0-3", "0")], [("1", "4-7", "1")]]
    job = four.shape("slot=1/socket/[core=6;gpu=1]")
    assert four.placed(job) == [("2", "0-5", "0")]
    (entry,) = four.R(job)["scheduling"]["children"]
    assert (entry["ranks"], entry["topo"]) == ("2", {"socket": SOCKET})
    assert four.placed(four.submit("-N1", "-n1", "--exclusive")) == [("3", "0-7", "0-1")]
    four.cancel_all()


def test_an_excluded_rank_is_not_used_however_it_is_drained_and_undrained(four):
    four.load("sched-treepool")
    four.flux("resource", "drain", "2", "testing")
    assert four.soon(lambda: four.resources("down") == (1, 8, 2))
    exclude(four, "0,2")
    assert four.soon(lambda: four.resources("free") == (2, 16, 4))
    for what in ("drain", "undrain"):
        four.run("resource", what, "2")  # Flux refuses
        jobs = [four.submit("-N1", "-n1", "--exclusive") for _ in range(3)]
        assert sorted(four.placed(job)[0][0] for job in jobs[:2]) == ["1", "3"]
        assert four.waits(jobs[2])
        four.cancel_all()
    assert four.placed(four.shape("slot=1/socket/core=6")) == [("3", "0-5", "")]
    four.cancel_all()

    exclude(four, "0")
    if drained := four.flux("resource", "drain", "-no", "{ranks}"):
        four.flux("resource", "undrain", drained)
    assert four.soon(lambda: four.resources("free") == (3, 24, 6))
    assert four.placed(four.shape("slot=1/socket/core=6")) == [("2", "0-5", "")]
    four.cancel_all()


def test_a_job_on_a_rank_that_was_excluded_meanwhile_ends_and_the_others_go_on(four):
    four.load("sched-treepool")
    stays = four.submit("-n1", "-c4", "--requires=rank:1")
    ends = four.submit("-n1", "-c4", "--requires=rank:3")
    for job in (stays, ends):
        four.wait(job, "alloc")
    exclude(four, "0,3")
    try:
        four.wait(ends, "exception")
        four.wait(ends, "clean")
        assert four.state(stays) == "R"
        # Flux's job manager remembers what is allocated until the next alloc or free (flux-core
        # 0.88, resource_status_cache), and posts no free for a job that lost its rank.
        four.wait(four.submit("-n1", "-c1", "--requires=rank:2"), "alloc")
        assert four.resources("allocated") == (2, 5, 0)
    finally:
        four.cancel_all()
        exclude(four, "0")


@pytest.mark.parametrize("words", [*WAYS.values()][:2], ids=[*WAYS][:2])
def test_with_every_rank_excluded_the_scheduler_lives_and_denies(four, words):
    four.load(*words)
    runs = four.submit("-N3", "-n3", "--exclusive")
    waits = four.submit("-n1", "-c4")
    four.wait(runs, "alloc")
    exclude(four, "0-3", words)
    try:
        four.wait(runs, "exception")
        four.wait(runs, "clean")
        assert "the pool has no nodes" in four.wait(waits, "exception")["note"]
        later = four.submit("-n1")
        assert "the pool has no nodes" in four.wait(later, "exception")["note"]
        for state in ("all", "free", "down"):  # "allocated": see above
            assert four.resources(state) == (0, 0, 0)
    finally:
        exclude(four, "0", words)
    assert four.soon(lambda: four.resources("free") == (3, 24, 6))
    four.wait(four.submit("-N3", "-n3", "--exclusive"), "alloc")
    four.cancel_all()


#: In an instance inside a job: what a job gets that only a node with sockets can serve.
ASKS_A_SOCKET = """
job=$(flux submit --setattr=system.exec.test.run_duration=1h \
    --resources-shape=slot/socket/core=6 true)
flux job wait-event -q -t 10 $job alloc && flux job info $job R
"""


@pytest.mark.parametrize(
    ("outer", "host", "scheduler"),
    [("1-3", "fake2", "sched-treepool"), ("1,3", "fake3", "sched-simple")],
)
def test_in_an_instance_inside_a_job_its_own_ranks_are_excluded(four, outer, host, scheduler):
    four.load("sched-treepool")
    conf = (
        "resource.noverify=true",
        'resource.exclude="0"',
        f"modules.alternatives.sched={scheduler}",
    )
    number = len(list(idset.iterate(idset.decode(outer))))
    told = four.flux(
        *("alloc", f"-N{number}", "--exclusive", f"--requires=rank:{outer}"),
        *(f"--conf={line}" for line in conf),
        *(f"--broker-opts={option}" for option in QUICK_BROKERS),
        *("sh", "-c", ASKS_A_SOCKET),
    )
    job = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    assert job["execution"]["R_lite"] == [{"rank": "1", "children": {"core": "0-5"}}]
    assert job["execution"]["nodelist"] == [host]
    (entry,) = job["scheduling"]["children"]
    assert (entry["ranks"], entry["topo"]) == ("1", {"socket": SOCKET})
