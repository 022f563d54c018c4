"""What ``flux-env --install --prefix`` sets up, and what Flux makes of it, without root."""

import json

import pytest

from broker import Instance, environment, installed, key_of

CHOSEN = [
    "modules.alternatives.sched=sched-treepool",
    'modules.sched-treepool.args=["policy=easy"]',
]


@pytest.fixture(scope="module")
def site():
    """An instance whose configuration chose sched-treepool, with an option."""
    with Instance(16, 120, 8, key_of("rfc49-cluster-a"), conf=CHOSEN) as instance:
        instance.scheduler = "sched-treepool"
        yield instance


def test_the_configuration_makes_it_the_scheduler_of_the_instance(site):
    schedulers = [line for line in site.flux("module", "list").splitlines() if "sched" in line]
    assert [line.split()[0] for line in schedulers] == ["sched-treepool"]
    assert schedulers[0].split()[-1] == "feasibility,sched"
    assert site.stats()["policy"] == "easy"


def test_an_instance_that_does_not_choose_it_has_the_scheduler_it_had_before():
    with Instance(2, 4, 0) as instance:
        loaded = instance.flux("module", "list")
        assert "sched-simple" in loaded
        assert "sched-treepool" not in loaded


def test_it_places_jobs(site):
    assert site.placed(site.submit("-n2", "-c8", "-g1")) == [("0", "0-7,15-22", "0-1")]
    site.cancel_all()


def test_the_command_line_is_a_subcommand_of_flux(site):
    R = site.flux("kvs", "get", "resource.R")
    said = site.flux("treepool", "alloc", "-R", "-", "--json", "slot=1/socket{x}", stdin=R)
    assert json.loads(said)["R_lite"] == [{"rank": "0", "children": {"core": "0-59", "gpu": "0-3"}}]
    assert site.run("treepool", "alloc", "-R", "-", "slot=1/core=999", stdin=R).returncode == 1


def test_the_environment_has_flux_s_own_variables_only():
    home = installed() / "lib" / "treepool"
    env = environment()
    assert env["FLUX_MODULE_PATH_PREPEND"] == f"{home}/treepool/flux/modules"
    assert not [name for name in env if "PYTHON" in name and not name.startswith("FLUX_")]


def test_flux_s_python_finds_one_name_of_treepool_and_none_of_what_it_needs():
    (only,) = (
        path for path in (installed() / "lib/treepool/treepool/flux/pools").iterdir()
        if path.name != "__pycache__"
    )  # fmt: skip
    assert only.name == "TreePool.py"
