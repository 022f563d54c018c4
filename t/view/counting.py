"""The numbers of a cluster counted the slow way: from the JSON of R and of the jobs' R, by sets.

Written from the words of ``Totals`` and the reference; nothing of treepool but its text formats is
used.
"""

import random

from made import alloc
from placement import reference
from placement.reference import ReferencePool
from treepool.errors import InfeasibleRequest, InsufficientResources, InvalidJobspec
from treepool.placement.pool import Pool
from treepool.rfc import hostlist, idset

RESOURCE_KEYS = ("cores", "gpus", "memory", "storage")


def ids(text):
    return set(idset.iterate(idset.decode(text)))


def held(R):
    """The ("core" or "gpu", rank, id) that an R has."""
    return {
        (kind, rank, i)
        for entry in R["execution"]["R_lite"]
        for rank in ids(entry["rank"])
        for kind, text in entry["children"].items()
        for i in ids(text)
    }


def numbers(R, jobs, down=(), drained=()):
    """What Totals should say of cluster *R* with jobs that have the R's *jobs*."""
    everything = held(R)
    used = set().union(*map(held, jobs)) if jobs else set()
    away = set(down) | set(drained)
    free = {item for item in everything - used if item[1] not in away}
    ranks = {rank for _, rank, _ in everything}
    busy = {rank for _, rank, _ in used}
    with_cores = {rank for kind, rank, _ in free if kind == "core"}
    up = ranks - away
    count = {
        "nodes": len(ranks),
        "idle": len(up - busy),
        "partly": len(up & busy & with_cores),
        "full": len((up & busy) - with_cores),
        "down": len(away - set(drained)),
        "drained": len(set(drained)),
        "gpus_stranded": stranded(R, free),
    }
    for kind in ("core", "gpu"):
        for name, found in (("", everything), ("_free", free), ("_used", used)):
            count[f"{kind}s{name}"] = sum(item[0] == kind for item in found)
    return count


def stranded(R, free):
    """The free GPUs without their share of free cores, as the slow reference counts usable ones."""
    lost = 0
    for rank, node in ReferencePool(R).nodes.items():
        cores, gpus = (
            {i for k, r, i in free if (k, r) == (kind, rank)} for kind in ("core", "gpu")
        )
        gpus &= node.root.gpus
        lost += (
            len(gpus) - reference.usable(node.root, reference.Ids(cores, gpus)) / reference.PARTS
        )
    return lost


SHAPES = (
    "slot=1/core=1", "slot=3/core=2", "slot=1/[core=2;gpu=1]", "slot=2/[core=1;gpu=1]",
    "slot=1/[core=3;gpu=2]", "slot=1/node{x}", "slot=1/socket{x}", "slot=2/numa{x}",
    "slot=4/core=3", "slot=1/core=7", "slot=1/socket/[core=1;gpu=1]", "slot=2/node/core=2",
)  # fmt: skip


def pool_with_jobs(R, seed, jobs=12):
    """A pool of *R* on which some jobs run, as (pool, {jobid: allocation}); some ended again."""
    rng = random.Random(seed)
    pool, running = Pool(R), {}
    for jobid in range(1, jobs + 1):
        shape = rng.choice(SHAPES)
        try:
            running[jobid] = alloc(pool, jobid, shape)
        except (InfeasibleRequest, InsufficientResources, InvalidJobspec):
            continue
        if rng.random() < 0.2:
            gone = rng.choice(list(running))
            pool.free(gone)
            del running[gone]
    return pool, running


def some_R(nodes=6):
    """A cluster of three kinds of node: in sockets and numas, ragged, and flat."""
    numas = [
        {"numa": [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]},
        {"numa": [{"cores": "8-11", "gpus": "2"}, {"cores": "12-15", "gpus": "3"}]},
    ]
    uneven = [
        {"cores": "0-4", "gpus": "0-1", "memory": 12},
        {"gpus": "2-3", "numa": [{"cores": "5-6"}, {"cores": "7-9", "gpus": "2"}]},
    ]
    third = nodes // 3
    spans = [idset.encode_ids(range(i * third, (i + 1) * third)) for i in range(3)]
    children = [
        {"ranks": spans[0], "topo": {"socket": numas}},
        {"ranks": spans[1], "topo": {"cores": "0-11", "socket": uneven}},
    ]
    R_lite = [
        {"rank": spans[0], "children": {"core": "0-15", "gpu": "0-3"}},
        {"rank": spans[1], "children": {"core": "0-11", "gpu": "0-3"}},
        {"rank": spans[2], "children": {"core": "0-5", "gpu": "0-1"}},
    ]
    return {
        "version": 1,
        "execution": {
            "R_lite": R_lite,
            "nodelist": [hostlist.encode([f"n{i}" for i in range(3 * third)])],
            "starttime": 0.0,
            "expiration": 0.0,
        },
        "scheduling": {"writer": "TreePool", "children": children},
    }
