"""Whether the state machine (t/placement/machine.py) notices bugs that are planted one at a time.

The bounds and ties of policy packing are rare in random histories: their own tests come first.

Each is planted in a copy of the tree in a temporary folder, which is gone afterwards however this
ends. Exits 1 if one is not noticed, or does not fit the source any more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

from planted import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]

#: What the machine needs of the tree.
NEEDED = (
    "treepool",
    "schemas",
    "testvectors",
    "t/placement",
    "t/conftest.py",
    "t/depth.py",
    "t/work.py",
    "pyproject.toml",
)

#: The first of its parts, each of which does its part of all steps.
PARTS = 8
FIRST = "t/placement/test_usable.py"
TEST = "t/placement/test_machine.py::test_no_operation_in_any_order_breaks_a_promise[0]"


class Result(NamedTuple):
    """Whether the machine failed, after how many steps, and on what."""

    failed: bool
    steps: int
    error: str


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser("t/mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="bugs whose names have this in them (all)")
    parser.add_argument("--steps", type=int, default=40_000, help="at most, for each (%(default)s)")
    chosen = parser.parse_args()
    mutants = [m for m in MUTANTS if not chosen.names or any(n in m.name for n in chosen.names)]
    caught = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(partial(tested, steps=chosen.steps), [None, *mutants])
        plain = next(results)
        if plain.failed:
            print(f"the tree fails as it is: {plain.error}")
            return 1
        print(f"{plain.steps:>6} steps  passes  the tree as it is", flush=True)
        for mutant, result in zip(mutants, results):
            found = "caught" if result.failed else "LIVES"
            print(f"{result.steps:>6} steps  {found:6}  {mutant.name}  {result.error}", flush=True)
            caught += result.failed
    print(f"{caught} of {len(mutants)} planted bugs were caught")
    return 0 if caught == len(mutants) else 1


def tested(mutant: Optional[Mutant], steps: int) -> Result:
    """What the machine finds in a copy of the tree with *mutant* planted in it."""
    with tempfile.TemporaryDirectory(prefix="treepool-mutant-") as name:
        copy = Path(name)
        for item in NEEDED:
            source, target = ROOT / item, copy / item
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if mutant is not None:
            mutant.plant(copy / "treepool" / "placement")
        depth = ("--hypothesis-profile=mutants", f"--steps={PARTS * steps}")
        options = ("-q", "-s", "-x", "-p", "no:cacheprovider", *depth)
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, FIRST, TEST],
            cwd=copy,
            capture_output=True,
            text=True,
        )
    done = re.search(r"(\d+) steps:", run.stdout)
    if run.returncode not in (0, 1) or (done is None and run.returncode == 0):
        raise SystemExit(f"pytest did not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    errors = re.findall(
        r"^(?:E  |  \+---|\s*\| ) *(\w*(?:Error|Conflict|Invalid\w+)\b.*)", run.stdout, re.M
    )
    return Result(
        run.returncode == 1, int(done[1]) if done else 0, errors[-1][:80] if errors else ""
    )


if __name__ == "__main__":
    sys.exit(main())
