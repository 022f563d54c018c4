"""What the Flux on the PATH is, and what it has; for tests that not every flux-core can pass."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker import PATIENCE


def _said(*words):
    return subprocess.run(["flux", *words], capture_output=True, text=True, timeout=PATIENCE)


#: The version of the Flux on the PATH, "" if there is none.
VERSION = ""
if shutil.which("flux"):
    VERSION = re.search(r"libflux-core:\s*([\d.]+)", _said("version").stdout)[1]

#: Whether it has a TreePool of its own.
HAS_TREE_POOL = VERSION and _said("python", "-c", "import flux.resource.TreePool").returncode == 0

NO_TREE_POOL = f"flux-core {VERSION} has no TreePool of its own, 0.87 is the first"

#: Marks a test of treepool beside flux-core's own TreePool.
needs_tree_pool = pytest.mark.skipif(bool(VERSION) and not HAS_TREE_POOL, reason=NO_TREE_POOL)

#: Marks a test of ``access.private-mode``.
needs_private_mode = pytest.mark.skipif(
    VERSION.startswith("0.86."),
    reason=f"flux-core {VERSION} has no private mode, 0.87 is the first",
)

_FLUXION = "sched-fluxion-qmanager"

#: Whether Fluxion is installed beside it, which then is the scheduler where nothing chooses one.
HAS_FLUXION = bool(VERSION) and any(
    Path(place, f"{_FLUXION}.so").exists()
    for place in _said("config", "builtin", "module_path").stdout.strip().split(":")
)

#: Marks a test of treepool beside Fluxion.
needs_fluxion = pytest.mark.skipif(
    bool(VERSION) and not HAS_FLUXION,
    reason="Fluxion (flux-sched) is not installed: treepool beside it was NOT tested",
)

#: The scheduler of an instance that chooses none.
DEFAULT_SCHEDULER = _FLUXION if HAS_FLUXION else "sched-simple"

_PARENT = "import inspect, flux.queue as q; inspect.signature(q.QueueInfo).parameters['parent']"

#: Whether it has virtual queues (RFC 33).
HAS_VIRTUAL_QUEUES = bool(VERSION) and _said("python", "-c", _PARENT).returncode == 0

#: Marks a test of virtual queues.
needs_virtual_queues = pytest.mark.skipif(
    bool(VERSION) and not HAS_VIRTUAL_QUEUES,
    reason=f"flux-core {VERSION} has no virtual queues, those after 0.88 have them",
)
