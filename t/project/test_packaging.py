"""What CI and the packages of packaging/ name is there, and agrees with pyproject.toml."""

import ast
import json
import re
from pathlib import Path

import yaml

from commandline import REPOSITORY
from metrics import printed
from treepool import __version__
from treepool.flux import site

PYPROJECT = (REPOSITORY / "pyproject.toml").read_text()
SPEC = (REPOSITORY / "packaging" / "rpm" / "treepool.spec").read_text()
SPACK = (REPOSITORY / "packaging" / "spack" / "package.py").read_text()


def needs():
    """The libraries that treepool needs, and the least version of each."""
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]", PYPROJECT, re.M | re.S)
    return dict(re.findall(r'"([\w-]+)>=([\d.]+)"', block))


def test_the_rpm_has_the_version_and_what_treepool_needs():
    assert re.search(rf"^Version: +{re.escape(__version__)}$", SPEC, re.M)
    assert needs()
    for kind in ("Requires", "BuildRequires"):
        found = dict(re.findall(rf"^{kind}: +python3-(\w+) >= ([\d.]+)$", SPEC, re.M))
        assert needs().items() <= found.items()


def test_the_spack_package_has_the_version_and_what_treepool_needs():
    ast.parse(SPACK)
    assert f'version("{__version__}"' in SPACK
    found = dict(re.findall(r'depends_on\("py-([\w-]+)@([\d.]+):"', SPACK))
    assert needs().items() <= found.items()


def test_the_spack_package_sets_the_variables_of_flux():
    set_ = dict(re.findall(r'env\.prepend_path\("(\w+)", join_path\(flux, "(\w+)"\)\)', SPACK))
    expected = {name: path.name for name, path in site.variables(Path("/")).items()}
    assert set_ == expected


def test_the_workflow_runs_targets_that_there_are():
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "check.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    run = [step["run"] for step in steps if step.get("run", "").startswith("make")]
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M)
    assert {command.split()[1] for command in run} == {"check", "ci"} <= set(targets)


# -- the dashboard

DASHBOARD = json.loads((REPOSITORY / "packaging" / "grafana" / "treepool.json").read_text())

LABEL = re.compile(r'([a-z]+)=~?"((?:[^"\\]|\\.)*)"')


def series():
    """The labels and their values of each metric that is printed."""
    found = {}
    for line in printed():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            known = found.setdefault(name, {"instance": {"$instance"}})
            for label, value in LABEL.findall(labels):
                known.setdefault(label, set()).add(value)
    return found


def targets():
    return [
        (panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]
    ]


def test_the_dashboard_shows_metrics_and_labels_that_are_printed():
    known = series()
    for title, target in targets():
        selected = re.findall(r"(treepool_\w+)\{(.*?)\}", target["expr"])
        assert len(selected) == target["expr"].count("treepool_") > 0, title
        grouped = [
            label
            for by in re.findall(r"by \(([^)]*)\)", target["expr"])
            for label in by.split(", ")
        ]
        for name, matchers in selected:
            assert name in known, title
            pairs = LABEL.findall(matchers)
            assert "instance" in dict(pairs), f"{title}: of the instances that are chosen"
            for label, value in pairs:
                assert value in known[name].get(label, ()), (title, name, label)
            assert set(grouped) <= set(known[name]), (title, name)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(grouped), title


def test_the_dashboard_has_rates_of_counters_and_values_of_gauges():
    counters = {name for name in series() if name.endswith(("_total", "_sum", "_count"))}
    for title, target in targets():
        rated = re.findall(r"(?:rate|increase)\((treepool_\w+)\{", target["expr"])
        selected = re.findall(r"(treepool_\w+)\{", target["expr"])
        assert [name for name in selected if name in counters] == rated, title


def test_the_variables_of_the_dashboard_are_defined():
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) == names
    (asked,) = re.findall(r"label_values\((\w+), instance\)", json.dumps(DASHBOARD["templating"]))
    assert asked in series()
