"""``treepool encode`` and Flux agree on what a node has, and treepool reads flux-core's keys."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from broker import PATIENCE, Failed, Instance, environment
from commandline import run_process
from features import needs_tree_pool
from fluxiongraph import two_racks
from hwlocfile import Device, Made, in_place
from made import nodes
from treepool import Pool, parse_shape
from treepool.rfc import idset, topo
from treepool.rfc.jobspec import from_resources
from treepool.rfc.rset import ResourceSet

REAL = Path(__file__).parents[3] / "shared" / "hwloc"

MADE = {
    "smt": Made(),
    "few-allowed": Made(allowed=set(range(1, 16)) | set(range(18, 32))),
    "hwloc-1": Made(),
    "gpus": Made(
        devices=[
            Device("0000:c1:00.0", 0, backends=[("opencl0d0", "OpenCL"), ("cuda0", "CUDA")]),
            Device("0000:41:00.0", 3, backends=[("cuda1", "CUDA")]),
        ]
    ),
    "partitions": Made(
        devices=[
            Device(
                "0000:02:00.0",
                1,
                "1200 [1002:74a0] [1002:74a0] 00",
                [(f"rsmi{i}", "RSMI") for i in range(3)],
            )
        ]
    ),
}


@pytest.fixture(scope="module")
def flux(small):
    return small.flux


def ids(R):
    """The ids of the only entry of R_lite."""
    (entry,) = json.loads(R)["execution"]["R_lite"]
    return {kind: idset.decode(text) for kind, text in entry["children"].items()}


def agree(path, flux):
    """Flux's R of the file and treepool's have the same ids, and Flux reads that of treepool."""
    theirs, ours = flux("R", "encode", "--xml", path), run_process("encode", "--xml", path)
    assert (ours.status, ids(ours.out)) == (0, ids(theirs)), ours.err
    assert ids(flux("R", "decode", stdin=ours.out)) == ids(theirs)
    added = run_process("encode", "--xml", path, "-R", "-", stdin=theirs.encode())
    assert added.status == 0, added.err
    for problem in ("disagree", "in R but not", "but not in R"):
        assert problem not in added.err


@pytest.mark.parametrize("name", MADE)
def test_ids_of_made_up_machines_in_a_file_and_in_place_of_this_one(flux, tmp_path, name):
    path = tmp_path / "node.xml"
    path.write_text(MADE[name].xml(1 if name == "hwloc-1" else 2))
    agree(path, flux)
    if name in ("few-allowed", "partitions"):
        saved = in_place(path)
        command = ["flux", "R", "encode", "--local"]
        env = {**os.environ, **saved}
        theirs = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert ids(run_process("encode", "--local", **saved).out) == ids(theirs.stdout)


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/hwloc is not here")
@pytest.mark.parametrize("name", ["corona", "sierra", "tuo.SPX", "cxlmem+dax.v2"])
def test_ids_of_real_machines(flux, name):
    agree(REAL / f"{name}.xml", flux)


#: Flux's R of each XML, an item of a JSON array, with the key of flux-core's encoder.
ENCODER = """
import json, subprocess, sys
from flux.resource.TreePool import amend
command = ["flux", "R", "encode", "--xml"]
for path in sys.argv[1:]:
    R = json.loads(subprocess.run([*command, path], stdout=subprocess.PIPE, check=True).stdout)
    print(json.dumps(amend(R, open(path).read())))
"""


def encoded_by_flux_core(*paths):
    """The R of each node, with flux-core's key."""
    done = subprocess.run(
        ["flux", "python", "-c", ENCODER, *map(str, paths)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


def served(R):
    """Assert that treepool loads *R*, finds every id in its topo, and gives all of it to a job."""
    (children,) = (entry["children"] for entry in R["execution"]["R_lite"])
    (entry,) = R["scheduling"]["children"]
    tree = topo.read(entry["topo"])
    assert tree.cores == idset.decode(children["core"])
    assert tree.gpus == idset.decode(children.get("gpu", ""))
    pool = Pool(R)
    spec = from_resources(parse_shape("slot/node{x}"))
    job = pool.alloc(1, pool.parse_resource_request(spec)).to_dict()
    assert job["execution"]["R_lite"] == R["execution"]["R_lite"]


@needs_tree_pool
def test_keys_of_flux_core_give_a_job_all_that_the_node_has(tmp_path):
    devices = [
        Device("0000:01:00.0", 0, backends=[("cuda0", "CUDA")]),
        Device("0000:02:00.0", package=0, backends=[("cuda1", "CUDA")]),
        Device("0000:03:00.0", backends=[("cuda2", "CUDA")]),
    ]
    path = tmp_path / "node.xml"
    path.write_text(Made(memory=0, devices=devices).xml())
    real = [REAL / f"{name}.xml" for name in ("corona", "tuo.SPX")] if REAL.is_dir() else []
    for R in encoded_by_flux_core(path, *real):
        served(R)


# -- Fluxion's key

NO_FLUXION = "Fluxion is not installed beside this flux-core: its keys were NOT tried"


def test_what_flux_ion_R_encode_prints_becomes_a_key(flux):
    parts = (("0-1", "0-3", "0"), ("2-3", "0-7", ""))
    wanted = "\n".join(
        flux("R", "encode", "-r", r, "-c", c, *(["-g", g] if g else []), "-H", f"n[{r}]", "-p", "p")
        for r, c, g in parts
    )
    R = flux("R", "append", stdin=wanted)
    try:
        theirs = flux("ion-R", "encode", stdin=R)
    except Failed as e:
        assert "not a flux command" in str(e)
        pytest.skip(NO_FLUXION)
    result = run_process("encode", "-R", "-", stdin=theirs.encode())
    assert result.status == 0
    assert "left out" not in result.err
    ours = json.loads(result.out)
    assert [(e["ranks"], e["topo"]) for e in ours.pop("scheduling")["children"]] == [
        ("0-1", {"cores": "0-3", "gpus": "0"}),
        ("2-3", {"cores": "0-7"}),
    ]
    assert ResourceSet.read(ours) == ResourceSet.read(R)


def test_the_key_of_a_job_of_fluxion_is_read():
    R = {**nodes("0-1", "0-7", "0-1"), "scheduling": two_racks()}
    with Instance(size=2, R=R) as instance:
        instance.flux("module", "remove", "sched-simple")
        first = instance.run("module", "load", "sched-fluxion-resource", "match-format=rv1")
        if "not found" in first.stderr:
            pytest.skip(NO_FLUXION)
        assert first.returncode == 0, first.stderr
        instance.flux("module", "load", "sched-fluxion-feasibility")
        instance.flux("module", "load", "sched-fluxion-qmanager")
        job = instance.submit("-n4", "-c4", "-g1")
        instance.wait(job, "alloc")
        theirs = instance.flux("job", "info", job, "R")
    assert "graph" in json.loads(theirs)["scheduling"]
    result = run_process("encode", "-R", "-", "--levels", "socket", stdin=theirs.encode())
    told = "treepool encode: <stdin>: 2 of 2 nodes of R in Fluxion's graph\n"
    assert (result.status, result.err) == (0, told)
    key = json.loads(result.out)["scheduling"]
    assert [e["topo"].keys() for e in key["children"]] == [{"socket"}]
    assert key["fabric"]["rack"] == [{"name": "rack0", "ranks": "0-1"}]
