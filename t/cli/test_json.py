"""What ``--json`` prints is what schemas/output.json and doc/json.md say, no more and no less."""

import re

import pytest

from commandline import REPOSITORY
from schemas import SCHEMAS, validator
from treepool.cli.main import whole
from treepool.cli.screen import JSON_VERSION
from treepool.flux import install, installcheck, site

OUTPUT = SCHEMAS["output"]
GUIDE = (REPOSITORY / "doc" / "json.md").read_text()


def conforms(line, command):
    """Assert that *line* is what the schema says of *command*, and has no other key."""
    for schema in (validator("output"), validator("output", command)):
        schema.validate(line)
    part = OUTPUT["$defs"][command]
    keys = {"version", *part["properties"]}
    if "$ref" in part:
        keys.update(OUTPUT["$defs"]["task"]["properties"])
    assert set(line) <= keys


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


def test_conformance(treepool):
    for line in treepool("conformance", "--json", "testvectors/rfc49-cluster-b.json").json:
        conforms(line, "conformance")


def test_encode(treepool, write):
    node = REPOSITORY / "doc" / "node.xml"
    R = treepool("encode", "--xml", node, "--ranks", "0-1", "--hosts", "n[0-1]")
    result = treepool("encode", "--xml", f"{node}:0", "-R", write(R.out), "--dry-run", "--json")
    for line in result.json:
        conforms(line, "encode")


def test_bind_and_verify(treepool, write, R):
    words = ["--R", write(R), "--rank", "3", "--xml", REPOSITORY / "doc" / "node.xml"]
    (line,) = treepool("bind", *words, "--print", "--json", "true").json
    conforms(line, "bind")
    (line,) = treepool("verify", *words, "--json").json
    conforms(line, "verify")


def test_flux_env(treepool, monkeypatch, tmp_path):
    found = [installcheck.Finding("a", "here"), installcheck.Finding("b", "", "not found")]
    monkeypatch.setattr(install.Installed, "at", lambda home: home)
    monkeypatch.setattr(site.FluxSite, "here", lambda: None)
    monkeypatch.setattr(installcheck, "findings", lambda *what: iter(found))
    result = treepool("flux-env", "--check", "--json", "--prefix", tmp_path)
    assert result.status == 1
    for line in result.json:
        conforms(line, "flux-env")


@pytest.mark.parametrize(
    "words",
    [
        ["flux-env", "--json", "--install"],
        ["bind", "--json", "true"],
        ["encode", "--json", "--xml", "x"],
    ],
)
def test_json_of_what_tells_no_facts_is_a_usage_error(treepool, words):
    assert treepool(*words).is_one_line_error("--json", status=2)


def test_every_command_with_json_is_in_the_guide():
    told = set(re.findall(r"^\| `([a-z-]+)", GUIDE, re.M))
    _, subcommands = whole()
    have = {
        name
        for name, parser in subcommands.items()
        if any("--json" in line for line in parser.format_help().split())
    }
    assert have <= told
