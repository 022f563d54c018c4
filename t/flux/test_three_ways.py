"""The README's blocks that are for Flux: run as they stand, they print what stands there."""

import os
import shlex
import subprocess
import sys

import pytest

from broker import PATIENCE, REPOSITORY, bare
from documents import blocks, lines

README = (REPOSITORY / "README.md").read_text()

#: The commands up to the instance, and those inside it.
OUTSIDE, *INSIDE = (block for block in blocks(README) if block.startswith(("$ jq", "$ flux")))


def commands(block):
    """The commands of *block*, each on one line."""
    one_line = block.replace("\\\n", "").splitlines()
    return [line[2:] for line in one_line if line.startswith("$ ")]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each block inside the instance prints, with its commands."""
    here = tmp_path_factory.mktemp("three")
    (here / "testvectors").symlink_to(REPOSITORY / "testvectors")
    treepool = here / "treepool"
    python = f"PYTHONPATH={REPOSITORY} exec {shlex.quote(sys.executable)} -m treepool"
    treepool.write_text(f'#!/bin/sh\n{python} "$@"\n')
    treepool.chmod(0o755)
    *before, start = commands(OUTSIDE)
    steps = ["echo BEGIN"]
    for number, block in enumerate(INSIDE):
        for command in commands(block):
            steps += [f"echo {shlex.quote(f'$ {command}')}", command]
        steps.append(f"echo END {number}")
    (here / "inside.sh").write_text("\n".join(steps))
    kept = bare()
    done = subprocess.run(
        ["sh", "-ec", "\n".join([*before, f"{start} sh -e inside.sh"])],
        cwd=here,
        env={**kept, "PATH": f"{here}:{os.environ['PATH']}", "HOME": str(here)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    texts, rest = [], done.stdout.partition("BEGIN\n")[2]
    for number in range(len(INSIDE)):
        text, _, rest = rest.partition(f"END {number}\n")
        texts.append(text)
    return texts


@pytest.mark.parametrize(
    "way", range(3), ids=["pool-class of sched-simple", "sched-treepool", "sub-instance"]
)
def test_a_way_to_load_it_prints_what_the_readme_shows(said, way):
    assert lines(said[way]) == lines(INSIDE[way].replace("\\\n", ""))


def test_the_readme_shows_three_ways():
    assert len(INSIDE) == 3
    assert [block.count("resource_summary") for block in INSIDE] == [1, 1, 1]
