"""The pool class by itself: what flux.scheduler calls, and what it gets."""

import ast
import subprocess
from pathlib import Path

import pytest

from broker import PATIENCE, environment

SCRIPT = Path(__file__).with_name("adapter.py")
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.mark.parametrize("check", CHECKS)
def test_adapter(check):
    command = ["flux", "python", str(SCRIPT), check]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
