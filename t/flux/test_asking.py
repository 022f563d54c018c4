"""Discovery by itself: which brokers it asks, whatever they answer."""

import subprocess
from pathlib import Path

import pytest
from checks import names_in

from broker import PATIENCE, environment

SCRIPT = Path(__file__).with_name("asking.py")


@pytest.mark.parametrize("check", names_in(SCRIPT))
def test_asking(check):
    env = environment()
    env["PYTHONPATH"] = str(SCRIPT.parents[1])  # made-up nodes
    done = subprocess.run(
        ["flux", "python", str(SCRIPT), check],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
