"""RFC 49's vectors through ``flux submit``, on each way of making treepool place the jobs."""

import json

import pytest

from broker import PATIENCE, VECTORS, Failed, Instance, key_of

WAYS = {
    "sched-treepool": ("sched-treepool",),
    "sched-simple pool-class=TreePool": ("sched-simple", "pool-class=TreePool"),
    "sched-fifo pool-class=TreePool": ("sched-fifo", "pool-class=TreePool"),
    "sched-backfill pool-class=TreePool": ("sched-backfill", "pool-class=TreePool"),
    "sched-simple, by the writer of R": ("sched-simple",),
}


def check_vectors(instance, cluster):
    for vector in json.loads((VECTORS / f"{cluster}.json").read_text())["vectors"]:
        job = instance.shape(vector["shape"])
        assert instance.R(job)["execution"]["R_lite"] == vector["expect"]["R_lite"], vector["id"]


@pytest.mark.parametrize("words", WAYS.values(), ids=WAYS)
def test_cluster_a_on_16_nodes(cluster, idle, words):
    cluster.load(*words)
    check_vectors(cluster, "rfc49-cluster-a")
    assert "pool-class=treepool" in cluster.ready()


def test_cluster_b_on_1152_nodes():
    with Instance(1152, 96, 4, key_of("rfc49-cluster-b")) as instance:
        instance.load("sched-treepool")
        check_vectors(instance, "rfc49-cluster-b")


def test_what_is_stored_is_what_was_allocated_and_what_flux_shows(cluster, idle):
    cluster.load("sched-treepool")
    R = cluster.R(cluster.submit("-t10m", "-n4", "-c2", "-g1"))
    execution = R["execution"]
    assert (execution["nodelist"], execution["nslots"]) == (["fake0"], 4)
    assert execution["expiration"] - execution["starttime"] == pytest.approx(600)
    assert R["scheduling"]["writer"] == "TreePool"
    assert [child["ranks"] for child in R["scheduling"]["children"]] == ["0"]
    assert cluster.resources("all") == (16, 1920, 128)
    assert cluster.resources("allocated") == (1, 8, 4)
    assert cluster.resources("free") == (16, 1912, 124)
    assert "fake[0-15]" in cluster.flux("resource", "status")
    assert cluster.stats()["running_jobs"] == 1


def test_beside_another_scheduler_the_load_fails_and_the_other_goes_on(cluster):
    cluster.load("sched-simple")
    done = cluster.run("module", "load", "sched-treepool")
    assert done.returncode != 0
    assert "not loaded: a scheduler is loaded already, see flux module list" in cluster.log()
    cluster.flux("run", "-n1", "true")


def test_without_a_scheduler_every_question_says_that_none_is_loaded(cluster):
    cluster.load("sched-treepool")
    cluster.flux("module", "remove", "sched-treepool")
    job = cluster.flux("submit", "-n1", "true").strip()
    loads = "flux module load sched-treepool"
    try:
        assert "no scheduler is loaded" in cluster.flux("treepool", "status")
        last = cluster.flux("treepool", "status", "--json").splitlines()[-1]
        assert json.loads(last)["scheduled"] is False
        told = cluster.run("treepool", "explain", job).stdout
        assert "waits: no scheduler is loaded" in told and loads in told
        where = cluster.run("treepool", "where", job)
        assert (where.returncode, where.stderr.count("\n")) == (1, 1)
        assert "it has no resources yet" in where.stderr
    finally:
        cluster.flux("module", "load", "sched-treepool")
    assert "no scheduler" not in cluster.flux("treepool", "status")


def test_a_key_that_cannot_be_used_is_told_in_one_line():
    numa = [{"cores": "0-4"}, {"cores": "4-7"}]
    key = {"writer": "TreePool", "children": [{"ranks": "0", "topo": {"numa": numa}}]}
    with pytest.raises(Failed) as raised:
        # Its sched-simple finds this pool by the key's writer.
        with Instance(2, 8, 2, key) as instance:
            instance.process.wait(PATIENCE)  # the first program may begin before the broker ends
        raise Failed(instance.errors)
    said = str(raised.value)
    why = "/scheduling/children/0/topo/numa/1: cores 4 also in the sibling"
    assert f"sched-simple.err[0]: cannot use this instance's R: {why}" in said
    assert "Traceback" not in said
