"""flux-core's own tests: of schedulers, with treepool as the pool; of jobs, with sched-treepool.

FLUX_CORE_SRC names the source tree of flux-core, configured and built with its test programs (`make
check TESTS=`); without it they are skipped, and so are those that a version does not have.
"""

import os
import shutil
from pathlib import Path

import pytest
import sharness

from broker import HERE, environment

SOURCE = os.environ.get("FLUX_CORE_SRC", "")

pytestmark = pytest.mark.skipif(
    not SOURCE, reason="FLUX_CORE_SRC names no built source tree: flux-core's tests were NOT run"
)

#: The tests and which scheduler they load.
PASS = {
    "t2302-sched-simple-up-down": "sched-simple",
    "t2303-sched-hello": "sched-simple",
    "t2306-sched-fifo": "sched-fifo",
    "t2307-sched-backfill": "sched-backfill",
    "t2320-sched-treepool": "sched-simple",
    "t2321-sched-treepool-tva": "sched-simple",
    "t2322-sched-treepool-tvb": "sched-simple",
}

#: Tests of jobs, queues and nodes that load sched-simple.
JOBS = [
    "t2240-queue-cmd",
    "t2245-policy-config",
    "t2246-queue-virtual",
    "t2273-job-alloc-bypass",
    "t2290-job-update",
    "t2291-job-update-queue",
    "t2303-sched-hello",
    "t2304-sched-simple-alloc-check",
    "t2305-sched-slow",
    "t2311-resource-drain",
    "t2312-resource-exclude",
    "t2313-resource-acquire",
]

#: What doc/reliability.md explains.
DIFFERENT = [
    "sched-simple: unsatisfiable request is canceled",
    "sched-simple: invalid minimal jobspec is canceled",
    "sched-simple: check allocations for running jobs",
    "sched-simple: waiting job now has alloc event",
    "sched-simple: check allocations for running jobs",
    "sched-simple: ensure more urgent job run",
]


@pytest.fixture
def run(tmp_path):
    """Runs one of flux-core's tests; returns those that failed, how many there were, and the rest.

    The rest is which schedulers were loaded with treepool as their pool, or whether it was
    sched-treepool: *module* stands in for those that are *replaced*.
    """
    modules, loaded, root = (tmp_path / name for name in ("modules", "loaded", "root"))
    modules.mkdir()
    root.mkdir()
    env = environment(FLUX_CORE_SRC=SOURCE, TREEPOOL_TEST_LOADED=str(loaded))
    env["FLUX_MODULE_PATH_PREPEND"] = f"{modules}:{env['FLUX_MODULE_PATH_PREPEND']}"
    folder = Path(SOURCE, "t")

    def run(name, module="default-pool", replaced=("simple", "fifo", "backfill")):
        if not (folder / f"{name}.t").exists():
            pytest.skip(f"this flux-core has no {name}")
        for scheduler in replaced:
            shutil.copy(HERE / f"flux/schedulers/{module}.py", modules / f"sched-{scheduler}.py")
        failed, count = sharness.run(folder, name, root, env)
        return failed, count, set(loaded.read_text().split())

    return run


@pytest.mark.parametrize("name", PASS)
def test_it_passes(run, name):
    failed, count, loaded = run(name)
    assert (failed, count > 5) == ([], True)
    assert PASS[name] in loaded


def test_flat_nodes_are_chosen_by_best_fit_and_reasons_have_treepools_words(run):
    failed, count, _ = run("t2300-sched-simple")
    assert (failed, count > 30) == (DIFFERENT, True)


@pytest.mark.parametrize("name", JOBS)
def test_jobs_queues_and_nodes_are_served_as_by_sched_simple(run, name):
    failed, count, loaded = run(name, "treepool-as-simple", ("simple",))
    assert (failed, count > 5, loaded) == ([], True, {"sched-treepool"})
