"""doc/admin.md: its five commands, run as they stand, but for where things go."""

import os
import re
import subprocess

import pytest

from broker import REPOSITORY, environment
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "admin.md").read_text()


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the last of the five commands said."""
    here = tmp_path_factory.mktemp("admin")
    (json_block,), (commands,) = blocks(GUIDE, "json"), blocks(GUIDE, "sh")
    (here / "key.json").write_text(json_block)
    (here / "modprobe.d").mkdir()
    kept = environment()
    env = {name: value for name, value in kept.items() if not name.startswith(("FLUX", "PYTHON"))}
    env["FLUX_MODPROBE_PATH_APPEND"] = str(here)
    # Not a machine of ours: other places, a login shell's file, and nodes that are not there.
    start = "flux start --conf=resource.noverify=true"
    submit = "flux submit --setattr=system.exec.test.run_duration=1s --wait-event=alloc"
    places = {
        "--target /opt/treepool treepool": f"--target {here}/opt {REPOSITORY}",
        "/opt/treepool": f"{here}/opt",
        "/etc/profile.d/treepool.sh": f"{here}/profile.sh",
        "/usr/local/etc/flux/modprobe": str(here),
        "sh -lc 'flux start": f"sh -c '. {here}/profile.sh; {start}",
        "flux run": submit,
        " -v true": " true; flux dmesg; flux jobs -ano {annotations.sched.resource_summary}",
    }
    for old, new in places.items():
        assert old in commands, old
        commands = commands.replace(old, new)
    commands = re.sub(r"(flux submit.*)'$", r'sh -c "\1"' + "'", commands, flags=re.M)
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=here, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert not os.path.exists("/opt/treepool")
    return done.stdout


def test_the_job_has_the_cores_beside_its_gpus(said):
    assert said.splitlines()[-1] == "rank0/core[0-5],gpu[0-1]"


def test_the_log_has_the_lines_shown(said):
    (shown,) = [block for block in blocks(GUIDE) if block.startswith("sched-treepool.info")]
    for line in shown.splitlines():
        # flux-core 0.86 does not say whose pool it is, so treepool does in a line of its own.
        _, whose, pool = line.partition("pool-class=")
        apart = line.replace("pool-class=treepool ", "") in said
        assert line in said or (apart and f"sched-treepool.info[0]: {whose}{pool}" in said)


def test_there_are_five_commands():
    (commands,) = blocks(GUIDE, "sh")
    assert len(commands.splitlines()) == 5
