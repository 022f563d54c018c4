"""Whether the tests notice bugs that are planted one at a time, each by those that are to.

Each is planted in a copy of the tree in a temporary folder, which is gone afterwards however this
ends. Prints a Markdown row for each. Exits 1 if one is not noticed, or does not fit the source any
more. Where there is no Flux, the bugs that need it are left out, and it says so.
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

from planted import ROOMS, Mutant
from tests import OF_FLUX, PARTS, TESTS

ROOT = Path(__file__).resolve().parents[2]

#: What the tests need of the tree.
NEEDED = ("treepool", "schemas", "testvectors", "t", "TreePool.py", "pyproject.toml", "README.md")

#: Seconds after which a planted bug is given up: the machine is busy, or a test does not end.
MOST_SECONDS = 900


class Result(NamedTuple):
    """Whether a test failed, which, in what it ended, and after how many steps of a machine."""

    failed: bool
    test: str
    error: str
    steps: str


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser("t/mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="rooms, or parts of names (all)")
    parser.add_argument("--steps", type=int, default=40_000, help="of the machine (%(default)s)")
    parser.add_argument("--parallel", type=int, default=os.cpu_count(), help="at a time")
    chosen = parser.parse_args()
    every = [(room, mutant) for room, mutants in ROOMS.items() for mutant in mutants]
    wanted = [
        (room, mutant)
        for room, mutant in every
        if not chosen.names
        or any(n == room or (n not in ROOMS and n in mutant.name) for n in chosen.names)
    ]
    mutants = [(room, m) for room, m in wanted if shutil.which("flux") or m.test not in OF_FLUX]
    if len(mutants) < len(wanted):
        print(f"no flux on the PATH: {len(wanted) - len(mutants)} bugs are NOT tried")
    caught = 0
    with ThreadPoolExecutor(chosen.parallel) as pool:
        results = pool.map(partial(tested, steps=chosen.steps), [m for _, m in mutants])
        print("| room | planted bug | noticed by |\n|---|---|---|", flush=True)
        for (room, mutant), result in zip(mutants, results):
            by = f"{result.test} {result.steps}".strip() if result.failed else "**NOBODY**"
            print(f"| {room} | {mutant.name} | {by} |", flush=True)
            if result.error:
                print(f"{mutant.name}: {result.error}", file=sys.stderr, flush=True)
            caught += result.failed
    print(f"{caught} of {len(mutants)} planted bugs were caught")
    return 0 if caught == len(mutants) else 1


def tested(mutant: Optional[Mutant], steps: int) -> Result:
    """What the tests find in a copy of the tree with *mutant* planted in it."""
    with tempfile.TemporaryDirectory(prefix="treepool-mutant-") as name:
        copy = Path(name)
        for item in NEEDED:
            source, target = ROOT / item, copy / item
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if mutant is not None:
            mutant.plant(copy / "treepool")
        profile = "check" if mutant and mutant.test in OF_FLUX else "mutants"
        depth = (f"--hypothesis-profile={profile}", f"--steps={PARTS * steps}")
        options = ("-q", "-s", "-x", "-p", "no:cacheprovider", *depth)
        tests = TESTS[mutant.test] if mutant else [t for some in TESTS.values() for t in some]
        try:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=copy,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Result(False, "", f"not judged in {MOST_SECONDS} s", "")
    failed = re.search(r"^(?:FAILED|ERROR) t/(\S+)", run.stdout, re.M)
    if run.returncode not in (0, 1) and failed is None:
        raise SystemExit(f"pytest did not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    done = re.search(r"(\d+) steps:", run.stdout)
    seed = re.search(r"(\w+ \d+) fails", run.stdout)
    note = f"({done[1]} steps)" if done else f"({seed[1]})" if seed else ""
    errors = re.findall(
        r"^(?:E  |  \+---|\s*\| ) *(\w*(?:Error|Conflict|Invalid\w+)\b.*)", run.stdout, re.M
    )
    return Result(
        run.returncode != 0, failed[1] if failed else "", errors[-1][:80] if errors else "", note
    )


if __name__ == "__main__":
    sys.exit(main())
