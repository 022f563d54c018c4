"""Fixtures of the pictures' tests."""

import json

import pytest

from made import alloc
from treepool.cli.files import data_folder
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view.jobs import Job
from treepool.view.picture import Picture


@pytest.fixture(scope="session")
def picture_of():
    """``picture_of(R, shapes, down, drained)``: the picture of a cluster with jobs on it."""
    return make_picture


def cluster_R(name):
    """The R of RFC 49's cluster "a" or "b"."""
    path = data_folder("testvectors") / f"rfc49-cluster-{name}.json"
    return json.loads(path.read_text())["cluster"]["R"]


def make_picture(R="a", shapes=(), down="", drained=""):
    """The picture of *R* ("a" and "b" are RFC 49's) on which jobs of *shapes* started."""
    pool = Pool(cluster_R(R) if isinstance(R, str) else R)
    away = idset.decode(down) | idset.decode(drained)
    pool.mark_down(idset.encode(away))
    jobs = []
    for jobid, shape in enumerate(shapes, 1):
        jobs.append(Job.of(str(jobid), shape, alloc(pool, jobid, shape)))
    return Picture.of(pool, jobs, drained=idset.decode(drained))
