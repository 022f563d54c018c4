"""Other allocators: any program that speaks lines of JSON, and flux-core's own TreePool."""

import json
import sys

import pytest

from commandline import REPOSITORY

TOY = f"{sys.executable} {REPOSITORY / 'doc' / 'toy_allocator.py'}"


def program(tmp_path, text):
    """The command of a program that answers each message as *text*, lines of Python, says."""
    path = tmp_path / "other.py"
    body = "import json, sys\nfor line in sys.stdin:\n    m = json.loads(line)\n"
    path.write_text(body + "".join(f"    {line}\n" for line in text.splitlines()))
    return f"{sys.executable} {path}"


def test_the_toy_of_the_guide_is_judged_to_the_end_of_each_file(treepool):
    result = treepool("conformance", "--with", TOY)
    assert result.status == 1 and result.err == ""
    rfc, ours, total = result.out.splitlines()[-3:]
    passed, judged = (int(word) for word in rfc.split(": ")[1].split(",")[0].split(" of "))
    assert 0 < passed < judged <= 20
    assert ours.startswith("treepool: ") and "not judged" in total
    assert "not judged: needs fabric" in result.out


def test_after_a_difference_the_allocator_is_told_what_the_file_expects(treepool, tmp_path):
    log = tmp_path / "log"
    command = program(tmp_path, f"""
open({str(log)!r}, "a").write(line)
print(json.dumps({{"features": []}} if m["op"] == "hello" else
  {{"error": "insufficient"}} if m["op"] == "alloc" else {{}}), flush=True)""".strip())  # fmt: skip
    result = treepool("conformance", "--with", command, "testvectors/rfc49-cluster-a.json")
    assert result.out.splitlines()[-1] == "0 of 11"
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [m["op"] for m in told[:4]] == ["hello", "pool", "alloc", "register"]
    assert told[3]["R"]["execution"]["R_lite"] == [
        {"rank": "0", "children": {"core": "0-7", "gpu": "0"}}
    ]
    assert sum(m["op"] == "register" for m in told) == 11


def test_what_cannot_be_told_leaves_the_rest_not_judged(treepool, tmp_path):
    command = program(tmp_path, """
print(json.dumps({} if m["op"] in ("hello", "pool") else {"error": "unsupported"}), flush=True)
""".strip())  # fmt: skip
    result = treepool("conformance", "--with", command, "testvectors/rfc49-cluster-a.json")
    assert result.out.splitlines()[-1] == "0 of 1, 10 not judged"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit()", "has ended"),
        ("print('hello', flush=True)", "answers 'hello'"),
        ("print('[]', flush=True)", "answers with what is no object"),
        ("print('[' * 100000, flush=True)", "answers '[[["),
    ],
)
def test_a_program_that_does_not_speak_is_one_line(treepool, tmp_path, text, said):
    result = treepool("conformance", "--with", program(tmp_path, text))
    assert result.is_one_line_error(said, status=2)


def test_a_program_that_is_not_there_is_one_line(treepool):
    result = treepool("conformance", "--with", "/nowhere/at-all x")
    assert result.is_one_line_error("cannot be started", status=2)


# -- what a step may expect


def played(treepool, tmp_path, *steps):
    """The status of treepool's own pool on *steps*, on RFC 49's cluster A."""
    document = json.loads((REPOSITORY / "testvectors/rfc49-cluster-a.json").read_text())
    document["vectors"] = [
        {"id": f"s{i}", "shape": shape, "rationale": "so", "expect": expect}
        for i, (shape, expect) in enumerate(steps)
    ]
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(document))
    lines = treepool("conformance", str(path)).out.splitlines()
    return [line.split()[0] for line in lines if line[:8].strip() in ("ok", "FAIL")]


def lite(rank, core, gpu):
    return {"rank": rank, "children": {"core": core, "gpu": gpu}}


def test_resources_are_compared_and_not_how_entries_are_grouped(treepool, tmp_path):
    apart = [lite("1", "0-119", "0-7"), lite("0", "0-119", "0-7")]
    assert played(treepool, tmp_path, ("slot=2/node{x}", {"R_lite": apart})) == ["ok"]


def test_one_of_several_answers_or_a_property_will_do(treepool, tmp_path):
    first, other = {"R_lite": [lite("0", "0-7", "0")]}, {"R_lite": [lite("9", "0-7", "0")]}
    slots = {"number": 2, "core": 8, "gpu": 1, "in": "numa"}
    assert played(
        treepool,
        tmp_path,
        ("slot/[core=8;gpu=1]", {"any_of": [other, first]}),
        ("slot/[core=8;gpu=1]", {"any_of": [other, other]}),
    ) == ["ok", "FAIL"]
    for number, verdict in ((2, "ok"), (3, "FAIL")):
        expect = {"slots": {**slots, "number": number}}
        assert played(treepool, tmp_path, ("slot=2/[core=8;gpu=1]", expect)) == [verdict]
    wide = {"slots": {**slots, "number": 1, "core": 16, "gpu": 2}}  # two domains
    assert played(treepool, tmp_path, ("slot/[core=16;gpu=2]", wide)) == ["FAIL"]


def test_names_key_and_the_R_of_an_instance_inside_are_compared_if_they_are_told(
    treepool, tmp_path
):
    shape = "slot=2/node{x}"
    R_lite = [lite("0-1", "0-119", "0-7")]
    topo = json.loads((REPOSITORY / "testvectors/rfc49-cluster-a.json").read_text())["cluster"]["R"]
    entry = {**topo["scheduling"]["children"][0], "ranks": "0-1"}
    right = {"R_lite": R_lite, "nodelist": ["xeon[0-1]"], "key": [entry], "subinstance": R_lite}
    assert played(treepool, tmp_path, (shape, right)) == ["ok"]
    for name, wrong in (
        ("nodelist", ["xeon[1-2]"]),
        ("key", []),
        ("subinstance", [lite("1-2", "0-119", "0-7")]),
        ("nslots", 3),
    ):
        assert played(treepool, tmp_path, (shape, {**right, name: wrong})) == ["FAIL"], name


def test_each_file_says_its_source_its_form_and_what_it_needs():
    for path in (REPOSITORY / "testvectors").glob("*.json"):
        document = json.loads(path.read_text())
        assert document["format"] == 1 and "features" in document, path
        assert ("fabric" in document["features"]) == (
            "fabric" in (document["cluster"]["R"].get("scheduling") or {})
        ), path
