"""Fixtures of the command line's tests."""

import sys

import pytest

from made import nodes


@pytest.fixture
def R():
    """An R of two nodes, each with two sockets of four cores and a GPU."""
    socket = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    return nodes("3,5", gpus="0-1", topo={"socket": socket}, starttime=0, expiration=0)


@pytest.fixture
def without_flux(monkeypatch):
    """There is no package of Flux to import, whatever other tests have imported."""
    monkeypatch.setitem(sys.modules, "flux", None)
    for name in [name for name in sys.modules if f"{name}.".startswith("treepool.flux.")]:
        monkeypatch.delitem(sys.modules, name)
