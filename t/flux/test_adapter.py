"""The pool class by itself: what flux.scheduler calls, and what it gets."""

import subprocess
from pathlib import Path

import pytest
from checks import names_in

from broker import PATIENCE, environment

SCRIPT = Path(__file__).with_name("adapter.py")
CHECKS = names_in(SCRIPT)


@pytest.mark.parametrize("check", CHECKS)
def test_adapter(check):
    command = ["flux", "python", str(SCRIPT), check]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
