"""Tests of flux-core and flux-sched, which are shell programs, run as they are."""

import re
import subprocess
from pathlib import Path


def run(folder, name, root, env):
    """The steps that failed of the test *name* in *folder*, and how many there were.

    *root* is where it works.
    """
    done = subprocess.run(
        [f"./{name}.t", "--verbose", f"--root={root}"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
    )
    Path(folder, f"{name}.broker.log").unlink(missing_ok=True)
    plan = re.search(r"^1\.\.(\d+)$", done.stdout, re.MULTILINE)
    assert plan, done.stdout[-3000:]
    return re.findall(r"^not ok \d+ - (.*)$", done.stdout, re.MULTILINE), int(plan[1])
