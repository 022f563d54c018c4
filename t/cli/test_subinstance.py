"""``treepool alloc --subinstance``: an allocated R in, the R of the instance inside out."""

import json

from commandline import run_process


def test_ranks_count_from_zero(treepool, write, R):
    (new,) = treepool("alloc", "-R", write(R), "--subinstance").json
    assert new["execution"]["R_lite"][0]["rank"] == "0-1"
    assert new["execution"]["nodelist"] == ["n[3,5]"]
    assert new["scheduling"]["children"][0]["ranks"] == "0-1"


def test_it_takes_what_alloc_gives_and_alloc_takes_it_back(tmp_path):
    R = run_process("alloc", "--print-R", "slot=1/core", "slot=2/node{x}")
    inner = run_process("alloc", "-R", "-", "--subinstance", stdin=R.out.encode())
    same = run_process("alloc", "--subinstance", "slot=1/core", "slot=2/node{x}")
    assert inner.out == same.out
    old = run_process("subinstance", "-", stdin=R.out.encode())
    assert (old.out, old.err.count("\n")) == (inner.out, 1)
    assert "alloc -R FILE --subinstance" in old.err
    answer = run_process("alloc", "-R", "-", "--json", "slot=2/node{x}", stdin=inner.out.encode())
    assert answer.json[0]["R_lite"] == [
        {"rank": "0-1", "children": {"core": "0-119", "gpu": "0-7"}}
    ]


def test_a_bad_R_is_one_line_with_file_and_pointer(treepool, write, R):
    R["execution"]["R_lite"][0]["rank"] = "5,3"
    path = write(R)
    result = treepool("alloc", "-R", path, "--subinstance")
    assert result.is_one_line_error(str(path), "/execution/R_lite/0/rank: ")
    assert result.out == ""


def test_json_text_in_a_json_string_is_no_R(treepool, write, R):
    assert treepool(
        "alloc", "--subinstance", "-R", write(json.dumps(json.dumps(R)))
    ).is_one_line_error("object")
