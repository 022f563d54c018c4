"""What ``--json`` prints is what schemas/output.json and doc/json.md say, no more and no less."""

import re
from typing import get_args

import pytest
from jsonschema import ValidationError

from commandline import REPOSITORY
from schemas import SCHEMAS, conforms
from treepool.cli.main import whole
from treepool.cli.screen import JSON_VERSION
from treepool.errors import Code
from treepool.flux import install, installcheck, site

OUTPUT = SCHEMAS["output"]
LINES = [each["$ref"].rpartition("/")[2] for each in OUTPUT["anyOf"]]
GUIDE = (REPOSITORY / "doc" / "json.md").read_text()


def test_the_schema_is_of_the_version_that_is_printed():
    assert OUTPUT["properties"]["version"]["const"] == JSON_VERSION
    assert f"version {JSON_VERSION}" in GUIDE


@pytest.mark.parametrize("name", ["R", "bad R", "warned R"])
def test_validate(treepool, write, R, name):
    if name == "bad R":
        R["execution"]["R_lite"][0]["rank"] = "x"
    elif name == "warned R":
        R["scheduling"]["children"][0]["ranks"] = "3"
    result = treepool("validate", "--json", write(R))
    (line,) = result.json
    assert line["valid"] == (result.status == 0) == (not line["problems"])
    assert bool(line["warnings"]) == (name == "warned R")
    conforms(line, "validate")


def test_each_code_of_a_reason_is_in_the_guide():
    rows = re.findall(r"^\| (`[^|]+`) \|", GUIDE.partition("## Reasons")[2], re.MULTILINE)
    assert {code for row in rows for code in re.findall("`(.+?)`", row)} == set(get_args(Code))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("slot/numa/core=20", ("cores", "numa domain", 20, 15)),
        ("slot/gpu=9", ("gpus", "node", 9, 8)),
        ("slot/socket=3{x}", ("domains", "socket", 3, 2)),
        ("node/slot=9/gpu", ("slots", "node", 9, 8)),
        ("node=17/slot/core", ("nodes", "pool", 17, 16)),
        ("slot=1921/core", ("slots", "pool", 1921, 1920)),
    ],
)
def test_a_program_reads_why_a_job_was_refused(treepool, shape, reason):
    (line,) = treepool("alloc", "--cluster", "a", "--json", shape).json
    conforms(line, "alloc-refused")
    assert tuple(line[name] for name in ("code", "subject", "need", "have")) == reason
    told = treepool("explain", "--cluster", "a", "--json", shape).json[0]
    assert tuple(told[name] for name in ("code", "subject", "need", "have")) == reason


def test_encode(treepool, write):
    node = REPOSITORY / "doc" / "node.xml"
    R = treepool("encode", "--xml", node, "--ranks", "0-1", "--hosts", "n[0-1]")
    result = treepool("encode", "--xml", f"{node}:0", "-R", write(R.out), "--dry-run", "--json")
    assert result.json
    for line in result.json:
        conforms(line, "encode")


@pytest.mark.parametrize(
    "words", ["where -R doc/fabric.json", "conformance testvectors/rfc49-cluster-b.json"]
)
def test_where_and_conformance(treepool, words):
    lines = treepool(*words.split(), "--json").json
    assert lines
    for line in lines:
        conforms(line, words.partition(" ")[0])


def test_bind_and_verify(treepool, write, R):
    words = ["--R", write(R), "--rank", "3", "--xml", REPOSITORY / "doc" / "node.xml"]
    (line,) = treepool("bind", *words, "--print", "--json", "true").json
    conforms(line, "bind")
    (line,) = treepool("verify", *words, "--json").json
    conforms(line, "verify")


@pytest.mark.parametrize("words", [(), ("--hosts", "n[0-31]"), ("--domain", "x1001")])
def test_show(treepool, words):
    shapes = ["slot=2/[core=24;gpu=1]", "node=9/slot/core=96"]
    cluster = ["-R", REPOSITORY / "doc" / "fabric.json", "--down", "30"]
    lines = treepool("show", *cluster, "--json", *words, "--jobs", *shapes).json
    kinds = [line["kind"] for line in lines]
    assert kinds == sorted(kinds, key=["cluster", "type", "domain", "job", "nodes"].index)
    assert set(kinds) == {"cluster", "type", "domain", "job", "nodes"}
    for line in lines:
        conforms(line, "show" if line["kind"] == "cluster" else f"show-{line['kind']}")


def test_flux_env(treepool, monkeypatch, tmp_path):
    found = [installcheck.Finding("a", "here"), installcheck.Finding("b", "", "not found")]
    monkeypatch.setattr(install.Installed, "at", lambda home, prefix: home)
    monkeypatch.setattr(site.FluxSite, "here", lambda: None)
    monkeypatch.setattr(installcheck, "findings", lambda *what: iter(found))
    result = treepool("flux-env", "--check", "--json", "--prefix", tmp_path)
    assert result.status == 1
    for line in result.json:
        conforms(line, "flux-env")


def test_a_line_with_a_key_that_the_schema_lacks_does_not_conform():
    line = {"version": JSON_VERSION, "digest": "0a"}
    conforms(line, "digest")
    for wrong in ({**line, "more": 1}, {"version": JSON_VERSION + 1, "digest": "0a"}):
        with pytest.raises(ValidationError):
            conforms(wrong, "digest")


#: Jobs, and how each of them ends.
SHAPES = {
    "slot=2/[core=8;gpu=1]": None,
    "node=2{x}/slot/core=1": None,
    "slot=9999/core=99": "infeasible",
    "node=9999/slot/core=1": "infeasible",
    "slot=[": "invalid",
}


@pytest.mark.parametrize(
    "cluster", [("--cluster", "b"), ("-R", REPOSITORY / "doc" / "fabric.json")]
)
def test_alloc(treepool, cluster):
    lines = treepool("alloc", *cluster, "--json", *SHAPES).json
    assert {line["shape"]: line.get("error") for line in lines} == SHAPES
    for line in lines:
        conforms(line, "alloc-refused" if "error" in line else "alloc")


def test_advise(treepool):
    (line,) = treepool("advise", "--json", "--shape", "slot=1/core=9999").json
    assert line["common"][-1]["reason"]
    conforms(line, "advise")


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["slot=2/[core=8;gpu=1]", "--jobs", "slot=1/[core=5;gpu=3]"], "allocated"),
        (["node=5/slot=4/[core=24;gpu=1]", "-R", REPOSITORY / "doc" / "fabric.json"], "allocated"),
        (["slot=16/node{x}", "--jobs", "slot=1/core=9", "--down=3"], "waits"),
        (["slot=1/numa/core=20"], "infeasible"),
    ],
)
def test_explain(treepool, words, verdict):
    result = treepool("explain", "--json", *words)
    (line,) = result.json
    assert line["verdict"] == verdict
    assert result.status == (verdict != "allocated")
    conforms(line, "explain")


def test_replay(treepool):
    words = ["-R", REPOSITORY / "doc" / "fabric.json", "--synthetic", "20", "--json"]
    words += ["--compare", "policy=fifo", "--compare", "fabric=off", "--by", "size", "--starts"]
    lines = treepool("replay", *words).json
    assert len(lines) == 2 * (20 + 1)
    for line in lines:
        conforms(line, "replay-start" if "job" in line else "replay")


def test_every_command_with_json_is_in_the_guide_and_in_the_schema():
    told = set(re.findall(r"^\| `([a-z-]+)", GUIDE, re.M))
    _, subcommands = whole()
    have = {
        name
        for name, parser in subcommands.items()
        if any("--json" in line for line in parser.format_help().split())
    }
    assert have <= told
    assert have <= {re.sub("-(gpu|refused|start)$", "", part) for part in LINES}


@pytest.mark.parametrize("part", LINES)
def test_the_guide_names_every_key_that_a_line_has(part):
    keys = set(OUTPUT["$defs"][part]["required"])
    assert keys <= set(re.findall("`([a-z_A-Z0-9]+)`", GUIDE))
