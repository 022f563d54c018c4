"""doc/fluxion.md: its commands in order, as they are printed, on a private machine with Fluxion."""

import re

import pytest
from guide import prepared, steps, write

from broker import REPOSITORY
from features import needs_fluxion

pytestmark = needs_fluxion

GUIDE = (REPOSITORY / "doc" / "fluxion.md").read_text()
STEPS = steps(GUIDE)
COMMANDS = [step for step in STEPS if step.kind == "sh"]


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """{step: (finished process, running jobs before, running jobs after)} of its commands."""
    done = {}
    with prepared(tmp_path_factory.mktemp("fluxion")) as (machine, system, env):
        before = machine.changed()

        def running():
            if not system.process:
                return []
            return system.run("flux jobs -A -f running -no '{id}'", env).stdout.split()

        for step in STEPS:
            if step.kind == "restart":
                system.restart()
            elif step.kind == "toml":
                write(machine, step)
            else:
                had = running()
                done[step] = (system.run(step.text, env), had, running())
        done["left"] = sorted(set(machine.changed()) - set(before))
        system.stop()
    return done


def block(heading, number=0):
    return [step for step in COMMANDS if step.heading == heading][number]


def said(walk, heading, number=0):
    """What the commands of a block under *heading* print."""
    return walk[block(heading, number)][0].stdout


def jobs(walk, heading, number=0):
    """The jobs that run before a block under *heading*, and after it."""
    return walk[block(heading, number)][1:]


@pytest.mark.parametrize("step", COMMANDS, ids=lambda s: f"{s.heading}: {s.text:.40}")
def test_commands_of_the_guide_work_as_printed(walk, step):
    done = walk[step][0]
    assert done.returncode == 0, f"{step.text}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr


def test_check_prints_what_the_guide_shows(walk):
    (shown,) = re.findall(r"^```\n(schedulers .*?)^```$", GUIDE, re.M | re.S)
    assert shown in said(walk, "")


def test_the_way_in_keeps_the_job(walk):
    assert "sched-fluxion-qmanager" in said(walk, "The way in")
    before, after = jobs(walk, "The way in", 1)
    assert len(before) == 1 and before == after
    assert after[0] in said(walk, "The way in", 1)


def test_after_an_afternoon_all_jobs_run(walk):
    inside = said(walk, "An afternoon")
    assert "sched-fluxion-qmanager" in inside
    before, after = jobs(walk, "An afternoon", 1)
    assert len(before) == 2 and before == after


def test_each_can_be_inside_the_other(walk):
    assert re.search(r"^1 node: 1 idle; 0 of 4 cores used", said(walk, "Living with both"), re.M)
    both = said(walk, "Living with both", 1)
    assert len(re.findall(r"^sched-simple ", both, re.M)) == 2
    assert "fluxion" not in both
    assert "sched-fluxion-qmanager" in said(walk, "Living with both", 2)


def test_the_jobs_that_end_on_the_way_back_are_those_that_the_guide_lists(walk):
    listed = said(walk, "Back to Fluxion", 1).split()
    before, after = jobs(walk, "Back to Fluxion", 2)
    assert (len(before), len(listed)) == (2, 1)
    assert set(before) - set(after) == set(listed)


def test_in_the_end_nothing_of_treepool_is_left(walk):
    _, after = jobs(walk, "Back to Fluxion", 3)
    assert len(after) == 1
    left = {path for path in walk["left"] if not path.startswith("/var/tmp/")}
    assert left == {"/etc/flux/system/conf.d/resource.toml"}
