"""What a site sets up: ``treepool flux-env``, and what Flux makes of it."""

import json

import pytest

from broker import REPOSITORY, Instance, environment, key_of
from commandline import run_process


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """An instance that modprobe gave sched-treepool, with an option."""
    directory = tmp_path_factory.mktemp("modprobe")
    (directory / "modprobe.d").mkdir()
    toml = run_process("flux-env", "--modprobe", "policy=easy").out
    (directory / "modprobe.d" / "treepool.toml").write_text(toml)
    env = {"FLUX_MODPROBE_PATH_APPEND": str(directory)}
    with Instance(16, 120, 8, key_of("rfc49-cluster-a"), env=env) as instance:
        instance.scheduler = "sched-treepool"
        yield instance


def test_modprobe_makes_it_the_scheduler_of_the_instance(site):
    schedulers = [line for line in site.flux("module", "list").splitlines() if "sched" in line]
    assert [line.split()[0] for line in schedulers] == ["sched-treepool"]
    assert schedulers[0].split()[-1] == "feasibility,sched"
    assert site.stats()["policy"] == "easy"


def test_it_places_jobs(site):
    assert site.placed(site.submit("-n2", "-c8", "-g1")) == [("0", "0-7,15-22", "0-1")]
    site.cancel_all()


def test_the_command_line_is_a_subcommand_of_flux(site):
    R = site.flux("kvs", "get", "resource.R")
    said = site.flux("treepool", "alloc", "-R", "-", "--json", "slot=1/socket{x}", stdin=R)
    assert json.loads(said)["R_lite"] == [{"rank": "0", "children": {"core": "0-59", "gpu": "0-3"}}]
    assert site.run("treepool", "alloc", "-R", "-", "slot=1/core=999", stdin=R).returncode == 1


def test_the_environment_extends_what_is_there():
    env = environment()
    assert env["FLUX_MODULE_PATH_PREPEND"] == str(REPOSITORY / "treepool/flux/modules")
    assert env["PYTHONPATH"].split(":")[0] == str(REPOSITORY)
