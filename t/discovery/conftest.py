"""Makes the helpers beside the tests importable, and trees of /sys to start from."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from discovery.fakesys import FakeSys, two_sockets


@pytest.fixture
def fake(tmp_path):
    """An empty tree."""
    return FakeSys(tmp_path)


@pytest.fixture
def two_nodes(tmp_path):
    """Two sockets of two cores, and a node 2 without CPUs, nearer to the second."""
    return two_sockets(tmp_path)
