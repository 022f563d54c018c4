"""Lines about a running cluster agree with its pool."""

from made import alloc, nodes
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Device, Link, Links
from treepool.view import status
from treepool.view.jobs import Job, Running
from treepool.view.picture import Picture

TOPO = {"numa": [{"cores": "0-3", "gpus": "0-1"}, {"cores": "4-7", "gpus": "2-3"}]}
LINKS = Links((Link("nvlink", 50.0, (0b11, 0b1100)),), devices=(Device("NVIDIA A100", 40, 0b1111),))


def cluster():
    """An R of three nodes, the last of them flat."""
    R = nodes("0-2", "0-7", "0-3", TOPO, LINKS)
    R["scheduling"]["children"][0]["ranks"] = "0-1"
    return R


def situation():
    """A pool with two jobs on rank 0, and rank 1 drained."""
    pool = Pool(cluster())
    near, across = alloc(pool, 1, "slot/[core=2;gpu=1]"), alloc(pool, 2, "slot/[core=6;gpu=3]")
    jobs = [
        Running(Job.of("f1", "train", near), "alice", "train", "RUN", 10.0, "", 1.0),
        Running(Job.of("f2", "test", across), "bob\x1b[31m", "t", "RUN", 20.0),
        Running(Job("f3", "wait", ()), "carol", "wait", "SCHED", 30.0, "for f1"),
    ]
    pool.mark_down("1")
    picture = Picture.of(pool, [r.job for r in jobs if r.job.parts], drained=0b10)
    return pool, jobs, picture


def test_there_is_a_line_for_each_gpu_with_its_state():
    pool, jobs, picture = situation()
    lines = list(status.gpu_lines(picture, jobs))
    assert [(line.rank, line.gpu) for line in lines] == [(r, g) for r in range(3) for g in range(4)]
    held = {entry.ranks: entry.gpus for entry in pool.copy_allocated().entries}
    used = {(line.rank, line.gpu) for line in lines if line.state == "used"}
    assert used == {(0, gpu) for gpu in idset.iterate(held[1])}
    assert {line.state for line in lines if line.rank == 1} == {"drained"}
    assert {line.state for line in lines if line.rank == 2} == {"free"}


def test_a_gpu_that_no_known_job_has_is_used_by_another():
    pool, jobs, picture = situation()
    picture = Picture.of(pool, [jobs[1].job], drained=0b10)
    lines = list(status.gpu_lines(picture, jobs[1:]))
    assert [(line.state, line.job, line.user) for line in lines[:2]] == [
        ("used", "other", ""),
        ("used", "f2", "bob\\x1b[31m"),
    ]


def test_a_gpu_has_its_model_memory_domain_and_job():
    _, jobs, picture = situation()
    lines = list(status.gpu_lines(picture, jobs))
    first = lines[0]
    assert (first.host, first.model, first.memory) == ("n0", "NVIDIA A100", 40)
    assert (first.job, first.user, first.domain) == ("f1", "alice", "numa 0")
    assert lines[3].domain == "numa 1"
    assert (lines[8].model, lines[8].domain) == ("", "")  # the flat node tells nothing


def test_a_job_has_its_placement_and_how_close_it_is():
    pool, jobs, _ = situation()
    near, across, waiting = status.job_lines(pool.inventory, jobs)
    assert (near.nodes, near.cores, near.gpus) == (1, 2, 1)
    assert near.placement == "rank0/core[0-1],gpu0"
    assert (near.hosts, near.summary) == ("n0", "n0/core[0-1],gpu0")
    assert (near.domains, near.fitness) == ("numa 0", 1.0)
    assert across.domains == "numa 0-1"
    assert across.fitness is None, "the scheduler did not tell it"
    assert (waiting.placement, waiting.fitness, waiting.note) == ("", None, "for f1")
