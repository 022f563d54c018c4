"""doc/admin.md: its commands in order, as they are printed, on a private machine."""

import re

import pytest
from guide import SOMEBODY, prepared, steps, write

from broker import REPOSITORY
from features import DEFAULT_SCHEDULER, HAS_FLUXION

GUIDE = (REPOSITORY / "doc" / "admin.md").read_text()

#: The section whose table has commands.
TABLE = "Is it working?"

#: From where on the reader is an ordinary user.
AS_USER = "## Without root"

STEPS = steps(GUIDE, TABLE)
COMMANDS = [step for step in STEPS if step.kind == "sh"]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """{step: the finished process of its commands}, and what of treepool is left where it goes."""
    done = {}
    with prepared(tmp_path_factory.mktemp("admin")) as (machine, system, env):
        before = machine.changed()
        for step in STEPS:
            if step.kind == "restart":
                system.restart()
            elif step.kind == "toml":
                write(machine, step)
            elif step.heading.startswith(AS_USER[3:]):
                user = {**env, "HOME": "/var/somebody"}
                done[step] = machine.run(step.text, env=user, user=SOMEBODY)
            elif step.heading == "Try it":
                done[step] = machine.run(step.text, env=env)
            else:
                done[step] = system.run(step.text, env)
            if step.heading == "Removal":
                done["left"] = sorted(set(machine.changed()) - set(before))
        system.stop()
        done["home"] = machine.sh("find /var/somebody")
    return done


def said(walk, heading, number=0):
    """What the commands of a block under *heading* print."""
    found = [step for step in COMMANDS if step.heading == heading][number]
    return walk[found].stdout


@pytest.mark.parametrize("step", COMMANDS, ids=lambda s: f"{s.heading}: {s.text.split('|')[0]:.40}")
def test_commands_of_the_guide_work_as_printed(walk, step):
    done = walk[step]
    assert done.returncode == 0, f"{step.text}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr


def test_check_prints_what_the_guide_shows(walk):
    (shown,) = re.findall(r"^```\n(treepool  .*?)^```$", GUIDE, re.M | re.S)

    def anywhere(text):
        """*text* as of any version of all, wherever Flux's Python is."""
        text = re.sub(r"\d+\.\d+\.\d+(-\d+-g\w+)?", "N", text)
        if HAS_FLUXION:  # doc/fluxion.md shows what is different
            text = text.replace(f"{DEFAULT_SCHEDULER}, sched", "sched")
            text = text.replace(" where R has a key of treepool's, else " + DEFAULT_SCHEDULER, "")
            text = text.replace(DEFAULT_SCHEDULER, "sched-simple")
        return re.sub(r"(?m)^(Flux's Python .*: ).*", r"\1PATH", text)

    assert anywhere(said(walk, "Install", 1)) == anywhere(shown)


def test_a_job_of_the_trial_runs(walk):
    host, rest = said(walk, "Try it").split("\n", 1)
    assert host
    assert "1 node" in rest


def test_a_live_instance_is_switched_and_switched_back(walk):
    assert DEFAULT_SCHEDULER not in said(walk, "Switch a running instance")
    assert "2 nodes" in said(walk, "Switch a running instance")


def test_the_system_instance_has_the_topology_of_its_nodes_without_a_key(walk):
    assert "valid configuration: policy easy" in said(walk, "The system instance")
    told = said(walk, "The system instance", 1)
    assert "sched-treepool" in told
    assert "topology: numa, socket (hwloc of 2 nodes)" in told
    assert "/core[0-2,12-14],gpu[0-1]" in told


def test_a_key_that_was_written_needs_no_broker(walk):
    assert "valid R: 2 nodes: 2 x [16 cores" in said(walk, "A key that is written once", 1)
    told = said(walk, "A key that is written once", 2)
    assert "valid R: 2 nodes" in told
    assert "no scheduling key" not in told
    assert "hwloc" not in told


def test_a_configuration_that_is_reloaded_holds(walk):
    assert '"conservative"' in said(walk, "Options")
    assert "yearly" not in said(walk, "Windows")
    assert "yearly" in said(walk, "Windows", 1)


def test_the_check_of_feasibility_is_on_once_it_is_configured(walk):
    lines = said(walk, "Jobs that can never run").splitlines()
    assert "feasibility check  on in this instance" in lines


def test_after_the_upgrade_the_new_version_runs(walk):
    assert "this instance      sched-treepool" in said(walk, "Upgrade")
    assert "PROBLEM" not in said(walk, "Upgrade")


def test_after_the_removal_nothing_of_it_is_left(walk):
    ours = {
        f"/etc/flux/system/{name}"
        for name in ("conf.d/resource.toml", "conf.d/key.toml", "conf.d/ingest.toml", "key.json")
    }
    assert {path for path in walk["left"] if not path.startswith("/var/tmp/")} == ours


def test_a_user_s_own_leaves_nothing_either(walk):
    assert "treepool" not in walk["home"]
    assert "PROBLEM" not in said(walk, "Without root, or for some only")
