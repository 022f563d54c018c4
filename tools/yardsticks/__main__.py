"""LLNL's own scheduler benchmark, flux-schedbench, under schedulers of Flux: ``make yardsticks``.

    .venv/bin/python tools/yardsticks [--repeat N] [--nodes N,N,...] [--only WORD]

Each row is a run of ``flux schedbench`` on fake nodes in an instance of its own, once for each
scheduler, and all of that ``--repeat`` times: prints medians. What is not installed is not
measured. ``--nodes`` adds rows of throughput on machines of so many nodes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "t")]

from broker import environment, installed  # noqa: E402

REPOSITORY = HERE.parents[1]

#: Where ``make`` puts flux-schedbench.
BENCHMARK = REPOSITORY / "build/schedbench"

#: Output of hwloc on real nodes.
HWLOC = REPOSITORY.parent / "shared/hwloc"

#: Seconds until a run is given up.
PATIENCE = 900

#: What ``flux schedbench`` is: its part of the package ``flux`` is not where flux-core's is.
COMMAND = """#!/usr/bin/env -S flux python
import runpy
import flux
flux.__path__.append({folder!r})
runpy.run_path({script!r}, run_name="__main__")
"""

#: Name, scheduler, what gives R its key.
SCHEDULERS = (
    ("sched-simple", "sched-simple", None),
    ("sched-simple, flux-core's TreePool", "sched-simple", "flux.resource.TreePool:amend"),
    ("Fluxion", "sched-fluxion-qmanager", str(HERE / "graph.py")),
    ("treepool", "sched-treepool", str(installed() / "lib/treepool/treepool/flux/amend.py")),
)

#: Name, the hwloc output of the node or None, the figure, arguments.
ROWS = (
    ("throughput, 128 nodes, 1,000 jobs: jobs/s", None, "throughput",
     ("throughput", "--nodes=128", "--njobs=1000")),
    ("fill-machine, 64 x 16 cores: allocations/s", None, "alloc_rate",
     ("fill-machine", "--nodes=64", "--cores-per-node=16", "--gpus-per-node=0")),
    ("locality, corona, 2 x [4 cores, 1 GPU], 200 jobs", "corona.xml", "mean_locality_score",
     ("locality", "--nodes=16", "--njobs=200", "--nslots=2", "--slot-cores=4", "--slot-gpus=1")),
    ("locality, tuo.SPX, 2 x [11 cores, 1 GPU], 150 jobs", "tuo.SPX.xml", "mean_locality_score",
     ("locality", "--nodes=16", "--njobs=150", "--nslots=2", "--slot-cores=11", "--slot-gpus=1")),
    ("locality, tuo.SPX, 3 x 9 cores, 150 jobs", "tuo.SPX.xml", "mean_locality_score",
     ("locality", "--nodes=16", "--njobs=150", "--nslots=3", "--slot-cores=9")),
)  # fmt: skip


def run(scheduler, amend, xml, words, env):
    """The figures of one run of ``flux schedbench``; raises CalledProcessError with its errors."""
    words = [*words, f"--scheduler={scheduler}", f"--conf=modules.alternatives.sched={scheduler}"]
    if amend and (xml or scheduler == "sched-fluxion-qmanager"):
        words.append(f"--amend-r={amend}")
    if xml:
        words.append(f"--hwloc-xml-path={HWLOC / xml}")
    told = subprocess.run(
        ["flux", "schedbench", "run", *words, "--no-save", "--quiet"],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    return json.loads(told.splitlines()[-1])


def rows_of(nodes):
    """ROWS that can be measured here, and a row of throughput for each number in *nodes*."""
    for name, xml, figure, words in ROWS:
        if xml is None or (HWLOC / xml).exists():
            yield name, xml, figure, words
        else:
            print(f"{name}: not measured: no {xml}", file=sys.stderr)
    for number in nodes:
        name = f"throughput, {number:,} nodes, 1,000 jobs: jobs/s"
        yield name, None, "throughput", ("throughput", f"--nodes={number}", "--njobs=1000")


def measure(rows, repeat, env):
    """{row: {scheduler: figures}}; the schedulers take turns."""
    found = {name: {scheduler: [] for scheduler, *_ in SCHEDULERS} for name, *_ in rows}
    for _ in range(repeat):
        for name, xml, figure, words in rows:
            for title, scheduler, amend in SCHEDULERS:
                try:
                    figures = run(scheduler, amend, xml, words, env)
                except subprocess.SubprocessError as e:
                    said = (getattr(e, "stderr", "") or str(e)).strip().splitlines()
                    print(f"{name}: {title}: not measured: {'; '.join(said[-2:])}", file=sys.stderr)
                else:
                    found[name][title].append(figures[figure])
    return found


def main():
    """Measure; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--nodes", default="", help="1152,11136: more rows of throughput")
    parser.add_argument("--only", default="", help="rows with this in their name")
    arguments = parser.parse_args()
    nodes = [int(number) for number in arguments.nodes.split(",") if number]
    rows = [row for row in rows_of(nodes) if arguments.only in row[0]]
    with tempfile.TemporaryDirectory() as folder:
        (script,) = BENCHMARK.glob("**/flux-schedbench.py")
        command = Path(folder, "flux-schedbench")
        command.write_text(COMMAND.format(folder=str(BENCHMARK / "flux"), script=str(script)))
        command.chmod(0o755)
        env = environment()
        del env["FLUX_MODPROBE_PATH"]  # Fluxion's modules are named there
        env["FLUX_EXEC_PATH_PREPEND"] = f"{folder}:{env['FLUX_EXEC_PATH_PREPEND']}"
        found = measure(rows, arguments.repeat, env)
    print("|", " | ".join(("flux-schedbench", *(title for title, *_ in SCHEDULERS))), "|")
    print("|---|" + "--:|" * len(SCHEDULERS))
    for name, of_row in found.items():
        digits = 2 if "locality" in name else 0
        medians = (
            f"{statistics.median(many):.{digits}f}" if many else "" for many in of_row.values()
        )
        print("|", " | ".join((name, *medians)), "|")


if __name__ == "__main__":
    main()
