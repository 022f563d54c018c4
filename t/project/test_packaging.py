"""What CI and the packages of packaging/ name is there, and agrees with pyproject.toml."""

import ast
import re
from pathlib import Path

import yaml

from commandline import REPOSITORY
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
