"""flux-sched's own tests of queues, reservations and priorities, with sched-treepool for Fluxion.

FLUX_SCHED_SRC names the source tree of flux-sched; without it they are skipped.
"""

import os
import shutil
from pathlib import Path

import pytest
import sharness

from broker import HERE, environment
from features import needs_fluxion

SOURCE = os.environ.get("FLUX_SCHED_SRC", "")

#: Which others speak of Fluxion alone, or wait for its words: doc/reliability.md.
TESTS = [
    "t1003-qmanager-policy",
    "t1013-qmanager-priority",
    "t1023-multiqueue-constraints",
    "t1024-alloc-check",
    "t1026-rv1-partial-release",
]


@needs_fluxion
@pytest.mark.skipif(
    not SOURCE, reason="FLUX_SCHED_SRC names no source tree: flux-sched's tests were NOT run"
)
@pytest.mark.parametrize("name", TESTS)
def test_jobs_are_served_as_by_fluxion(tmp_path, name):
    folder, root, loaded = (tmp_path / name for name in ("t", "root", "loaded"))
    shutil.copytree(Path(SOURCE, "t"), folder, symlinks=True)
    schedulers = HERE / "flux" / "schedulers"
    shutil.copy(schedulers / "as-fluxion.sh", folder / "sharness.d" / "zz-as-fluxion.sh")
    root.mkdir()
    env = environment(
        FLUX_SCHED_TEST_INSTALLED="1",
        AS_FLUXION=str(schedulers / "treepool-as-fluxion.py"),
        TREEPOOL_TEST_LOADED=str(loaded),
    )
    del env["FLUX_MODPROBE_PATH"]  # Fluxion's modules are named there, and disabled by its tests
    failed, _ = sharness.run(folder, name, root, env)
    assert failed == []
    assert set(loaded.read_text().split()) == {"sched-treepool"}
