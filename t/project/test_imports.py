"""What importing treepool loads, and what its commands load.

The order of rooms is for `lint-imports`: see pyproject.toml.
"""

import json
import shutil
import subprocess
import sys

import pytest

from broker import environment, installed
from commandline import REPOSITORY
from treepool.cli.main import SUBCOMMANDS, UNLISTED

#: Prints what is loaded at the end, as the last line.
SCRIPT = """
import sys
{statements}
print()
print(*sorted(name for name in sys.modules if sys.modules[name] is not None))
"""
NO_FLUX = 'sys.modules["flux"] = sys.modules["_flux"] = None'

#: What only some commands need, and what a pool never does.
HEAVY = ("defusedxml", "jsonschema", "rich")
#: The engine: what makes a pool, and what chooses nodes.
ENGINE = {"treepool.placement.pool", "treepool.placement.choose.policy"}
ROOMS = ("treepool.cli", "treepool.discovery", "treepool.flux", "treepool.view")


#: The modules of the subcommands.
COMMANDS = {f"treepool.cli.{module}" for _, module, *_ in (*SUBCOMMANDS, *UNLISTED)}


def loaded(statements):
    """The modules that a process without Flux has loaded after *statements*."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(statements=f"{NO_FLUX}\n{statements}")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def command(argv):
    """The modules that ``treepool *argv*`` has loaded at its end."""
    return loaded(f"from treepool.cli.main import main\nmain({argv!r})")


def in_flux(statements):
    """The modules that Flux's Python has loaded after *statements*, which find treepool."""
    home = str(installed() / "lib/treepool")
    found = f"sys.path[:0] = [{home!r}, {home + '/libraries'!r}]"
    done = subprocess.run(
        ["flux", "python", "-c", SCRIPT.format(statements=f"{found}\n{statements}")],
        cwd="/",
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_every_public_name_but_the_pool_class_of_flux_is_there_without_flux():
    assert "treepool.placement.pool" in loaded("from treepool import *")


def test_treepool_alone_loads_nothing_else():
    assert [
        name for name in loaded("import treepool") if name.startswith(("treepool.", "attr"))
    ] == []


def test_every_public_name_is_what_its_module_calls_so():
    statements = """
import treepool
for name, home in treepool._HOMES.items():
    if name != "pool_class":
        assert getattr(treepool, name) is getattr(sys.modules[home], name), name
assert treepool.errors is sys.modules["treepool.errors"]
assert {*treepool.__all__} == {*treepool._HOMES, "errors"} - {"pool_class"}
assert {*treepool.__all__} <= {*dir(treepool)}
assert not hasattr(treepool, "nonsense")
"""
    assert "treepool.rfc.shape" in loaded(statements)


@pytest.mark.parametrize(
    ("argv", "module"),
    [
        (["--version"], None),
        (["bind"], "bind"),
        (["verify"], "verify"),
    ],
)
def test_a_command_loads_its_own_module_and_no_library(argv, module):
    found = command(argv)
    assert [name for name in HEAVY if name in found] == []
    assert found & COMMANDS == ({f"treepool.cli.{module}"} if module else set())
    assert not any(name.startswith(("treepool.placement", "treepool.view")) for name in found)


def test_a_task_is_found_and_checked_without_what_draws_and_validates(tmp_path):
    R = tmp_path / "R.json"
    execution = {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["x"]}
    execution.update(starttime=0, expiration=0)
    R.write_text(json.dumps({"version": 1, "execution": execution}))
    found = command(["verify", "--R", str(R)])
    assert "treepool.rfc.rset" in found
    assert {"rich", "jsonschema"} & found == set()


@pytest.mark.parametrize(
    "argv",
    [
        ["alloc", "slot=1/cpu"],
        ["status", "--help"],
        ["window", "list", "--help"],
    ],
)
def test_options_are_read_without_the_engine(argv):
    assert not command(argv) & ENGINE


@pytest.mark.skipif(shutil.which("flux") is None, reason="flux is not on the PATH")
def test_an_instance_is_asked_without_flux_s_own_package_and_without_the_engine():
    """What ``flux jobs`` imports, and treepool's commands do not, lets them be no slower."""
    commands = "alloc", "alloctable", "explain", "status", "statustable", "window"
    asking = ["flux.client", "flux.standing", *(f"cli.{name}" for name in commands)]
    found = in_flux(f"import {', '.join(f'treepool.{name}' for name in asking)}")
    assert found & {"flux", "rich.console", "treepool.rfc.rset", *ENGINE} == set()
    of_a_job = in_flux("import treepool.flux.job, treepool.cli.where")
    assert not of_a_job & {"flux", "rich.console", "treepool.rfc.windows", *ENGINE}
    with_pool = in_flux("import treepool.flux.live, treepool.flux.snapshot")
    assert with_pool > ENGINE
    assert "flux" not in with_pool


def test_options_of_flux_submit_are_checked_only_if_there_are_some():
    job = "SimpleNamespace(attributes={'system': {}}, resources=[])"
    use = "from types import SimpleNamespace\nfrom treepool.flux import joboptions\n"
    test_only = loaded(f"{use}joboptions.add({{'test_only': True}}, {job})")
    assert not any(name.startswith(("treepool.placement", "attr")) for name in test_only)


@pytest.mark.depth
@pytest.mark.skipif(shutil.which("flux") is None, reason="flux is not on the PATH")
def test_flux_loads_nothing_that_only_commands_need():
    found = in_flux("import TreePool; TreePool.pool_class\nimport treepool.flux.sched")
    assert {"treepool.flux.pool", "treepool.placement.pool"} <= found
    assert [name for name in (*HEAVY, "treepool.cli", "treepool.view") if name in found] == []


def test_a_pool_loads_nothing_that_only_commands_need():
    cluster = 'json.load(open("testvectors/rfc49-cluster-a.json"))["cluster"]'
    found = loaded(f"import json, treepool; treepool.Pool({cluster}['R'])")
    assert [name for name in (*HEAVY, *ROOMS) if name in found] == []


def test_bind_reads_xml_only_if_it_must():
    """It runs for each task of a job, and is often refused or asked for --help."""
    found = loaded("import treepool.cli.bind, treepool.cli.verify")
    heavy = ("defusedxml", "xml.parsers.expat", "ctypes", "tarfile")
    assert [name for name in heavy if name in found] == []
