"""doc/developer.md, CONTRIBUTING: what they name exists, and a job takes the way that is shown."""

import ast
import importlib
import json
import re
import sys
import time

import pytest

from commandline import REPOSITORY
from documents import blocks
from treepool import Pool, parse_shape
from treepool.placement.plan.queue import Queue

GUIDE = (REPOSITORY / "doc" / "developer.md").read_text()
SOURCE = REPOSITORY / "treepool"

CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text()

#: What both pages name as `file.py: Name` or `file.py: Class.method`.
NAMED = list(
    dict.fromkeys(re.findall(r"`(?:treepool/)?([\w/]+\.py): ([\w.]+)`", GUIDE + CONTRIBUTING))
)

#: Those on the way of a job to its R that need no Flux, in order.
WALK = GUIDE.partition("## One job")[2].partition("Other ways")[0]
STEPS = [
    (file, name)
    for file, name in re.findall(r"`((?:rfc|placement)/[\w/]+\.py): ([\w.]+)`", WALK)
    if "heck" not in name  # feasibility has a pool of its own, in which it takes the same way
]

#: Jobs that together take each step of the way: where, and how they are asked for.
JOBS = [
    ("doc/kubernetes.json", "node/slot=4/[core=8;gpu=1]"),
    ("doc/nodes/pairs.json", "slot/[core=2;gpu=2]"),
]


def names_in(tree):
    """The constants, functions, classes and methods of a module."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}"


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_function_of_the_guide_exists(file, name):
    assert name in names_in(ast.parse((SOURCE / file).read_text()))


def test_the_vector_of_contributing_is_one():
    (shown,) = map(json.loads, blocks(CONTRIBUTING, "json"))
    file = json.loads((REPOSITORY / "testvectors" / "treepool-first-fit.json").read_text())
    assert shown in file["vectors"]


def code_of(file, name):
    """The code that runs when the function is called, or the class is made."""
    module = importlib.import_module("treepool." + file[:-3].replace("/", "."))
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, type):
        found = found.__init__
    return getattr(found, "__code__", None) or found.__func__.__code__


class Launcher:
    """Makes the R of a job that starts."""

    def started(self, job, allocation):
        allocation.to_dict()


def place(cluster, shape):
    """Take a job of *shape* from its jobspec to its R, in a new pool of *cluster*."""
    system = {"duration": 60}
    jobspec = {"version": 1, "resources": parse_shape(shape), "attributes": {"system": system}}
    pool = Pool(json.loads((REPOSITORY / cluster).read_text()))
    request = pool.parse_resource_request({**jobspec, "tasks": []})
    queue = Queue(pool, Launcher(), time.time)
    queue.add(queue.plan.kinds.waiting(1, 16, request, frozenset(), "", 0.0, time.time()))
    for _ in queue.run():
        pass
    assert not queue.jobs


def steps_of(cluster, shape):
    """Those of STEPS that the job takes, in the order in which they begin."""
    codes = {code_of(*step): step for step in STEPS}
    taken = []

    def note(frame, event, _):
        step = codes.get(frame.f_code)
        if event == "call" and step is not None and step not in taken:
            taken.append(step)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        place(cluster, shape)
    finally:
        sys.setprofile(before)
    return taken


@pytest.fixture(scope="module")
def walks():
    """The steps that each of JOBS takes."""
    return [steps_of(*job) for job in JOBS]


def test_the_walk_is_in_order(walks):
    for taken in walks:
        assert len(taken) > 15
        assert taken == [step for step in STEPS if step in taken]


def test_every_step_is_taken(walks):
    assert set(STEPS) == {step for taken in walks for step in taken}


@pytest.mark.parametrize("folder", ["placement/plan", "flux"])
def test_every_file_of_a_table_of_files_is_in_it(folder):
    title = {"placement/plan": "## The plan", "flux": "## The files of treepool/flux"}[folder]
    table = GUIDE.partition(title)[2].partition("\n## ")[0].partition("###")[0]
    found = set(re.findall(r"`(\w+\.py)`", table))
    there = {path.name for path in (SOURCE / folder).glob("*.py")} - {"__init__.py"}
    assert found - there == set()
    assert there - found == set()
