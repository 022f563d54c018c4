"""Rooms of the module by themselves: whom discovery asks, and whose turn it is when."""

import subprocess
from pathlib import Path

import pytest
from checks import names_in

from broker import PATIENCE, environment

HERE = Path(__file__).parent
NAMES = "asking", "cancelling", "hostile", "running", "sharing", "steps"
SCRIPTS = tuple(HERE / f"{name}.py" for name in NAMES)
CHECKS = [(script.name, check) for script in SCRIPTS for check in names_in(script)]


@pytest.mark.parametrize(("script", "check"), CHECKS)
def test_asking(script, check):
    env = environment()
    env["PYTHONPATH"] = str(HERE.parent)  # made-up nodes
    done = subprocess.run(
        ["flux", "python", str(HERE / script), check],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
