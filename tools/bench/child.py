"""One cluster size measured in a process of its own, so that its peak memory is its own.

``python -m bench.child PLAN`` is the measuring side: it reads a plan as JSON and writes
lines of JSON, each progress, the result, or an error. ``carry_out`` is the other side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterable, Optional

import attrs

import treepool
from bench.measure import Plan, Progress, measure
from bench.results import SizeResult
from treepool.cli.screen import DONE, NO, USAGE, Stop, out

_MODULE = "bench.child"


def carry_out(plan: Plan, report: Callable[[Progress], None]) -> SizeResult:
    """The result of *plan*, carried out by a new process; raises Stop if that cannot do it."""
    command = [sys.executable, "-m", _MODULE, json.dumps(attrs.asdict(plan))]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, env=_environment(), text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            result = _read(process.stdout, report)
        finally:
            process.kill()  # which does nothing to one that has ended by itself
            process.wait()
        if result is None:
            complaints.seek(0)
            raise Stop(_why(plan, process.returncode, complaints.read()))
    return result


def _read(lines: Iterable[str], report: Callable[[Progress], None]) -> Optional[SizeResult]:
    for line in lines:
        value = json.loads(line)
        if "error" in value:
            raise Stop(value["error"])
        if "result" in value:
            return SizeResult.read(value["result"])
        report(Progress(**value["progress"]))
    return None


def _why(plan: Plan, status: int, complaints: bytes) -> str:
    """What to say of a process that ended with *status* and no result."""
    last = (complaints.decode(errors="replace").strip().splitlines() or [f"status {status}"])[-1]
    if status < 0:
        last = f"signal {-status}; was there enough memory?"
    return f"{plan.nodes} nodes: the measuring process ended early: {last}"


def _environment() -> dict[str, str]:
    """This process's environment, with which the new one finds the same treepool and benchmark."""
    folders = [str(Path(__file__).parents[1]), str(Path(treepool.__file__).parents[1])]
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *([path] if path else [])])}


def _main() -> int:
    if len(sys.argv) != 2:
        return USAGE
    plan = Plan(**json.loads(sys.argv[1]))
    try:
        for found in measure(plan):
            kind = "progress" if isinstance(found, Progress) else "result"
            _say(**{kind: attrs.asdict(found)})
    except (ImportError, MemoryError) as e:
        message = str(e) if isinstance(e, ImportError) else f"{plan.nodes} nodes: out of memory"
        _say(error=message)
        return NO
    return DONE


def _say(**line: object) -> None:
    out(json.dumps(line))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(_main())
