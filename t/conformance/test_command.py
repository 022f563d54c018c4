"""``treepool conformance``: a line per vector, a total, and what went wrong."""

import json

from treepool import parse_shape
from treepool.rfc.jobspec import from_resources


def step(id, shape, expect, **more):
    return {"id": id, "shape": shape, "expect": expect, "rationale": "It is so.", **more}


def got(rank, core, gpu=None, nslots=None):
    children = {"core": core} if gpu is None else {"core": core, "gpu": gpu}
    expect = {"R_lite": [{"rank": rank, "children": children}]}
    return expect if nslots is None else {**expect, "nslots": nslots}


def statuses(result):
    """(ok or FAIL, id) of every vector in the output."""
    lines = [line.split() for line in result.out.splitlines() if line.startswith("  ")]
    return [(line[0], line[1]) for line in lines if line[0] in ("ok", "FAIL")]


def test_without_arguments_all_packaged_vectors_pass(conformance):
    result = conformance()
    assert result.status == 0, result.out
    played = statuses(result)
    assert {status for status, _ in played} == {"ok"}
    assert result.out.splitlines()[-1] == f"{len(played)} of {len(played)}"
    rfc = [f"TVA{n}" for n in range(1, 12)] + [f"TVB{n}" for n in range(1, 10)]
    assert [id for _, id in played if id.startswith("TV")] == rfc


def test_a_wrong_expectation_shows_expected_and_got_and_is_status_1(conformance, cluster_a):
    cluster_a["vectors"][4]["expect"] = got("0", "8-12")
    result = conformance(cluster_a)
    assert result.status == 1
    assert result.out.splitlines()[-1] == "10 of 11"
    assert statuses(result)[4] == ("FAIL", "TVA5")
    assert f"expected {json.dumps(got('0', '8-12'))}" in result.out
    assert f"got      {json.dumps(got('0', '8-11', nslots=1))}" in result.out
    assert cluster_a["vectors"][4]["rationale"] in result.out


def test_a_folder_is_all_its_json_files(conformance, cluster_a, tmp_path):
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).write_text(json.dumps({**cluster_a, "title": f"title of {name}"}))
    result = conformance(tmp_path)
    titles = [line.split(": ")[1] for line in result.out.splitlines() if "title" in line]
    assert titles == ["title of a.json", "title of b.json"]
    assert result.out.splitlines()[-1] == "22 of 22"


def test_a_folder_without_vectors_is_a_usage_error(conformance, tmp_path):
    assert conformance(tmp_path).is_one_line_error("*.json", status=2)


def test_a_malformed_file_is_one_line_with_name_and_pointer(conformance, cluster_a):
    cluster_a["vectors"][1]["shape"] = 5
    result = conformance(cluster_a)
    assert result.is_one_line_error("0.json: /vectors/1/shape: ")
    assert result.err.endswith(" (vector TVA2)\n")
    assert result.out == ""


def test_problems_of_meaning_have_their_pointer_too(conformance, cluster_a):
    for change, pointer in (
        ({"id": "TVA1"}, "/vectors/1/id"),
        ({"free": "TVA9"}, "/vectors/1/free"),
    ):
        document = json.loads(json.dumps(cluster_a))
        if "free" in change:
            document["vectors"][1] = {"id": "F", **change}
        else:
            document["vectors"][1].update(change)
        assert conformance(document).is_one_line_error(f"0.json: {pointer}: ")
    cluster_a["cluster"]["R"]["execution"]["nodelist"] = ["a"]
    assert conformance(cluster_a).is_one_line_error("/cluster/R/execution/nodelist: ")


def test_steps_are_cumulative_until_freed(conformance, cluster_a):
    cluster_a["vectors"] = [
        step("all", "slot=16/node{x}", got("0-15", "0-119", "0-7", 16)),
        step("full", "slot=1/core", {"error": "insufficient"}),
        {"id": "free", "free": "all"},
        step("again", "slot=1/core", got("0", "0", nslots=1)),
    ]
    result = conformance(cluster_a)
    assert result.out.splitlines()[-1] == "3 of 3"  # a free is no vector
    assert result.status == 0


def test_freeing_what_holds_nothing_fails(conformance, cluster_a):
    cluster_a["vectors"] = [
        step("no", "slot=1/core=999", {"error": "infeasible"}),
        {"id": "free", "free": "no"},
    ]
    result = conformance(cluster_a)
    assert statuses(result) == [("ok", "no"), ("FAIL", "free")]
    assert "has no allocation" in result.out


def test_ranks_go_down_and_up(conformance, cluster_a):
    cluster_a["vectors"] = [
        {"id": "down", "down": "0-14"},
        step("last", "slot=1/core", got("15", "0")),
        step("waits", "slot=2/node{x}", {"error": "insufficient"}),
        {"id": "up", "up": "0-1"},
        step("fits", "slot=2/node{x}", got("0-1", "0-119", "0-7")),
    ]
    assert conformance(cluster_a).status == 0


def test_errors_are_expected_by_kind_and_a_part_of_the_message(conformance, cluster_a):
    cluster_a["vectors"] = [
        step("kind", "slot=1/rack", {"error": "invalid"}),
        step("part", "slot=1/core=999", {"error": "infeasible", "message": "999 cores"}),
        step("other kind", "slot=1/rack", {"error": "infeasible"}),
        step("other part", "slot=1/rack", {"error": "invalid", "message": "bookshelf"}),
        step("allocated", "slot=1/core", {"error": "invalid"}),
    ]
    for vector in cluster_a["vectors"]:
        vector["id"] = vector["id"].replace(" ", "-")
    result = conformance(cluster_a)
    assert [status for status, _ in statuses(result)] == ["ok", "ok", "FAIL", "FAIL", "FAIL"]


def test_slots_are_compared_if_they_are_expected(conformance, cluster_a):
    cluster_a["vectors"] = [
        step("right", "slot=2/core", got("0", "0-1", nslots=2)),
        step("wrong", "slot=2/core", got("0", "2-3", nslots=1)),
    ]
    assert [status for status, _ in statuses(conformance(cluster_a))] == ["ok", "FAIL"]


def test_a_step_may_be_a_jobspec(conformance, cluster_a):
    constraints = {"ranks": ["7"]}
    spec = from_resources(parse_shape("slot=1/core"), constraints=constraints)
    vector = step("spec", "", got("7", "0"), jobspec=spec)
    del vector["shape"]
    cluster_a["vectors"] = [vector]
    result = conformance(cluster_a)
    assert result.status == 0
    assert "spec   slot/core" in result.out


#: Eight cores and the GPU of every NUMA domain of cluster A: seven cores of each are left.
FILLED = step(
    "fill",
    "slot=128/[core=8;gpu=1]",
    got("0-15", "0-7,15-22,30-37,45-52,60-67,75-82,90-97,105-112", "0-7"),
)


def test_options_of_a_step_are_the_jobs(conformance, cluster_a):
    waits = {"error": "insufficient"}
    cluster_a["vectors"] = [
        FILLED,
        step("strict", "slot=1/core=8", waits, options={"locality": "required"}),
        step("loose", "slot=1/core=8", got("0", "8-14,23")),
    ]
    result = conformance(cluster_a)
    assert result.status == 0, result.out


def test_options_at_the_top_are_the_pools(conformance, cluster_a):
    cluster_a["options"] = {"locality": "required"}
    strict = step("strict", "slot=1/core=8", {"error": "insufficient"})
    cluster_a["vectors"] = [FILLED, strict]
    assert conformance(cluster_a).status == 0


def test_json_is_a_line_for_each_vector(conformance, cluster_a):
    cluster_a["vectors"][0]["expect"] = {"error": "invalid"}
    first, second, *_ = conformance("--json", cluster_a).json
    assert list(first) == [
        "version",
        "file",
        "id",
        "action",
        "passed",
        "expected",
        "got",
        "rationale",
        "judged",
    ]
    assert (first["id"], first["passed"], second["judged"]) == ("TVA1", False, True)


def test_what_files_say_is_escaped(conformance, cluster_a):
    cluster_a["title"] = "\x1b[31mred"
    cluster_a["vectors"] = [step("x", "\x1b[31m", {"error": "insufficient"})]
    cluster_a["vectors"][0]["rationale"] = "\x07"
    assert "\x1b" not in conformance(cluster_a).out
    assert "\x07" not in conformance(cluster_a).out


def test_vectors_hold_after_their_resources_have_expired(conformance, cluster_a):
    cluster_a["cluster"]["R"]["execution"].update(starttime=1, expiration=2)
    assert conformance(cluster_a).out.splitlines()[-1] == "11 of 11"
