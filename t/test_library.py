"""The library, as a program uses it that knows doc/api.md alone."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from hwlocfile import Made
from treepool import Allocation, Pool, ResourceSet, SchedulingKey, encode, subinstance
from treepool.errors import (
    InsufficientResources,
    InvalidHardware,
    InvalidIdset,
    InvalidJobspec,
    InvalidR,
    InvalidShape,
)
from treepool.placement.options import OPTIONS

NUMA = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
SWITCHES = [{"name": "s0", "ranks": "0-1"}, {"name": "s1", "ranks": "2-3"}]
KEY = {
    "writer": "TreePool",
    "children": [{"ranks": "0-3", "topo": {"numa": NUMA}}],
    "fabric": {"switch": SWITCHES},
}


def four() -> dict:
    """The R of four nodes of two NUMA domains, below two switches."""
    children = {"core": "0-7", "gpu": "0-1"}
    execution = {"R_lite": [{"rank": "0-3", "children": children}], "starttime": 0,
                 "expiration": 0, "nodelist": ["n[0-3]"]}  # fmt: skip
    return {"version": 1, "execution": execution, "scheduling": copy.deepcopy(KEY)}


# -- requests


def test_a_request_is_a_shape_with_a_duration_and_options():
    pool = Pool(four())
    allocation = pool.alloc(1, pool.request("node=2/slot/core=1", 60, {"within": "switch"}))
    assert allocation.ranks in ((0, 1), (2, 3))
    assert round(allocation.expiration - allocation.starttime) == 60
    for words, error in (
        (("slot=",), InvalidShape),
        (("slot/gpo=1",), InvalidJobspec),
        (("slot/core", 0, {"with": "switch"}), InvalidJobspec),
    ):
        with pytest.raises(error):
            pool.request(*words)


def test_the_problems_of_a_jobspec_are_listed():
    problems = Pool.problems({"version": 1, "resources": [], "tasks": []})
    assert [problem.pointer for problem in problems] == ["", "/resources", "/tasks"]


@pytest.mark.parametrize("options", [{"straddle": 0.3}, {"straddle": "0.3", "policy": "packing"}])
def test_options_are_numbers_or_texts(options):
    assert Pool(four(), **options).ranks == (0, 1, 2, 3)


def test_what_is_no_job_id_and_no_request_is_a_type_error_with_a_hint():
    pool = Pool(four())
    for jobid, request, message in (
        ("7", pool.request("slot/core"), "a job id is an int, not str"),
        (8, {"version": 1}, r"a Request is needed, as request\(\) .* not dict"),
    ):
        with pytest.raises(TypeError, match=message):
            pool.alloc(jobid, request)
    assert pool.job_end_times() == []


# -- ranks


def test_ranks_are_texts_or_ids_and_told_as_tuples():
    pool = Pool(four())
    pool.mark_down([1, 3])
    assert (pool.ranks, pool.up) == ((0, 1, 2, 3), (0, 2))
    pool.mark_up("all")
    pool.remove_ranks((2,))
    pool.remove_ranks("3,99")  # 99 is none of its ranks, and stays so
    assert pool.ranks == (0, 1)
    for wrong in (5, "x"):
        with pytest.raises(InvalidIdset):
            pool.remove_ranks(wrong)
    assert ResourceSet.read(pool.to_dict()).ranks == (0, 1)
    assert SchedulingKey.read(KEY).ranks == (0, 1, 2, 3)
    assert pool.alloc(1, pool.request("slot/core")).ranks == (0,)


# -- what is free


def test_what_is_free_is_counted_by_nodes_cores_gpus_and_whole_domains():
    pool = Pool(four())
    assert pool.free_now() == (4, 32, 8, {"numa": 8})
    pool.alloc(1, pool.request("slot/core=1"))
    pool.mark_down("3")
    assert pool.free_now() == (2, 23, 6, {"numa": 5})


def test_room_is_how_many_such_jobs_could_start_now():
    pool = Pool(four())
    request = pool.request("slot/[core=4;gpu=1]")
    assert (pool.room(request), pool.room(request, most=3)) == (8, 3)
    jobs = 0
    try:
        while True:
            pool.alloc(jobs, request)
            jobs += 1
    except InsufficientResources:
        assert (jobs, pool.room(request)) == (8, 0)
    assert pool.room(pool.request("slot/core=9")) == 0  # never


def test_room_is_the_same_whatever_ids_the_jobs_have():
    pool = Pool(four())
    request = pool.request("slot/[core=4;gpu=1]")
    for jobid in (-1, -2, 0, 1 << 63):
        pool.alloc(jobid, request)
    assert pool.room(request) == 4


def test_a_full_cluster_and_a_drained_one_have_other_reasons():
    pool = Pool(four())
    wide, one = pool.request("slot=3/node{x}"), pool.request("slot=2/[core=4;gpu=1]")

    def why(request):
        with pytest.raises(InsufficientResources) as raised:
            pool.alloc(99, request)
        reason = raised.value.reason
        return reason.code, reason.need, reason.have

    pool.mark_down("all")
    assert why(one) == ("down", 2, 0)
    pool.mark_up("0-1")
    assert why(wide) == ("down", 3, 2)
    pool.alloc(1, pool.request("slot=2/node{x}"))
    assert why(wide) == ("down", 3, 2)  # also if the others were idle
    pool.mark_up("2")
    assert why(wide) == ("in-use", 3, 1)
    pool.alloc(2, pool.request("slot/[core=4;gpu=1]"))
    assert why(one) == ("in-use", 2, 1)


def test_the_reason_counts_whole_domains_and_not_the_free_cores():
    pool = Pool(four())
    pool.alloc(1, pool.request("node=4/slot/core=5"))
    with pytest.raises(InsufficientResources, match=r"^0 of 1 slots free now$"):
        pool.alloc(2, pool.request("slot/numa{x}"))


def test_a_job_keeps_its_resources_until_it_is_freed():
    pool = Pool(four())
    pool.alloc(1, pool.request("slot/node{x}", duration=0.001))
    time.sleep(0.01)
    assert pool.free_now().nodes == 3


# -- what belongs to whom


def test_a_result_is_the_caller_s_own():
    R = four()
    pool = Pool(R)
    first = pool.alloc(1, pool.request("slot/core"))
    read, key = ResourceSet.read(R), SchedulingKey.read(R["scheduling"])
    encoded = encode({"n0": Made(host="n0").xml()}).R
    calls = [
        first.to_dict,
        pool.to_dict,
        read.to_dict,
        encoded.to_dict,
        lambda: {"scheduling": key.to_dict()},
        lambda: subinstance(R),
    ]
    before = json.dumps([call() for call in calls])
    for call in calls:
        mine = call()["scheduling"]
        for entry in mine["children"]:
            for domains in entry["topo"].values():
                domains[0]["cores"] = "0-99"
                domains.clear()
            entry["topo"].clear()
        mine.get("fabric", {}).clear()
    assert json.dumps([call() for call in calls]) == before and four() == R
    R["scheduling"]["children"][0]["topo"].clear()
    second = pool.alloc(2, pool.request("slot/core")).to_dict()
    assert second["scheduling"]["children"][0]["topo"] == {"numa": NUMA}


def test_a_pool_belongs_to_its_thread():
    pool = Pool(four())
    raised = []

    def elsewhere():
        for call in (pool.to_dict, lambda: pool.mark_down("0"), pool.copy, lambda: pool.ranks):
            try:
                call()
            except RuntimeError as e:
                raised.append(str(e))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(raised) == 4 and "make another from its R" in raised[0]
    assert pool.up == (0, 1, 2, 3)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Pool.copy])
def test_a_copy_is_independent(copied):
    pool = Pool(four())
    pool.alloc(1, pool.request("slot/node{x}"))
    other = copied(pool)
    other.alloc(2, other.request("slot/node{x}"))
    other.mark_down("3")
    assert (pool.free_now().nodes, other.free_now().nodes) == (3, 1)
    other.free(1)
    assert pool.job_end_times() == [(1, 0.0)]


def test_a_pool_is_not_pickled_and_requests_are_also_for_another_process():
    pool = Pool(four())
    with pytest.raises(TypeError, match="a Pool cannot be pickled"):
        pickle.dumps(pool)
    request = pool.request("slot=2/[core=2;gpu=1]", 60, {"within": "switch"})
    again = pickle.loads(pickle.dumps(request))
    assert again == request and hash(again) == hash(request)
    program = (
        "import pickle, sys, json; from treepool import Pool\n"
        "R, request = pickle.load(sys.stdin.buffer)\n"
        "print(Pool(R).alloc(1, request).dumps())"
    )
    sent = pickle.dumps((four(), request))
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert done.stdout.decode().strip() == pool.alloc(1, request).dumps(), done.stderr


def test_an_allocation_can_be_taken_over_and_given_back_by_its_R():
    pool, other = Pool(four()), Pool(four())
    got = pool.alloc(1, pool.request("node=2/slot/core=2"))
    assert isinstance(got, Allocation)
    other.register_alloc(5, got.encode())
    other.free(5, got.to_dict())
    other.register_alloc(6, got)
    other.free(6, got, final=True)
    assert other.free_now().nodes == 4
    assert (got.ranks, got.hosts) == ((0, 1), ("n0", "n1"))
    assert Pool(got).free_now().cores == 4
    for call in (ResourceSet.read, subinstance):
        with pytest.raises(InvalidR, match=r"pass the to_dict\(\) of the Allocation"):
            call(got)
    assert pool.fitness(got, pool.request("node=2/slot/core=2")).total == 1.0


def test_the_r_of_a_job_has_no_key_if_the_pool_says_so():
    pools = {how: Pool(four(), job_key=how) for how in ("full", "none")}
    got = {how: pool.alloc(1, pool.request("slot/[core=4;gpu]")) for how, pool in pools.items()}
    execution = {how: allocation.to_dict()["execution"] for how, allocation in got.items()}
    assert execution["full"]["R_lite"] == execution["none"]["R_lite"]
    assert set(got["full"].to_dict()) - set(got["none"].to_dict()) == {"scheduling"}
    assert Pool(subinstance(got["none"].to_dict())).localities == ()
    assert execution["none"]["expiration"] == 9223372036  # as Fluxion has it, where 0 ends the job


# -- names and types


def test_the_options_of_a_pool_are_those_of_the_table():
    hints = get_type_hints(Pool.__init__)
    given = {name: hints[name] for name in hints if name not in ("R", "return")}
    assert list(given) == list(OPTIONS)
    for name, hint in given.items():
        literal = get_args(get_args(hint)[0]) if OPTIONS[name].choices else ()
        assert literal == OPTIONS[name].choices, name


def test_the_place_of_what_is_wrong_is_a_json_pointer():
    wrong = four()
    wrong["execution"]["R_lite"][0]["rank"] = 7
    for R, pointer in (({"version": 1}, ""), (wrong, "/execution/R_lite/0/rank")):
        with pytest.raises(InvalidR) as raised:
            Pool(R)
        problem = ResourceSet.problems(R)[0]
        assert raised.value.pointer == problem.pointer == pointer
        said = f"{pointer}: {problem.message}" if pointer else problem.message
        assert str(raised.value) == str(problem) == said


def test_a_name_of_a_file_is_told_to_be_one():
    with pytest.raises(InvalidR, match="not its name"):
        Pool("/etc/flux/R.json")
    with pytest.raises(InvalidHardware, match=r"^n0: .* not its name"):
        encode({"n0": "/tmp/n0.xml"})


RIGHT = """
from treepool import Allocation, Fitness, Free, Pool, Request, ResourceSet, encode, parse_shape
pool = Pool({}, straddle=0.3, policy="packing", mix="1*slot/core")
request: Request = pool.request("slot/core", 60)
got: Allocation = pool.alloc(7, request)
hosts: tuple[str, ...] = got.hosts
ranks: tuple[int, ...] = got.ranks + pool.up + ResourceSet.read({}).ranks
fit: Fitness = pool.fitness(got, request)
free: Free = pool.free_now()
pool.remove_ranks([1, 2])
"""

WRONG = """
from treepool import Pol
from treepool import Pool
pool = Pool({}, polcy="packing")
pool = Pool({}, straddle=[1])
pool = Pool({}, locality=3)
pool = Pool({}, policy="pack")
pool.alloc("7", pool.request("slot/core"))
pool.alloc(8, {"version": 1})
pool.remove_ranks(5)
"""


@pytest.mark.depth
def test_a_checker_of_types_passes_what_runs_and_finds_what_does_not(tmp_path):
    found = {}
    for name, text in (("right", RIGHT), ("wrong", WRONG)):
        (tmp_path / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"{name}.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        found[name] = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert found["right"] == []
    assert [int(line.split(":")[1]) for line in found["wrong"]] == [2, 4, 5, 6, 7, 8, 9, 10]


# -- hardware


def test_a_key_of_real_nodes_needs_no_subprocess():
    xml = {"n0": Made(host="n0").xml(), "n1": Made(host="n1").xml().encode()}
    encoded = encode(xml)
    assert (encoded.R.hosts, encoded.R.ranks, encoded.warnings) == (("n0", "n1"), (0, 1), ())
    pool = Pool(encoded.R)
    assert pool.localities == ("numa", "socket")
    flat = {**four(), "scheduling": None}
    del flat["scheduling"]
    into = encode({"n1": xml["n1"]}, ResourceSet.read(json.dumps(flat)), levels=["socket"])
    assert encode({"n1": xml["n1"]}, flat, ["socket"]).R == into.R
    assert [entry["ranks"] for entry in into.R.to_dict()["scheduling"]["children"]] == ["1"]
    with pytest.raises(InvalidHardware, match="R has no host 'n9'"):
        encode({"n9": xml["n0"]}, ResourceSet.read(flat))
    with pytest.raises(InvalidHardware, match=r"^n0: is not XML"):
        encode({"n0": "hello"})
    for name in ("n[0-3]", "n0,n1", "", "n 0", "n]"):
        with pytest.raises(InvalidHardware, match=re.escape(f"{name!r} is not the name of one")):
            encode({name: xml["n0"]})
    for wrong in (([xml["n0"]],), ({"n0": Path("n0.xml")},), (xml, None, "numa")):
        with pytest.raises(TypeError):
            encode(*wrong)
