"""Fixtures of the command line's tests."""

import json

import pytest

from commandline import run
from made import nodes


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


@pytest.fixture
def R():
    """An R of two nodes, each with two sockets of four cores and a GPU."""
    socket = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    return nodes("3,5", gpus="0-1", topo={"socket": socket}, starttime=0, expiration=0)
