"""The scheduler module in random histories without a broker; see driven for what must hold."""

import subprocess
from pathlib import Path

import pytest

from broker import environment
from depth import examples

SCRIPT = Path(__file__).with_name("driven")

#: Histories of each kind, of 60 to 120 events.
HISTORIES = {"mixed": 400, "punctual": 400, "same": 400, "replayed": 200, "dats": 8, "spared": 200}


@pytest.mark.parametrize("kind", HISTORIES)
def test_the_module_keeps_its_promises_in_random_histories(kind):
    command = ["flux", "python", str(SCRIPT), kind, "0", str(examples(HISTORIES[kind]))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
