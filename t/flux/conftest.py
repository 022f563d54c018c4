"""Tests here need Flux: where there is none, each says that it was skipped, and why."""

import shutil
import sys
from pathlib import Path

import pytest

from broker import Instance, key_of
from features import VERSION

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))

WITHOUT = "flux is not on the PATH: treepool inside Flux was NOT tested (see doc/admin.md)"


def pytest_report_header():
    """Says at the top of the run which Flux is tested with."""
    return f"flux: {shutil.which('flux')} {VERSION}" if VERSION else f"flux: {WITHOUT}"


def pytest_collection_modifyitems(items):
    """Skips this folder's tests where there is no Flux."""
    if not VERSION:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=WITHOUT))


@pytest.fixture(scope="session")
def cluster():
    """16 nodes like RFC 49's cluster A: 2 sockets of 4 numa, each 15 cores and a GPU."""
    with Instance(16, 120, 8, key_of("rfc49-cluster-a")) as instance:
        yield instance


NUMA = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
KEY = {"writer": "TreePool", "children": [{"ranks": "0", "topo": {"numa": NUMA}}]}


@pytest.fixture(scope="session")
def small():
    """Two nodes of 2 numa with 4 cores and a GPU each."""
    with Instance(2, 8, 2, KEY) as instance:
        yield instance


@pytest.fixture(scope="session")
def four():
    """Four brokers, one for each of four nodes of 2 numa with 4 cores and a GPU."""
    with Instance(4, 8, 2, KEY, size=4, conf=["resource.noverify=true"]) as instance:
        yield instance


@pytest.fixture
def idle(request):
    """Ends whatever jobs a test leaves in its instance."""
    yield
    for name in ("cluster", "small", "four"):
        if name in request.fixturenames:
            request.getfixturevalue(name).cancel_all()
