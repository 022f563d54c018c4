"""All targets under the coverage-guided fuzzer: ``python long.py SECONDS [TARGET...]``.

SECONDS is for each target. After each a line: inputs, outcomes, the slowest; at the end the sum.
Exit status 1 if any misbehaved; the inputs are then in ``found``.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "t"), str(HERE.parents[1])]

from fuzz.targets import TARGETS  # noqa: E402


def main():
    seconds, names = sys.argv[1], sys.argv[2:] or list(TARGETS)
    bad = inputs = 0
    for name in names:
        report = HERE / "found" / f"{name}.json"
        if report.exists():
            report.unlink()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(HERE / "guided.py"), name, seconds],
                env={**os.environ, "TMPDIR": folder},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        if done.returncode or not report.exists():
            print(f"{name}: the fuzzer ended with status {done.returncode}", flush=True)
            print(done.stderr[-2000:])
            bad += 1
            continue
        figures = json.loads(report.read_text())
        outcomes = ", ".join(f"{n:,} {what}" for what, n in sorted(figures["outcomes"].items()))
        print(
            f"{name}: {figures['inputs']:,} inputs in {figures['seconds']} s "
            f"(slowest {figures['slowest']} s): {outcomes}",
            flush=True,
        )
        bad += figures["misbehaved"]
        inputs += figures["inputs"]
    print(f"{inputs:,} inputs to {len(names)} targets, {bad} misbehaved")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(print(__doc__) if "--help" in sys.argv else main())
