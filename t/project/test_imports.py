"""What importing treepool loads. The order of rooms is for `lint-imports`: see pyproject.toml."""

import subprocess
import sys

from commandline import REPOSITORY

#: Run with Flux out of reach; prints what is loaded afterwards.
SCRIPT = """
import sys
sys.modules["flux"] = sys.modules["_flux"] = None
{statements}
print(*sorted(name for name in sys.modules if sys.modules[name] is not None))
"""

#: What only some commands need, and what a pool never does.
HEAVY = ("defusedxml", "jsonschema", "rich")
ROOMS = ("treepool.cli", "treepool.discovery", "treepool.flux", "treepool.view")


def loaded(statements):
    """The modules that a process has loaded after *statements*."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(statements=statements)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_treepool_is_imported_without_flux():
    assert "treepool" in loaded("import treepool")


def test_every_public_name_but_the_pool_class_of_flux_is_there_without_flux():
    assert "treepool.placement.pool" in loaded("from treepool import *")


def test_a_pool_loads_nothing_that_only_commands_need():
    cluster = 'json.load(open("testvectors/rfc49-cluster-a.json"))["cluster"]'
    found = loaded(f"import json, treepool; treepool.Pool({cluster}['R'])")
    assert [name for name in (*HEAVY, *ROOMS) if name in found] == []


def test_bind_reads_xml_only_if_it_must():
    """It runs for each task of a job, and is often refused or asked for --help."""
    found = loaded("import treepool.cli.bind, treepool.cli.verify")
    heavy = ("defusedxml", "xml.parsers.expat", "ctypes", "tarfile", "subprocess")
    assert [name for name in heavy if name in found] == []
