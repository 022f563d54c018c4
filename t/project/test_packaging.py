"""What CI and the packages of packaging/ name is there, and agrees with pyproject.toml."""

import ast
import re
from pathlib import Path

import yaml

from commandline import REPOSITORY
from treepool import __version__
from treepool.flux import install, site
from treepool.flux.site import FluxSite

PYPROJECT = (REPOSITORY / "pyproject.toml").read_text()
SPEC = (REPOSITORY / "packaging" / "rpm" / "treepool.spec").read_text()
SPACK = (REPOSITORY / "packaging" / "spack" / "package.py").read_text()

#: Where the system's Flux is in the words of RPM, as FluxSite has it.
SYSTEM = FluxSite(
    command=Path("%{_bindir}/flux"),
    version="",
    python=Path(),
    python_version="",
    pool=None,
    libraries=Path("%{python3_sitelib}"),
    modules=Path("%{_libdir}/flux/modules"),
    commands=Path("%{_libexecdir}/flux/cmd"),
    plugins=Path("%{_libexecdir}/flux/cli/plugins"),
    modprobe=Path("%{_datadir}/flux/modprobe/modprobe.d"),
    help=Path("%{_datadir}/flux/help.d"),
)


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


def test_the_rpm_has_what_flux_env_installs():
    listed = re.search(r"^%files\n(.*)^%changelog", SPEC, re.M | re.S)[1].splitlines()
    linked = dict(re.findall(r"^link (\S+) (\S+)$", SPEC, re.M))
    for link, target in install._links(SYSTEM, Path("/"), None).items():
        assert str(link) in listed
        if link.name not in ("treepool", "TreePool.py"):  # the wheel has these where they belong
            assert linked.pop(next(k for k, v in linked.items() if v == str(link)), None)
            assert (REPOSITORY / str(target).lstrip("/")).exists()
    assert linked == {}


def test_the_links_of_the_rpm_lead_to_files():
    for source, _ in re.findall(r"^link (\S+) (\S+)$", SPEC, re.M):
        assert (REPOSITORY / "treepool" / "flux" / source).is_file()


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
