"""``treepool conformance``: a line per vector, a total, and what went wrong."""

import json


def step(id, shape, expect, **more):
    return {"id": id, "shape": shape, "expect": expect, "rationale": "It is so.", **more}


def got(rank, core, nslots=None):
    expect = {"R_lite": [{"rank": rank, "children": {"core": core}}]}
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


def test_freeing_what_holds_nothing_fails(conformance, cluster_a):
    cluster_a["vectors"] = [
        step("no", "slot=1/core=999", {"error": "infeasible"}),
        {"id": "free", "free": "no"},
    ]
    result = conformance(cluster_a)
    assert statuses(result) == [("ok", "no"), ("FAIL", "free")]
    assert "has no allocation" in result.out


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


def test_vectors_hold_after_their_resources_have_expired(conformance, cluster_a):
    cluster_a["cluster"]["R"]["execution"].update(starttime=1, expiration=2)
    assert conformance(cluster_a).out.splitlines()[-1] == "11 of 11"
