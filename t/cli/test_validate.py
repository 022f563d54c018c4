"""``treepool validate``: every problem with its pointer, or one line on what is there."""

import json

import pytest

from schemas import conforms
from treepool import parse_shape
from treepool.cli.files import data_folder
from treepool.rfc.jobspec import from_resources


def test_every_problem_has_a_line_with_its_pointer(treepool, write, R):
    R["version"] = 2
    R["execution"]["nodelist"] = ["n3"]
    R["scheduling"]["children"][0]["topo"]["socket"][1]["cores"] = "3-7"
    R["scheduling"]["children"][0]["topo"]["slot"] = [{}]
    result = treepool("validate", write(R))
    assert result.status == 1
    assert [line.partition(": ")[0] for line in result.out.splitlines()] == [
        "/execution/nodelist",
        "/scheduling/children/0/topo/slot",
        "/scheduling/children/0/topo/socket/1",
        "/version",
    ]
    assert result.err == ""


def test_a_key_alone(treepool, write, R):
    result = treepool("validate", write(R["scheduling"]))
    assert "valid scheduling key: 2 ranks: 2 x [8 cores, 2 GPUs, 2 socket]" in result.out
    assert result.status == 0


def test_an_R_with_the_key_of_another_scheduler(treepool, write, R):
    R["scheduling"] = {"graph": {}}
    assert "fluxion" in treepool("validate", write(R)).out


def test_vectors(treepool, write):
    path = data_folder("testvectors") / "rfc49-cluster-b.json"
    result = treepool("validate", path)
    assert result.status == 0 and "valid test vectors: " in result.out
    wrong = {
        **json.loads(path.read_text()),
        "options": {"policy": "best", "straddle": 2000, "mix": "slot/gpu"},
    }
    result = treepool("validate", write(wrong))
    pointers = [line.partition(": ")[0] for line in result.out.splitlines()]
    assert pointers == ["/options/policy", "/options/straddle"]


def test_a_jobspec_with_problems(treepool, write):
    spec = from_resources(parse_shape("slot=2/[core=8;gpu=1]"))
    spec["resources"][0]["with"][0]["count"] = 0
    spec["resources"][0]["with"][1]["colour"] = "red"
    result = treepool("validate", write(spec))
    pointers = [line.partition(": ")[0] for line in result.out.splitlines()]
    assert pointers == ["/resources/0/with/0/count", "/resources/0/with/1/colour"]
    assert result.status == 1


def test_treepools_own_options_are_checked_in_a_jobspec(treepool, write):
    job = from_resources(parse_shape("slot/core"), options={"localty": "none", "wait": "10m"})
    job["tasks"] = [{"command": ["a"], "slot": "default", "count": {"per_slot": 1}}]
    result = treepool("validate", write(job))
    unknown, wrong = result.out.splitlines()
    assert result.status == 1
    assert unknown.startswith("/attributes/system/treepool: unknown option 'localty' (did you mean")
    assert wrong.startswith("/attributes/system/treepool/wait: '10m' is not a number of seconds")


def test_a_resource_list(treepool, write):
    result = treepool("validate", write(parse_shape("slot=2/node{x}")))
    assert result.out.endswith("valid resource list: slot=2/node{x}\n")


def test_as_says_what_a_file_is(treepool, write, R):
    assert treepool("validate", "--as", "key", write(R)).status == 1
    assert treepool("validate", "--as", "R", write(R)).status == 0
    assert treepool("validate", "--as", "tree", write(R)).is_one_line_error("--as", status=2)


def test_a_file_that_is_nothing_known(treepool, write):
    assert treepool("validate", write({"version": 1})).is_one_line_error("--as")


def test_what_is_probably_not_meant_is_a_warning_and_no_problem(treepool, write, R):
    R["scheduling"]["children"][0]["ranks"] = "3"
    path = write(R)
    result = treepool("validate", path)
    assert result.status == 0
    warning, summary = result.out.splitlines()
    assert warning == (
        "warning: /scheduling/children: rank 5 has no entry, so its node has no topology"
    )
    assert summary.startswith(f"{path}: valid R: 2 nodes: ")
    assert result.err == ""


def test_an_R_of_no_node_is_summed_up_too(treepool, write, R):
    R["execution"].update(R_lite=[], nodelist=[])
    del R["scheduling"]
    assert treepool("validate", write(R)).out.endswith(": valid R: 0 nodes; no scheduling key\n")
    R["scheduling"] = {"writer": "TreePool"}
    assert treepool("validate", write(R)).out.endswith(": valid R: 0 nodes\n")


# -- configurations of Flux

GOOD = """
[modules]
alternatives.sched = "sched-treepool"

[queues.batch]
[queues.debug]

[sched-treepool]
policy = "conservative"
node-policy = "best-fit"
gpu-cores = 2
mix = "7*slot/[core=12;gpu=1]"
windows = [{name = "a", hosts = "n[0-1]", start = 2027-01-01T08:00:00Z, end = 2027-01-02T08:00:00}]
queues.debug.policy = "easy"
"""


def test_a_configuration_is_summed_up_by_what_it_chooses(treepool, write):
    path = write(GOOD, "treepool.toml")
    of_pool = "node-policy best-fit, gpu-cores 2, mix 7*slot/[core=12;gpu=1]"
    chosen = f"policy conservative, {of_pool}, 1 queue with own rules, 1 window"
    result = treepool("validate", path)
    said = f"{path}: valid configuration: {chosen}; the next start has 'sched-treepool'\n"
    assert (result.status, result.out) == (0, said)
    assert treepool("validate", "--as", "configuration", path).out == said
    (line,) = treepool("validate", "--json", path).json
    conforms(line, "validate")
    assert (line["kind"], line["valid"]) == ("configuration", True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("policy =", "polcy =", "/sched-treepool/polcy: unknown (did you mean 'policy'?)"),
        ("mix =", "straddle =", "/sched-treepool/straddle: 7*slot/"),
        ("debug.policy", "night.policy", "/sched-treepool/queues/night: this instance has no such"),
        ('"n[0-1]"', '"n["', "/sched-treepool/windows/0/hosts: hostlist column 2"),
        ("[queues.batch]", "[queues]\nbatch = 3", "/queues/batch: must be a table, not 3"),
        (
            "[queues.debug]",
            "[queues.debug]\nparent = 'batch'",
            "/sched-treepool/queues/debug: a virtual queue has the rules of its parent, 'batch'",
        ),
    ],
)
def test_a_mistake_in_a_configuration_has_its_pointer(treepool, write, old, new, problem):
    result = treepool("validate", write(GOOD.replace(old, new, 1), "treepool.toml"))
    assert result.status == 1
    (line,) = result.out.splitlines()
    assert line.startswith(problem)


def test_all_mistakes_of_a_configuration_are_told(treepool, write):
    text = '[sched-treepool]\npolicy = "best"\nalpha = 7\n[queues]\na = 1\n'
    assert len(treepool("validate", write(text, "a.toml")).out.splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ('path = "/my R"', "treepool validate '/my R'"),
        ('scheduling = "/key"', "flux R parse-config DIRECTORY | treepool validate -"),
        ("config = []", "flux R parse-config DIRECTORY | treepool validate -"),
    ],
)
def test_how_to_check_the_R_of_a_configuration_is_a_warning(treepool, write, line, how):
    result = treepool("validate", write(f"[resource]\n{line}\n", "r.toml"))
    warning, _ = result.out.splitlines()
    assert warning == f"warning: /resource: R and its key are not looked at here: {how}"
    assert result.status == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = [", "not valid TOML: "),
        ("a = 2027-01-01", "not valid TOML: 2027-01-01 must be a date with a time"),
        (f"a = {'[' * 9999}{']' * 9999}", "nested deeper than 64 levels"),
        ("a." * 1_000 + "a = 1", "nested deeper than 64 levels"),
        (f"a = '{'x' * 2_000_000}'", "more than 1048576 characters of TOML"),
        ('a = """' + '\n\\"""' * 150_000, "not valid TOML: "),
    ],
)
def test_what_is_no_toml_is_one_line(treepool, write, text, problem):
    assert treepool("validate", write(text, "a.toml")).is_one_line_error(problem)


def test_a_table_whose_name_is_nearly_right_is_a_warning(treepool, write):
    text = GOOD.replace("[sched-treepool]", "[sched_treepool]").replace("queues.debug.policy", "x")
    warning, _ = treepool("validate", write(text, "a.toml")).out.splitlines()
    said = "sched-treepool does not read this table (did you mean 'sched-treepool'?)"
    assert warning == f"warning: /sched_treepool: {said}"


def test_not_each_of_thousands_of_tables_is_a_warning(treepool, write):
    text = "".join(f"[sched-treepool{i}]\n" for i in range(9_000))
    assert len(treepool("validate", write(text, "a.toml")).out.splitlines()) == 20 + 1


def test_a_file_has_room_for_as_many_windows_as_there_may_be(treepool, write):
    times = 'start = "2027-01-01T08:00:00Z", end = "2027-01-02T08:00:00Z"'
    windows = [f'{{name = "w{i}", hosts = "n{i}.row.site.edu", {times}}}' for i in range(1024)]
    text = f"[sched-treepool]\nwindows = [{','.join(windows)}]\n"
    assert "1024 windows" in treepool("validate", write(text, "a.toml")).out


def test_what_other_files_may_say_is_a_warning(treepool, write):
    text = GOOD.replace("[queues.batch]\n[queues.debug]", "").replace(
        "sched-treepool", "sched-tree", 1
    )
    *warnings, _ = treepool("validate", write(text, "a.toml")).out.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in warnings] == [
        "/modules/alternatives/sched",
        "/sched-treepool/queues/debug",
    ]


def test_a_configuration_may_be_a_directory_or_several_files_as_flux_reads_them(treepool, tmp_path):
    queues, own = tmp_path / "a.toml", tmp_path / "b.toml"
    queues.write_text("[queues.debug]\n")
    own.write_text('[sched-treepool]\npolicy = "easy"\nqueues.debug.policy = "conservative"\n')
    for words in ([tmp_path], [queues, own]):
        done = treepool("validate", *words)
        assert done.status == 0 and "policy easy" in done.out and "warning" not in done.out
    own.write_text('[sched-treepool]\npolicy = "best"\n')
    done = treepool("validate", tmp_path)
    assert done.status == 1
    assert done.out.startswith("/sched-treepool/policy: ") and f"(in {own})" in done.out
    own.write_text("[sched-treepool\n")
    assert treepool("validate", tmp_path).is_one_line_error(str(own), status=1)
