"""``treepool alloc``: shapes in, answers out, in order and cumulatively."""

import json
import time

import pytest

from commandline import run_process
from made import nodes
from treepool import parse_shape
from treepool.placement.options import OPTIONS
from treepool.rfc.jobspec import from_resources


def test_the_issues_own_example(treepool):
    result = treepool(
        "alloc", "--cluster", "b", "--json",
        "slot=1/node=1/[core=24;gpu=1]", "slot=1/socket=2{x}", "slot=2-9/node{x}",
        "slot=1/rack", "slot=1/core=97",
    )  # fmt: skip
    first, sockets, nodes, rack, cores = result.json
    assert first == {
        "version": 1,
        "cluster": "b",
        "shape": "slot=1/node=1/[core=24;gpu=1]",
        "R_lite": [{"rank": "0", "children": {"core": "0-23", "gpu": "0"}}],
        "nslots": 1,
    }
    assert sockets["R_lite"] == [{"rank": "0", "children": {"core": "24-71", "gpu": "1-2"}}]
    assert nodes["R_lite"] == [{"rank": "1-9", "children": {"core": "0-95", "gpu": "0-3"}}]
    assert nodes["nslots"] == 9
    assert list(rack) == ["version", "cluster", "shape", "error", "message"]
    assert rack["error"] == "invalid"
    assert "rack" in rack["message"]
    assert cores["error"] == "infeasible"
    assert "97" in cores["message"]
    assert "96" in cores["message"]
    assert result.status == 1
    assert result.err == ""


def test_without_a_cluster_and_an_instance_there_is_no_answer(treepool):
    for words in (["alloc", "slot"], ["explain", "slot"], ["show"], ["advise"]):
        refused = treepool(*words, named=True)
        told = ("there is no Flux instance here", "-R FILE", "--cluster a|b", "--snapshot FILE")
        assert refused.is_one_line_error(*told, status=2)


def test_an_example_cluster_is_named_in_the_answer(treepool):
    for words in (["alloc", "slot/core"], ["explain", "slot/core"], ["show"], ["advise"]):
        assert "example cluster b of RFC 49" in treepool(*words, "--cluster", "b").out
        assert treepool(*words, "--cluster", "b", "--json").json[0]["cluster"] == "b"


def test_options_may_stand_between_shapes(treepool):
    answers = treepool("alloc", "slot=1/core", "--json", "slot=2/core", "--", "-x").json
    assert [a["shape"] for a in answers] == ["slot=1/core", "slot=2/core", "-x"]


def test_R_from_stdin(R):
    result = run_process("alloc", "-R", "-", "--json", "slot=1/core", stdin=json.dumps(R).encode())
    assert result.json[0]["R_lite"][0]["rank"] == "3"


def test_full_R_is_that_of_the_last_job_allocated(treepool):
    result = treepool("alloc", "--print-R", "slot=1/node{x}", "slot=2/node{x}", "slot=1/core=999")
    (R,) = result.json
    assert R["execution"]["R_lite"][0]["rank"] == "1-2"
    assert R["execution"]["nodelist"] == ["xeon[1-2]"]
    assert R["scheduling"]["children"][0]["ranks"] == "1-2"
    assert result.is_one_line_error("slot=1/core=999: infeasible: ")


def test_the_old_name_of_print_R_works_and_a_file_behind_it_is_told(treepool, write, R):
    old = treepool("alloc", "--R", "slot=1/core", "--cluster", "a")
    assert old.json[0]["execution"] and "--print-R" in old.err
    path = write(R)
    said = f"did you mean '-R {path}'?"
    assert treepool("alloc", "--R", path, "slot/core").is_one_line_error(said, status=2)


def test_options_of_flux_submit_say_what_a_jobspec_would(treepool):
    on = ("alloc", "-R", "doc/fabric.json", "--json")
    (near,) = treepool(*on, "--switches", "1", "node=9/slot/core").json
    assert near["error"] == "infeasible"
    (two,) = treepool(*on, "--within=switch:2", "--requires=-host:n0", "node=9/slot/core").json
    assert two["nslots"] == 9 and not two["R_lite"][0]["rank"].startswith("0")
    for words, said in (
        (["--within=rack", "slot/core"], "/attributes/system/treepool/within: 'rack'"),
        (["--gpu-link=nvlink", "slot/core"], "--gpu-link: the job asks for no GPU"),
        (["--option", "locality=none", "--locality=required", "slot"], "contradicts --option"),
        (["--requires=hots:n1", "slot"], "--requires: column 1: unknown operator 'hots'"),
        (["--requires=a", "--constraint={}", "slot"], "give one of them"),
        (["--duration=soon", "slot"], "--duration: 'soon' is not a time such as 4h"),
        (["--queue=q", "slot"], "--queue: only a running instance has queues"),
    ):
        result = treepool("alloc", "-R", "doc/fabric.json", *words)
        assert said in result.out + result.err, words


def expiring(seconds):
    """An R of one core that expires in so many *seconds*."""
    return nodes("0", "0", starttime=1, expiration=time.time() + seconds)


@pytest.mark.parametrize(("duration", "end"), [(0, 3600), (60, 60), (7200, 3600)])
def test_a_job_ends_with_its_pool_at_the_latest(treepool, write, duration, end):
    path = write(from_resources(parse_shape("slot/core"), duration=duration))
    R = write(expiring(3600), "R.json")
    (got,) = treepool("alloc", "--print-R", "-R", R, "--jobspec", path).json
    execution = got["execution"]
    assert abs(execution["starttime"] - time.time()) < 60
    assert abs(execution["expiration"] - time.time() - end) < 60


def test_a_pool_that_has_expired_allocates_nothing(treepool, write):
    result = treepool("alloc", "--print-R", "-R", write(expiring(-3600)), "slot/core")
    assert (result.status, result.out) == (1, "")
    assert "infeasible: the resources expired 36" in result.err


def test_jobspecs_come_after_shapes_and_may_be_several(treepool, write):
    path = write(from_resources(parse_shape("slot=1/node{x}")))
    argv = ["alloc", "--json", "--jobspec", path, "--jobspec", path, "slot=1/node{x}"]
    answers = treepool(*argv).json
    assert [a["R_lite"][0]["rank"] for a in answers] == ["0", "1", "2"]


def test_a_bad_jobspec_is_an_answer_too(treepool, write):
    bad = [
        write(value, f"{i}.json")
        for i, value in enumerate(["", "{", b"\xff", "[]", '"{}"', {"version": 1}])
    ]
    words = [word for path in bad for word in ("--jobspec", path)]
    result = treepool("alloc", "--json", "slot=1/core", *words)
    assert [a.get("error") for a in result.json] == [None, *["invalid"] * len(bad)]
    assert result.err == ""


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_a_pool_is_an_argument_and_no_other_value_is(treepool, name):
    option = OPTIONS[name]
    value = option.choices[-1] if option.choices else "1" if option.most else "2*slot/gpu"
    flag = f"--{name.replace('_', '-')}"
    assert treepool("alloc", f"{flag}={value}", "slot/core").status == 0
    wrong = treepool("alloc", f"{flag}=#", "slot/core")
    assert wrong.is_one_line_error(flag, status=2)


def test_constraint_limits_the_shapes(treepool):
    constraint = '{"hostlist": ["xeon[4-7]"]}'
    (answer,) = treepool("alloc", "--json", "--constraint", constraint, "slot=1/core").json
    assert answer["R_lite"][0]["rank"] == "4"


def test_an_options_value_is_json_if_it_can_be_and_text_if_not(treepool):
    def why(option):
        (answer,) = treepool("alloc", "--json", "--option", option, "slot=1/core").json
        return answer["message"]

    place = "/attributes/system/treepool"
    assert why("allow_cxl=1").startswith(f"{place}/allow_cxl: 1 is not")
    assert why('allow_cxl="true"').startswith(f"{place}/allow_cxl: 'true' is not")
    assert why("allow_cxl=").startswith(f"{place}/allow_cxl: '' is not")
    assert why("gpu_link=NaN").startswith(f"{place}/gpu_link: 'NaN' is not")
    assert why("gpu_link=[1]").startswith(f"{place}/gpu_link: an array is not")
    assert why("same=a=b:c").startswith(f"{place}/same: 'a=b:c' is not")
    assert why("unified_memory=true").startswith("no node satisfies the constraints: no node has")


def test_what_a_jobspec_lacks_is_told_of_it_as_it_is(treepool, write):
    spec = from_resources(parse_shape("slot=1/core"))
    del spec["attributes"]
    (answer,) = treepool("alloc", "--cluster", "a", "--json", "--jobspec", write(spec)).json
    assert answer["message"] == "key 'attributes' is missing"


def test_options_of_the_command_line_are_for_jobspecs_too_and_say_more(treepool, write):
    spec = from_resources(parse_shape("slot=1/core=20"), options={"level": "socket"})
    answers = treepool(
        "alloc", "--json", "--option", "level=numa", "slot=1/core=20", "--jobspec", write(spec)
    )
    assert [a.get("error") for a in answers.json] == ["infeasible", "infeasible"]
    (own,) = treepool("alloc", "--json", "--jobspec", write(spec)).json
    assert "error" not in own


def test_a_bad_R_is_one_line_with_file_and_pointer(treepool, write, R):
    R["execution"]["nodelist"] = ["n3"]
    path = write(R)
    result = treepool("alloc", "-R", path, "slot=1/core")
    assert result.is_one_line_error(str(path), "/execution/nodelist: ")


def test_the_R_of_an_instance_in_a_job_is_an_R_for_alloc():
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
