"""treepool and flux-core side by side: the same R, keys and allocations, in both directions.

``fluxpools.py`` has what needs no instance and runs in Flux's Python; here are real instances
inside one another with either's pool, Flux's own reader of R, and the keys of other writers.
"""

import copy
import functools
import json
import shlex
import subprocess
from pathlib import Path

import pytest
from checks import LACKING, names_in

from broker import PATIENCE, VECTORS, Instance, environment, key_of
from commandline import run_process
from features import HAS_TREE_POOL, NO_TREE_POOL, needs_tree_pool
from hwlocfile import Device, Made
from treepool.cli import vectors
from treepool.errors import InvalidKey
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import idset

SCRIPT = Path(__file__).with_name("fluxpools.py")
CHECKS = names_in(SCRIPT)

FILES = sorted(VECTORS.glob("*.json"))

OURS, THEIRS = "TreePool", "flux.resource.TreePool"


@pytest.mark.parametrize("check", CHECKS)
def test_pools(check):
    command = ["flux", "python", str(SCRIPT), check]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode == LACKING and not HAS_TREE_POOL:
        pytest.skip(NO_TREE_POOL)
    assert done.returncode == 0, done.stderr


# -- Flux reads every R


def flux_R(R, *words):
    """What ``flux R decode WORDS`` says of *R*; fails if it does not accept it."""
    done = subprocess.run(
        ["flux", "R", "decode", *words],
        input=json.dumps(R),
        env=flux_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, (done.stderr, R)
    return done.stdout.strip()


@functools.lru_cache
def flux_environment():
    """The environment, which takes a process to make, once."""
    return environment()


def content(R):
    """{rank: [cores, GPUs]} of *R*, as bitmasks."""
    found = {}
    for entry in R["execution"]["R_lite"]:
        ids = [idset.decode(entry["children"].get(kind) or "") for kind in ("core", "gpu")]
        found.update((rank, ids) for rank in idset.iterate(idset.decode(entry["rank"])))
    return found


def accepted(R):
    """Assert that Flux reads *R* as we do: ids, ranks and counts."""
    mine = content(R)
    assert content(json.loads(flux_R(R))) == mine
    assert flux_R(R, "--ranks") == idset.encode(idset.from_ids(mine))
    for kind, index in (("core", 0), ("gpu", 1)):
        total = sum(idset.size(ids[index]) for ids in mine.values())
        assert int(flux_R(R, f"--count={kind}")) == total
    assert int(flux_R(R, "--count=node")) == len(mine)
    assert flux_R(R, "--short").startswith("rank")
    assert flux_R(R, "--nodelist")


def allocations(path):
    """The R of each allocation that playing a file of vectors makes, first to last."""
    found, whole = [], Pool.alloc

    def alloc(self, jobid, request):
        allocation = whole(self, jobid, request)
        found.append(allocation.to_dict())
        return allocation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "alloc", alloc)
        assert all(result.passed for result in vectors.play(json.loads(path.read_text())))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_flux_reads_the_r_of_every_vector(path):
    found = allocations(path)
    assert found
    different = {json.dumps(R["execution"], sort_keys=True): R for R in found}
    for R in different.values():
        assert content(json.loads(flux_R(R))) == content(R)
    accepted(found[-1])


MACHINES = {
    "smt": Made(),
    "one-package": Made(packages=1, numas=1, cores=3, smt=1),
    "few-allowed": Made(allowed=set(range(1, 16)) | set(range(18, 32))),
    "gpus": Made(
        devices=[
            Device("0000:c1:00.0", 0, backends=[("cuda0", "CUDA")]),
            Device("0000:41:00.0", 3, backends=[("cuda1", "CUDA")]),
        ]
    ),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_flux_reads_the_r_that_encode_writes(tmp_path, name, version):
    path = tmp_path / "node.xml"
    path.write_text(MACHINES[name].xml(version))
    result = run_process("encode", "--xml", path)
    assert result.status == 0, result.err
    accepted(json.loads(result.out))


def test_flux_reads_the_r_of_a_sub_instance():
    R = cluster_R()
    pool = Pool(R)
    request = pool.parse_resource_request(jobspec(3, 15, 1))
    job = json.dumps(pool.alloc(1, request).to_dict())
    result = run_process("subinstance", "-", stdin=job.encode())
    assert result.status == 0, result.err
    accepted(json.loads(result.out))


# -- instances inside one another

#: In a sub-instance: take the pool class named, run a job, tell both Rs and whose pool it is.
INSIDE = """
set -e
flux module remove sched-simple
flux module load sched-simple pool-class=$1
job=$(flux submit --setattr=system.exec.test.run_duration=60s -n1 -c2 -g1 true)
flux job wait-event -q -t 20 $job alloc
whose=$(flux dmesg | grep -o 'pool-class=[A-Za-z]*' | tail -1)
flux kvs get resource.R | jq -c --arg pool "$whose" --argjson job "$(flux job info $job R)" \
    '{pool: $pool, R: ., job: $job}'
flux cancel --all
"""


@pytest.fixture(scope="module")
def one_node():
    with Instance(1, 120, 8, key_of("rfc49-cluster-a")) as instance:
        yield instance
        instance.cancel_all()


@pytest.mark.parametrize("inner", [OURS, pytest.param(THEIRS, marks=needs_tree_pool)])
@pytest.mark.parametrize("outer", [OURS, pytest.param(THEIRS, marks=needs_tree_pool)])
def test_an_instance_of_one_pool_runs_inside_an_instance_of_the_other(
    one_node, tmp_path, outer, inner
):
    one_node.load("sched-simple", f"pool-class={outer}")
    script = tmp_path / "inside.sh"
    script.write_text(INSIDE)
    command = f"flux alloc -n2 -c4 -g1 --conf=resource.noverify=true sh {script} {inner}"
    said = one_node.flux(
        "python", "-c", f"import subprocess; subprocess.run({shlex.split(command)!r})", timeout=120
    )
    told = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert told["pool"] == f"pool-class={'treepool' if inner == OURS else 'TreePool'}"
    assert told["R"]["scheduling"]["writer"] == told["job"]["scheduling"]["writer"] == "TreePool"
    (whole,), (part,) = content(told["R"]).values(), content(told["job"]).values()
    assert [idset.size(ids) for ids in whole] == [8, 2]
    assert [idset.size(ids) for ids in part] == [2, 1]
    assert all(p & ~w == 0 for p, w in zip(part, whole))


@needs_tree_pool
@pytest.mark.parametrize("first, then", [(OURS, THEIRS), (THEIRS, OURS)])
def test_jobs_of_one_pool_are_kept_when_the_other_takes_over(one_node, first, then):
    one_node.load("sched-simple", f"pool-class={first}")
    job = one_node.submit("-n2", "-c3", "-g1")
    before = one_node.placed(job)
    one_node.load("sched-simple", f"pool-class={then}")
    assert one_node.resources("allocated") == (1, 6, 2)
    other = one_node.submit("-n6", "-c15", "-g1")
    (rank, cores, gpus), (_, more_cores, more_gpus) = *before, *one_node.placed(other)
    assert one_node.state(job) == "R" and rank == "0"
    assert idset.decode(cores) & idset.decode(more_cores) == 0
    assert idset.decode(gpus) & idset.decode(more_gpus) == 0
    one_node.cancel_all()
    assert one_node.resources("free") == (1, 120, 8)


# -- keys of other and older writers


def cluster_R():
    """The R of RFC 49's cluster A."""
    return copy.deepcopy(json.loads((VECTORS / "rfc49-cluster-a.json").read_text())["cluster"]["R"])


def jobspec(slots, cores, gpus):
    """A jobspec dict of a flat slot."""
    kinds = (("core", cores), ("gpu", gpus))
    children = [{"type": kind, "count": count} for kind, count in kinds]
    slot = {"type": "slot", "count": slots, "label": "task", "with": children}
    tasks = [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}]
    system = {"duration": 60}
    return {"version": 1, "resources": [slot], "tasks": tasks, "attributes": {"system": system}}


def with_key(key, starttime=0):
    """(pool on cluster A with *key*, the R of a job of 2 cores and a GPU in it).

    An R that was allocated has a *starttime*.
    """
    R = cluster_R()
    del R["scheduling"]
    R["execution"]["starttime"] = starttime
    pool = Pool(R if key is None else {**R, "scheduling": key})
    allocation = pool.alloc(1, pool.parse_resource_request(jobspec(1, 2, 1)))
    assert isinstance(allocation, Allocation)
    return pool, allocation.to_dict()


CHILDREN = cluster_R()["scheduling"]["children"]
TOPO = CHILDREN[0]["topo"]


@pytest.mark.parametrize(
    "key",
    [
        {"writer": "Elsewhere 2.0", "children": CHILDREN},
        {"writer": "treepool", "children": CHILDREN},
    ],
    ids=["other", "other-case"],
)
def test_under_a_key_of_another_writer_nodes_are_flat_and_jobs_carry_it_along_unchanged(key):
    pool, job = with_key(key)
    assert pool.localities == ()
    assert job["scheduling"] == key
    accepted(job)


@pytest.mark.parametrize(
    "key",
    [
        {"writer": "fluxion:jgf_shorthand", "graph": {"nodes": [], "edges": []}},
        {"graph": {"nodes": [{"id": "0", "metadata": {"type": "cluster"}}], "edges": []}},
    ],
    ids=["fluxion", "graph-alone"],
)
def test_under_fluxions_key_nodes_are_flat_and_jobs_have_none(key):
    """It has the graph of the instance, which Fluxion would take for what the job has."""
    pool, job = with_key(key)
    assert pool.localities == ()
    assert "scheduling" not in job
    accepted(job)


@pytest.mark.parametrize("key", [{"children": CHILDREN}, {"site": 1}, {}])
def test_under_a_key_of_nobody_nodes_are_flat_and_jobs_have_it(key):
    pool, job = with_key(key)
    assert pool.localities == ()
    assert job["scheduling"] == key
    accepted(job)


@pytest.mark.parametrize(
    "key", [{"writer": "TreePool"}, {"writer": "TreePool", "children": []}], ids=["none", "empty"]
)
def test_without_children_nodes_are_flat_and_a_jobs_key_says_so(key):
    pool, job = with_key(key)
    assert pool.localities == ()
    flat = {"ranks": "0", "topo": {"cores": "0-119", "gpus": "0-7"}}
    assert job["scheduling"]["children"][0].pop("allocated")  # the job has less than the node
    assert job["scheduling"] == {"writer": "TreePool", "children": [flat]}
    accepted(job)


def test_without_a_key_nodes_are_flat_and_jobs_have_none():
    pool, job = with_key(None)
    assert pool.localities == ()
    assert "scheduling" not in job


def test_an_unknown_key_beside_children_is_carried_along():
    pool, job = with_key({"writer": "TreePool", "children": CHILDREN, "vendor": {"a": [1, None]}})
    assert "numa" in pool.localities
    assert job["scheduling"]["vendor"] == {"a": [1, None]}
    (entry,) = job["scheduling"]["children"]
    assert (entry["ranks"], entry["topo"]) == ("0", TOPO)
    accepted(job)


@pytest.mark.parametrize(
    "children, place",
    [
        ([{"ranks": "0-15"}], "/scheduling/children/0"),
        ([{"topo": TOPO}], "/scheduling/children/0"),
        (None, "/scheduling/children"),
    ],
    ids=["no-topo", "no-ranks", "null"],
)
def test_missing_keys_inside_children_are_an_error_that_names_the_place(children, place):
    with pytest.raises(InvalidKey) as e:
        with_key({"writer": "TreePool", "children": children})
    assert str(e.value).startswith(f"{place}: ")
    assert "\n" not in str(e.value)


@needs_tree_pool
@pytest.mark.parametrize("pool", [OURS, THEIRS])
def test_each_pool_loads_an_r_with_a_fabric(pool):
    fabric = {"cell": [{"name": "c0", "switch": [{"name": "s0", "ranks": "0"}]}]}
    with Instance(1, 120, 8, {**key_of("rfc49-cluster-a"), "fabric": fabric}) as instance:
        instance.load("sched-simple", f"pool-class={pool}")
        job = instance.submit("-n1", "-c3", "-g1")
        assert instance.state(job) == "R"
        R = json.loads(instance.flux("job", "info", job, "R"))
        accepted(R)
        if pool == OURS:
            assert R["scheduling"]["fabric"] == fabric
        instance.cancel_all()


def test_children_for_some_ranks_leave_the_others_flat():
    pool, job = with_key({"writer": "TreePool", "children": [{"ranks": "3-5", "topo": TOPO}]})
    assert "numa" in pool.localities
    assert job["scheduling"]["children"][0]["ranks"] == job["execution"]["R_lite"][0]["rank"]


def test_children_of_as_many_other_ranks_are_those_of_the_enclosing_instance():
    key = {"writer": "TreePool", "children": [{"ranks": "100-115", "topo": TOPO}]}
    _, job = with_key(key, starttime=100)
    (entry,) = job["scheduling"]["children"]
    assert (entry["ranks"], entry["topo"]) == ("0", TOPO)


def test_children_of_another_number_of_other_ranks_are_an_error_that_names_both():
    with pytest.raises(InvalidKey, match=r"100-103.*0-15"):
        with_key({"writer": "TreePool", "children": [{"ranks": "100-103", "topo": TOPO}]})
