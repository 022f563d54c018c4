"""How hard the tests look, see depth.py; and the command line, for the tests of several folders."""

import gc
import json

import pytest
from hypothesis import settings

import depth  # noqa: F401 (registers the profiles)
from commandline import run

settings.load_profile("check")


def pytest_collection_finish():
    """Leaves the tests themselves out of garbage collections: a tenth of the time of a run."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def treepool(capsys, monkeypatch):
    """``treepool(*argv)`` runs a command in this process and returns its result."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TREEPOOL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return lambda *argv, **how: run(capsys, *argv, **how)


@pytest.fixture
def write(tmp_path):
    """``write(value, name)`` writes bytes, text, or a JSON value to a file and returns its path."""

    def write(value, name="file.json"):
        path = tmp_path / name
        if not isinstance(value, (bytes, str)):
            value = json.dumps(value)
        path.write_bytes(value if isinstance(value, bytes) else value.encode())
        return path

    return write
