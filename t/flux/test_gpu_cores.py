"""``gpu-cores`` in a broker: who submits a job without GPUs is told which cores are kept."""

import json

from broker import Instance

NUMA = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
KEY = {"writer": "TreePool", "children": [{"ranks": "0-1", "topo": {"numa": NUMA}}]}


def test_cores_near_gpus_stay_free_for_jobs_with_gpus():
    with Instance(2, 8, 2, KEY) as instance:
        instance.load("sched-treepool", "gpu-cores=2")
        first = instance.submit("-n8", "-t1h")
        instance.wait(first, "alloc")
        second = instance.submit("-n1")
        reason = instance.soon(lambda: instance.annotation(second, "reason_pending"))
        assert "0 of 1 slots free now without cores kept for jobs with GPUs, 1 at" in reason
        assert "8 free cores kept for jobs with GPUs" in instance.flux("treepool", "status")
        totals = json.loads(instance.flux("treepool", "status", "--json").splitlines()[-1])
        assert (totals["totals"]["cores_free"], totals["totals"]["cores_kept"]) == (8, 8)
        instance.flux("cancel", second)
        with_gpus = instance.submit("-n4", "-c2", "-g1")
        instance.wait(with_gpus, "alloc")
        refused = instance.submit("-n1", "-c5")
        note = instance.wait(refused, "exception")["note"]
        assert "no node has 5 cores: the largest has 4, without the cores that are kept" in note
        instance.cancel_all()
