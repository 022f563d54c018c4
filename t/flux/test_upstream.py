"""doc/upstream.md: each difference and each defect is still there; if one is gone, say so there."""

import json
import re
import subprocess

import pytest

from broker import REPOSITORY, environment
from documents import blocks
from features import needs_tree_pool

PAGE = (REPOSITORY / "doc" / "upstream.md").read_text()

#: What all scripts need, and for each title a script and what it prints.
(COMMON,) = (block for block in blocks(PAGE, "sh") if "allocated.py <<" in block)
SCRIPTS = {
    part.splitlines()[0]: re.search(
        r"^```sh\n(.*?)^```\n\n```\n(.*?)^```", part, re.M | re.S
    ).groups()
    for part in re.split(r"^##+ ", PAGE, flags=re.M)
    if "```sh" in part and COMMON not in part
}

#: A pass may not fall between two cancels, and no event into a pass: tried so often.
TRIES = 3

#: Prints what a pool of each kind gives to each shape of the table, as its first job.
COMPARE = """
import json, sys
from flux.resource.TreePool import TreePool as Theirs
import TreePool
from treepool import Pool as Ours, parse_shape

R, shapes = json.load(sys.stdin)
found = {}
for shape in shapes:
    spec = {"version": 1, "resources": parse_shape(shape), "attributes": {"system": {}},
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}]}
    spec["attributes"]["system"]["duration"] = 60
    found[shape] = []
    for kind in Theirs, Ours:
        pool = kind(R)
        if kind is Theirs:
            pool.mark_up("all")
        try:
            found[shape].append(pool.alloc(1, pool.parse_resource_request(spec)).dumps())
        except (OSError, ValueError) as e:
            found[shape].append(type(e).__name__)
print(json.dumps(found))
"""


def flux(*words, stdin="", cwd="/"):
    done = subprocess.run(
        words, input=stdin, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120
    )
    return done.stdout


def test_there_are_scripts():
    assert len(SCRIPTS) == len(blocks(PAGE, "sh")) - 1 > 6


@pytest.mark.depth
@pytest.mark.parametrize("script, expected", SCRIPTS.values(), ids=SCRIPTS)
def test_a_defect_is_still_there(script, expected, tmp_path):
    lines = [re.escape(line).replace(r"\.\.\.", ".*") for line in expected.splitlines()]
    pattern = "\n".join(lines).replace("\n.*\n", "\n(?:.*\n)*")
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        printed = flux("bash", "-c", COMMON + script, cwd=folder)
        if re.fullmatch(pattern, printed.strip("\n")):
            return
    raise AssertionError(printed)


@needs_tree_pool
def test_the_two_pools_differ_as_the_table_says():
    rows = re.findall(r"^\| `(\S+)` \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.M)
    assert rows
    vectors = json.loads((REPOSITORY / "testvectors" / "rfc49-cluster-b.json").read_text())
    question = json.dumps([vectors["cluster"]["R"], [shape for shape, *_ in rows]])
    found = json.loads(flux("flux", "python", "-c", COMPARE, stdin=question))
    assert found == {shape: [theirs, ours] for shape, theirs, ours in rows}
