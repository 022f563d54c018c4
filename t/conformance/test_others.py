"""Other allocators: any program that speaks lines of JSON, and flux-core's own TreePool."""

import json
import os
import re
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


A = "testvectors/rfc49-cluster-a.json"

#: An allocator that always answers with what RFC 49 prints, and does what is asked for otherwise.
RIGHT = f"""
if m["op"] == "pool":
    steps = json.load(open({str(REPOSITORY / A)!r}))["vectors"]
    expect = {{i: step["expect"] for i, step in enumerate(steps, 1)}}
    jobs = []
if m["op"] == "register":
    jobs.append(m["id"])
    assert m["R"]["execution"]["R_lite"] == expect[m["id"]]["R_lite"]
said = {{}}
if m["op"] == "alloc":
    jobs.append(m["id"])
    assert jobs == list(range(1, m["id"] + 1)), jobs
    said = {{"R": {{"execution": expect[m["id"]]}}}}
""".strip()
SAY = "\nprint(json.dumps(said), flush=True)"


def verdicts(result):
    """The first word of each line about a vector."""
    words = [line.split()[0] for line in result.out.splitlines() if line.startswith("  ")]
    return [word for word in words if word in ("ok", "FAIL", "--")]


def test_what_is_unsupported_is_not_judged_and_the_rest_is(treepool, tmp_path):
    text = (
        RIGHT
        + """
if m["op"] == "alloc" and m["id"] == 3:
    said = {"error": "unsupported", "message": "not three"}
    jobs.pop()"""
    )
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), A)
    assert (result.status, result.out.splitlines()[-1]) == (0, "10 of 10, 1 not judged")
    assert verdicts(result) == ["ok", "ok", "--", *["ok"] * 8]
    assert "(unsupported: not three)" in result.out and result.err == ""


def test_a_program_that_goes_on_after_its_input_is_ended(treepool, tmp_path):
    text = """
import atexit, os, time
if m["op"] == "hello":
    atexit.register(time.sleep, 100)
said = {"error": "unsupported", "message": f"I am {os.getpid()}"} if m["op"] == "alloc" else {}"""
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), A)
    with pytest.raises(ProcessLookupError):
        os.kill(int(re.search(r"I am (\d+)", result.out)[1]), 0)


@pytest.mark.parametrize("op", ["pool", "alloc"])
def test_nothing_supported_is_nothing_passed(treepool, tmp_path, op):
    text = f"""said = {{}} if m["op"] == "hello" or {op!r} != "pool" and m["op"] == "pool" else {{
    "error": "unsupported"}}"""
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), A)
    assert (result.status, result.out.splitlines()[-1]) == (1, "0 of 0, 11 not judged")
    assert "FAIL" not in result.out and "got" not in result.out


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("sys.exit(3)", "the program has ended"),
        ("print('debug: hello', flush=True)", "the program answers 'debug: hello'"),
        ("print('[' * 100000, flush=True)", "the program answers '[[["),
    ],
)
def test_after_a_program_failed_the_rest_of_the_file_is_not_judged(treepool, tmp_path, act, said):
    text = f"""
if m["op"] == "alloc" and m["id"] == 3:
    {act}
    continue
""".strip()
    result = treepool("conformance", "--with", program(tmp_path, f"{text}\n{RIGHT}{SAY}"), A)
    assert f"{A}: TVA3: {said}" in result.err and len(result.err.splitlines()) == 1
    assert (result.status, result.out.splitlines()[-1]) == (1, "2 of 3, 8 not judged")
    assert verdicts(result) == ["ok", "ok", "FAIL", *["--"] * 8]


def test_a_program_that_fails_before_the_first_step_fails(treepool, tmp_path):
    """Otherwise a program could pass that ends at each cluster that it cannot read."""
    text = 'said = {}\nif m["op"] == "pool":\n    sys.exit()'
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), A)
    assert f"{A}: TVA1: the program has ended" in result.err and len(result.err.splitlines()) == 1
    assert (result.status, result.out.splitlines()[-1]) == (1, "0 of 1, 10 not judged")


def test_a_second_line_is_no_answer_to_the_next_message(treepool, tmp_path):
    text = (
        RIGHT
        + """
lines = 2 if m["op"] == "alloc" and m["id"] == 3 else 1
sys.stdout.write((json.dumps(said) + "\\n") * lines)
sys.stdout.flush()"""
    )
    result = treepool("conformance", "--with", program(tmp_path, text), A)
    assert verdicts(result) == ["ok", "ok", "ok", "FAIL", *["--"] * 7]
    assert f"{A}: TVA4: the program answers with more than one line" in result.err


def test_a_program_that_does_not_answer_or_read_is_waited_for_in_vain(
    treepool, tmp_path, monkeypatch
):
    monkeypatch.setattr("treepool.cli.implementations.PATIENCE", 0.5)
    text = """
if m["op"] == "pool":
    import time
    print("{}", flush=True)
    time.sleep(100)
""".strip()
    for command in (program(tmp_path, text), "sleep 100"):
        result = treepool("conformance", "--with", command, A)
        assert "did not answer in" in result.err
    assert result.status == 2


def test_a_program_that_keeps_failing_fails_once_in_each_file(treepool, tmp_path):
    log = tmp_path / "log"
    text = f"open({str(log)!r}, 'a').write(m['op'] + ' ')\nif m['op'] == 'alloc': sys.exit()"
    command = program(tmp_path, text + "\nprint('{}', flush=True)")
    result = treepool("conformance", "--with", command)
    files = log.read_text().split().count("alloc")
    assert files > 3 and result.status == 1
    assert len(result.err.splitlines()) == files and "Traceback" not in result.err
    judged, others = result.out.splitlines()[-1].split(", ")
    assert judged == f"0 of {files}" and int(others.split()[0]) > 500


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({}, "has neither 'R' nor 'error'"),
        ({"R": {}}, "/R: key 'execution' is missing"),
        ({"error": "infeasable"}, "/error: must be one of 'invalid'"),
        ({"rank": 0}, "/R/execution/R_lite/0/rank: must be a string, not 0"),
        ({"rank": "0-"}, "/R/execution/R_lite/0/rank: "),
        ({"children": {"gpu": "0"}}, "/R/execution/R_lite/0/children: key 'core' is missing"),
    ],
)
def test_a_malformed_answer_is_called_so_and_the_next_step_is_judged(
    treepool, tmp_path, answer, wrong
):
    if {"rank", "children"} & set(answer):
        entry = {"rank": "0", "children": {"core": "0-7", "gpu": "0"}, **answer}
        answer = {"R": {"execution": {"R_lite": [entry]}}}
    text = (
        RIGHT
        + f"""
if m["op"] == "free":
    jobs.remove(m["id"])
if m["op"] == "alloc" and m["id"] == 1:
    said = {answer!r}"""
    )
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), A)
    assert verdicts(result) == ["FAIL", *["ok"] * 10]
    got = next(line for line in result.out.splitlines() if line.startswith("          got"))
    assert '"error": "malformed"' in got and wrong in json.loads(got.split(None, 1)[1])["message"]


def test_the_options_of_a_step_are_in_its_jobspec(treepool, tmp_path):
    document = json.loads((REPOSITORY / A).read_text())
    spec = {
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "x", "with": [{"type": "core"}]}],
        "attributes": {"system": {"duration": 0, "treepool": {"level": "numa"}}},
    }
    spec["resources"][0]["with"][0]["count"] = 1
    step = {"options": {"locality": "none"}, "expect": {"error": "invalid"}, "rationale": "so"}
    document["vectors"] = [
        {"id": "a", "shape": "slot/core", **step},
        {"id": "b", "jobspec": spec, **step},
    ]
    path = tmp_path / "options.json"
    path.write_text(json.dumps(document))
    text = """
said = {}
if m["op"] == "alloc":
    own = {} if "shape" in m else {"level": "numa"}
    there = m["jobspec"]["attributes"]["system"]["treepool"]
    said = {"error": "invalid" if there == {**own, **m["options"]} else "infeasible"}""".strip()
    result = treepool("conformance", "--with", program(tmp_path, text + SAY), path)
    assert result.out.splitlines()[-1] == "2 of 2", result.out


@pytest.mark.parametrize("features", ["fabric", ["warp"], [3]])
def test_features_that_are_none_are_a_usage_error(treepool, tmp_path, features):
    command = program(tmp_path, f"said = {{'features': {features!r}}}" + SAY)
    assert treepool("conformance", "--with", command).is_one_line_error("/features", status=2)


@pytest.mark.parametrize("command", ["", " "])
def test_no_command_is_a_usage_error(treepool, command):
    assert treepool("conformance", "--with", command).is_one_line_error("--with", status=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit()", "has ended"),
        ("print('[]', flush=True)", "answers with what is no object"),
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
    few = {"slots": {**slots, "number": 1, "core": 1, "gpu": 2}}  # the cores would do
    assert played(treepool, tmp_path, ("slot/[core=1;gpu=2]", few)) == ["FAIL"]


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
