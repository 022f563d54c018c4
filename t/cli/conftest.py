"""Fixtures of the command line's tests."""

import pytest

from made import nodes


@pytest.fixture
def R():
    """An R of two nodes, each with two sockets of four cores and a GPU."""
    socket = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    return nodes("3,5", gpus="0-1", topo={"socket": socket}, starttime=0, expiration=0)
