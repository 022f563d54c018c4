"""treepool's pool and flux-core's own in real instances: one inside the other, one after the other.

``fluxpools.py`` has what needs no instance.
"""

import json
import shlex

import pytest

from broker import Instance, key_of
from features import needs_tree_pool
from treepool.rfc import idset

pytestmark = needs_tree_pool

OURS, THEIRS = "TreePool", "flux.resource.TreePool"

#: In a sub-instance: take the pool class named, run a job, tell both Rs and whose pool it is.
INSIDE = """
set -e
flux module remove sched-simple
flux module load sched-simple pool-class=$1
job=$(flux submit --setattr=system.exec.test.run_duration=60s -n1 -c2 -g1 true)
flux job wait-event -q -t 20 $job alloc
whose=$(flux dmesg | grep -o 'pool-class=[A-Za-z]*' | tail -1)
flux kvs get resource.R | jq -c --arg pool "$whose" --argjson job "$(flux job info $job R)" \
    '{pool: $pool, R: ., job: $job}'
flux cancel --all
"""

FABRIC = {"cell": [{"name": "c0", "switch": [{"name": "s0", "ranks": "0"}]}]}


@pytest.fixture(scope="module")
def one_node():
    with Instance(1, 120, 8, {**key_of("rfc49-cluster-a"), "fabric": FABRIC}) as instance:
        yield instance


def content(R):
    """[cores, GPUs] of the only node of *R*, as bitmasks."""
    (entry,) = R["execution"]["R_lite"]
    return [idset.decode(entry["children"][kind]) for kind in ("core", "gpu")]


@pytest.mark.parametrize(("outer", "inner"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_an_instance_of_one_pool_runs_inside_an_instance_of_the_other(
    one_node, tmp_path, outer, inner
):
    one_node.load("sched-simple", f"pool-class={outer}")
    script = tmp_path / "inside.sh"
    script.write_text(INSIDE)
    command = f"flux alloc -n2 -c4 -g1 --conf=resource.noverify=true sh {script} {inner}"
    said = one_node.flux(
        "python", "-c", f"import subprocess; subprocess.run({shlex.split(command)!r})", timeout=120
    )
    told = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert told["pool"] == f"pool-class={'treepool' if inner == OURS else 'TreePool'}"
    whole, part = content(told["R"]), content(told["job"])
    assert list(map(idset.size, whole + part)) == [8, 2, 2, 1]
    assert all(p & ~w == 0 for p, w in zip(part, whole))


@pytest.mark.parametrize(("first", "then"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_jobs_of_one_pool_are_kept_when_the_other_takes_over(one_node, first, then):
    one_node.load("sched-simple", f"pool-class={first}")
    job = one_node.submit("-n2", "-c3", "-g1")
    before = content(one_node.R(job))
    one_node.load("sched-simple", f"pool-class={then}")
    assert one_node.resources("allocated") == (1, 6, 2)
    after = content(one_node.R(one_node.submit("-n6", "-c15", "-g1")))
    assert one_node.state(job) == "R"
    assert [b & a for b, a in zip(before, after)] == [0, 0]
    one_node.cancel_all()
    assert one_node.resources("free") == (1, 120, 8)
