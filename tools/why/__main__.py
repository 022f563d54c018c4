"""Why treepool: the same jobs under schedulers of Flux, in real brokers: ``make why``.

    .venv/bin/python tools/why [--nodes N] [--jobs N] [--seed N] [--out DIR]

Nodes are fake: four NUMA domains of 16 cores and two GPUs, eight nodes below a switch. Execution is
simulated, in real time. Jobs come at random, and ask for nine tenths of the GPUs. Prints a table
and writes a figure. Fluxion is measured where it is installed.
"""

import argparse
import json
import math
import random
import resource
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "t"), str(HERE.parents[1])]

from judge import Run  # noqa: E402

from broker import Failed, Instance  # noqa: E402

DOMAINS, CORES, GPUS, SWITCH = 4, 16, 2, 8

#: The share of the GPUs that jobs ask for.
LOAD = 0.9

#: GPUs of a *large* job: those of a node.
LARGE = DOMAINS * GPUS

#: Weight, nodes (0: any), tasks, cores of a task, GPUs of a task.
MIX = (
    (26, 0, 1, 8, 1), (14, 0, 2, 8, 1), (10, 0, 4, 8, 1),
    (8, 1, 8, 8, 1), (5, 2, 16, 8, 1), (4, 4, 32, 8, 1), (2, 8, 64, 8, 1),
    (13, 0, 1, 4, 0), (10, 0, 1, 12, 0), (8, 0, 1, 24, 0),
)  # fmt: skip

#: Name, whether R has a key, the modules to load.
SCHEDULERS = (
    ("Flux, flat pool", False, (("sched-simple",),)),
    ("flux-core's TreePool", True, (("sched-simple", "pool-class=flux.resource.TreePool"),)),
    ("Fluxion, easy", False, (("sched-fluxion-resource", "load-allowlist=node,core,gpu"),
                              ("sched-fluxion-qmanager", "queue-policy=easy"))),
    ("treepool, fifo", True, (("sched-treepool", "policy=fifo"),)),
    ("treepool, easy", True, (("sched-treepool", "policy=easy"),)),
)  # fmt: skip

#: Run by Flux's Python: submits the jobs of stdin at their times, and prints what became of each.
DRIVER = """
import json, sys, time
import flux, flux.job
from flux.job import JobspecV1, submit_async
from flux.job.kvslookup import job_info_lookup

handle, began, futures = flux.Flux(), time.time(), []
for at, seconds, limit, nodes, tasks, cores, gpus in json.load(sys.stdin):
    spec = JobspecV1.from_command(
        ["true"], num_tasks=tasks, cores_per_task=cores, gpus_per_task=gpus or None,
        num_nodes=nodes or None,
    )
    spec.duration = limit
    spec.setattr("system.exec.test", {"run_duration": f"{seconds}s"})
    time.sleep(max(0, began + at - time.time()))
    futures.append((cores, submit_async(handle, spec)))
jobs = []
for cores, future in futures:
    job = future.get_id()
    times = {}
    for event in flux.job.event_watch(handle, job):
        times[event.name] = event.timestamp
    found = job_info_lookup(handle, job, keys=["R"]).get_decode()
    lite = found["R"]["execution"]["R_lite"]
    times = {"submit": times["submit"], "alloc": times["alloc"], "free": times["free"]}
    jobs.append({**times, "R_lite": lite, "cores": cores})
print(json.dumps(jobs))
"""


def trace(nodes, number, seed):
    """The jobs: when, for how long, the limit, nodes, tasks, cores and GPUs of a task."""
    rng = random.Random(seed)
    jobs, gpu_seconds = [], 0.0
    for _ in range(number):
        ((_, on, tasks, cores, gpus),) = rng.choices(MIX, [row[0] for row in MIX])
        seconds = round(min(30.0, max(1.0, rng.lognormvariate(math.log(5), 0.8))), 2)
        jobs.append([seconds, math.ceil(seconds * rng.uniform(1, 3)) + 1, on, tasks, cores, gpus])
        gpu_seconds += seconds * tasks * gpus
    span = gpu_seconds / (LOAD * nodes * DOMAINS * GPUS)
    times = sorted(rng.uniform(0, span) for _ in jobs)
    return [[round(at, 2), *job] for at, job in zip(times, jobs)]


def key_of(nodes):
    """The scheduling key of the nodes."""
    numa = [{"cores": _ids(i * CORES, CORES), "gpus": _ids(i * GPUS, GPUS)} for i in range(DOMAINS)]
    switches = [{"ranks": _ids(i, SWITCH)} for i in range(0, nodes, SWITCH)]
    children = [{"ranks": _ids(0, nodes), "topo": {"numa": numa}}]
    return {"writer": "TreePool", "children": children, "fabric": {"switch": switches}}


def _ids(first, number):
    return f"{first}-{first + number - 1}"


def measure(nodes, jobs, keyed, modules):
    """The run of *jobs*, and the CPU seconds of its instance."""
    before = _children()
    with Instance(nodes, DOMAINS * CORES, LARGE, key_of(nodes) if keyed else None) as instance:
        first, *others = modules
        instance.load(*first)
        for words in others:
            instance.flux("module", "load", *words)
        told = instance.flux("python", "-c", DRIVER, stdin=json.dumps(jobs), timeout=3600)
    found = json.loads(told)
    return Run(found, nodes, DOMAINS, CORES, GPUS, SWITCH), _children() - before


def _children():
    """CPU seconds of all processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


COLUMNS = (
    "tasks with a core in another NUMA domain than their GPU, %",
    "jobs of several nodes below more switches than needed, %",
    f"jobs of {LARGE} GPUs or more that waited though enough GPUs and cores were free, %",
    "mean wait, s",
    "CPU of the instance, ms a job",
)


def row(run, cpu):
    """The numbers of a run, in the order of COLUMNS."""
    shares = (run.apart(), run.scattered(), run.fragmented(LARGE))
    return (*(100 * share for share in shares), run.wait(), 1e3 * cpu / len(run.jobs))


def draw(rows, path):
    """The first four columns as bars."""
    from matplotlib.figure import Figure

    from treepool.cli import plots

    with plots.style():
        figure = Figure(figsize=(11, 2.6), layout="constrained")
        titles = ("GPU away from the cores,\n% of tasks", "too many switches,\n% of jobs",
                  "large jobs kept waiting\nby fragments, %", "mean wait, s")  # fmt: skip
        names = [name for name, _ in rows]
        for place, (axes, title) in enumerate(zip(figure.subplots(1, 4, sharey=True), titles)):
            values = [numbers[place] for _, numbers in rows]
            colours = ["C0" if name.startswith("treepool") else "0.65" for name in names]
            bars = axes.barh(names, values, color=colours)
            axes.bar_label(bars, fmt="%.1f", padding=2)
            axes.set_title(title)
            axes.set_xlim(0, max(1.0, 1.25 * max(values)))
            axes.grid(visible=False)
            axes.set_xticks([])
        axes.invert_yaxis()
        plots.write(figure, path)


def main():
    """Measure all schedulers; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build"))
    arguments = parser.parse_args()
    jobs = trace(arguments.nodes, arguments.jobs, arguments.seed)
    rows = []
    print("| scheduler |", " | ".join(COLUMNS), "|")
    print("|---|" + "--:|" * len(COLUMNS))
    for name, keyed, modules in SCHEDULERS:
        try:
            numbers = row(*measure(arguments.nodes, jobs, keyed, modules))
        except Failed as e:
            print(f"{name}: not measured: {str(e).splitlines()[-1]}", file=sys.stderr)
            continue
        rows.append((name, numbers))
        print(f"| {name} |", " | ".join(f"{number:.1f}" for number in numbers), "|", flush=True)
    arguments.out.mkdir(exist_ok=True)
    draw(rows, arguments.out / "why.svg")


if __name__ == "__main__":
    main()
