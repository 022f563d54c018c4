"""``treepool demo``: one command starts nodes on which jobs run, quietly, and nothing is left."""

import json
import os
import re
import subprocess
import sys

import pytest

from broker import REPOSITORY, bare
from documents import blocks

#: What somebody types there; each line of output says what it is the answer of.
TYPED = """
flux resource list -s up -no 'nodes {nnodes} {ncores} {ngpus}' -q batch,debug
echo jobs $(flux jobs -no '{status}' --count=0 | sort -u)
flux run --queue=debug -N2 -n2 -c4 flux treepool bind -- sh -c 'echo runs $(flux getattr hostname)'
flux treepool explain --job $(flux jobs -no '{id}' -f pending | head -n 1) | sed 's/^/waits /'
flux queue list -no 'queue {queue}'
ls $TMPDIR/*/now.html
exit 7
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    guide = (REPOSITORY / "doc" / "fabric.md").read_text().partition("## Nodes to try it on")[2]
    (command,) = re.findall("^treepool demo -- (.*)$", blocks(guide, "sh")[0], re.M)
    (folder / "typed.sh").write_text(f"{command} | sed 's/^/guide /'\n{TYPED}")
    done = subprocess.run(
        [sys.executable, "-m", "treepool", "demo", "--", "sh", folder / "typed.sh"],
        env={**bare(), "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    (folder / "typed.sh").unlink()
    return done, folder


def lines(demo, what):
    rows = (line.partition(" ") for line in demo[0].stdout.splitlines())
    return [rest for first, _, rest in rows if first == what]


def test_it_has_32_nodes_two_queues_and_jobs_that_run_and_wait(demo):
    rows = [list(map(int, row.split())) for row in lines(demo, "nodes")]
    assert [sum(column) for column in zip(*rows)] == [32, 3072, 128]
    assert sorted(lines(demo, "queue")) == ["batch", "debug"]
    assert lines(demo, "jobs") == ["RUN SCHED"]
    assert ": waits: " in lines(demo, "waits")[0]


def test_tasks_run_on_its_nodes_and_nothing_complains(demo):
    assert sorted(lines(demo, "runs")) == sorted(lines(demo, "guide")) == ["n30", "n31"]
    assert "ERROR" not in demo[0].stderr and "WARN" not in demo[0].stderr
    (note,) = (line for line in demo[0].stderr.splitlines() if "bind" in line)
    assert note == "treepool bind: the nodes of the demo have no cores: tasks are not bound"


def test_it_says_where_the_page_is_and_what_to_ask(demo):
    (page,) = (line for line in demo[0].stdout.splitlines() if line.endswith("now.html"))
    assert f"file://{page}" in demo[0].stderr
    assert demo[0].stderr.count("flux treepool ") == 2
    assert "flux submit --test-only " in demo[0].stderr


def test_its_status_is_that_of_the_command_and_nothing_is_left(demo):
    done, folder = demo
    assert done.returncode == 7
    assert os.listdir(folder) == []


def test_its_nodes_are_those_of_the_guides():
    """Whoever reads a guide finds these nodes, queues and properties in the demo."""
    demo = json.loads((REPOSITORY / "treepool" / "flux" / "demo" / "R.json").read_text())
    guide = json.loads((REPOSITORY / "doc" / "fabric.json").read_text())
    assert demo["scheduling"]["fabric"] == guide["scheduling"]["fabric"]
    for name in ("R_lite", "nodelist"):
        assert demo["execution"][name] == guide["execution"][name]
