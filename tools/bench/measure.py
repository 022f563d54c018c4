"""The benchmark of one cluster size: age a cluster, then time what a scheduler does to it.

Between two samples the workload moves on, untimed, so that a sample meets a pool that has changed
since the last one; "repeated" is without that, for comparison. Garbage collection stays on, as it
is in a scheduler. Memory is counted by the process, so each size wants one of its own.
"""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Protocol, Union

import attrs

from bench.peer import PeerPool, load
from bench.results import FormResult, SizeResult, Timing
from bench.workload import Workload, cluster, spec_of
from treepool.errors import InsufficientResources
from treepool.placement.pool import Pool

#: The largest cluster on which flux-core's pool is tried: there an allocation takes it 0.1 s.
LARGEST_FOR_PEER = 11_136

#: Jobs that start, and about as many that end, between two samples.
_CHURN = 2

#: Samples that are taken even if they last too long, but not if they last _FAR_TOO_LONG.
_FEWEST = 5

#: How many times the time there is.
_FAR_TOO_LONG = 4

#: Jobs that end, one by one, to make room for a sample.
_MOST_TO_END = 200

#: The id of the job that is timed.
_JOB = 2

#: Nanoseconds, of one operation each.
_Sample = tuple[int, ...]

_now = time.perf_counter_ns


@attrs.frozen
class Plan:
    """What to measure: see ``make bench BENCH=--help``; ``seconds`` is per form and pool."""

    nodes: int
    seed: int
    steps: int
    samples: int
    seconds: float
    peer: bool


@attrs.frozen
class Progress:
    """How much of a plan is done, 0 to 1, and what comes now."""

    done: float
    doing: str


@attrs.frozen
class Form:
    """A request form. Before each sample the large job is away, or every whole socket is taken,
    where the form needs that; when ``refused``, the answer must be no."""

    name: str
    shape: str
    refused: bool = False
    without_large: bool = False
    without_sockets: bool = False


class _AnyPool(Protocol):
    """What is common to treepool's pool and to flux-core's."""

    def parse_resource_request(self, spec: Mapping[str, Any]) -> Any: ...
    def check_feasibility(self, request: Any) -> None: ...
    def alloc(self, jobid: int, request: Any) -> Any: ...
    def free(self, jobid: int) -> None: ...
    def copy(self) -> Any: ...
    def mark_down(self, ids: str) -> None: ...
    def mark_up(self, ids: str) -> None: ...


def forms(nodes: int) -> list[Form]:
    """The request forms that are timed on a cluster of *nodes* nodes."""
    return [
        Form("gpu-slot", "slot/[core=8;gpu=1]"),
        Form("cpu-slot", "slot/core=4"),
        Form("socket", "slot/socket{x}"),
        Form("node", "slot/node{x}"),
        Form("hard-locality", "slot/socket/[core=4;gpu=1]"),
        Form("eight-nodes", "slot=8/node/core=8"),
        Form("quarter", f"slot={nodes // 4}/node{{x}}", without_large=True),
        Form("no-socket-free", "slot/socket{x}", refused=True, without_sockets=True),
        Form("too-large-now", f"slot={nodes // 2}/node{{x}}", refused=True),
    ]


def measure(plan: Plan) -> Iterator[Union[Progress, SizeResult]]:
    """Carry out *plan*: progress, and in the end the result.

    Raises ImportError, before anything else, if flux-core's pool is wanted and not there.
    """
    with_peer = plan.peer and plan.nodes <= LARGEST_FOR_PEER
    if plan.peer:
        load()
    began, cpu_began = time.perf_counter(), time.process_time()
    yield Progress(0, "construction")
    R = cluster(plan.nodes)
    budget = _Budget(plan)
    pool, construct = _construct(lambda: Pool(R), budget)
    workload = Workload(pool, plan.nodes, plan.seed, plan.steps)
    share = 0.3 if with_peer else 0.5
    for done in workload.age():
        yield Progress(share * done, "ageing")
    jobs, states = workload.jobs, workload.states
    cores_in_use, gpus_in_use = workload.in_use()
    wanted = forms(plan.nodes)
    found: list[FormResult] = []
    step = (1 - share) / (len(wanted) * (1 + with_peer))
    for i, form in enumerate(wanted):
        yield Progress(share + i * step, form.name)
        result = _form(form, pool, workload, budget)
        assert result is not None, (
            f"{form.name} was to be {'refused' if form.refused else 'served'}"
        )
        found.append(result)
    timings = {"construct": construct, **_pool_timings(pool, workload, budget)}
    peak_memory = _peak_memory()
    peer_timings: Optional[dict[str, Timing]] = None
    if with_peer:
        yield Progress(0.65, "peer: construction")
        peer, construct = _construct(lambda: PeerPool(R), budget)
        workload.attach(peer)
        for i, form in enumerate(wanted):
            yield Progress(0.65 + i * step, f"peer: {form.name}")
            of_peer = _form(form, peer, workload, budget)
            if of_peer is not None:
                found[i] = attrs.evolve(found[i], peer=of_peer.timings)
        peer_timings = {"construct": construct, **_pool_timings(peer, workload, budget)}
    yield Progress(1, "done")
    yield SizeResult(
        nodes=plan.nodes,
        seed=plan.seed,
        steps=workload.steps,
        jobs=jobs,
        states=states,
        cores_in_use=cores_in_use,
        gpus_in_use=gpus_in_use,
        peak_memory=peak_memory,
        cpu_share=(time.process_time() - cpu_began) / (time.perf_counter() - began),
        pool=timings,
        forms=found,
        peer=peer_timings,
    )


class _Budget:
    """How many samples to take: those of the plan, or as many as its seconds allow."""

    def __init__(self, plan: Plan) -> None:
        self._samples = plan.samples
        self._nanoseconds = plan.seconds * 1e9

    def rounds(self, fraction: float = 1.0) -> Iterator[int]:
        """0, 1, 2, ... until enough samples were taken, in *fraction* of the seconds."""
        start, limit = _now(), fraction * self._nanoseconds
        for i in range(self._samples):
            passed = _now() - start
            if passed > limit and (i >= _FEWEST or (i and passed > _FAR_TOO_LONG * limit)):
                return
            yield i


def _form(form: Form, pool: _AnyPool, workload: Workload, budget: _Budget) -> Optional[FormResult]:
    """The timings of *form* on *pool*; None if its answer is not the one that is timed."""
    request = pool.parse_resource_request(spec_of(form.shape))
    if form.without_sockets:
        workload.fill_sockets()
    samples: list[_Sample] = []
    for _ in budget.rounds(0.7):
        workload.churn(_CHURN)
        if form.without_sockets:
            workload.fill_sockets()
        if form.without_large:
            workload.end_large()
        sample = _refusal(pool, request) if form.refused else _job(pool, request, workload)
        if form.without_large:
            workload.start_large()
        if sample is None:
            samples.clear()
            break
        samples.append(sample)
    feasibility = []
    for _ in budget.rounds(0.1):
        start = _now()
        pool.check_feasibility(request)
        feasibility.append(_now() - start)
    repeated = _repeated(form, pool, request, workload, budget) if samples else []
    workload.empty_sockets()
    if not samples:
        return None
    names = ("alloc",) if form.refused else ("alloc", "to_dict", "free")
    jobs = [sum(sample) for sample in samples]
    timings = {
        **{name: Timing.of(times) for name, times in zip(names, zip(*samples))},
        "job": Timing.of(jobs),
        "repeated": Timing.of(repeated),
        "feasibility": Timing.of(feasibility),
    }
    rate = len(jobs) * 1e9 / sum(jobs)
    return FormResult(form.name, form.shape, form.refused, timings, rate)


def _repeated(
    form: Form, pool: _AnyPool, request: Any, workload: Workload, budget: _Budget
) -> list[int]:
    """The sums of samples between which nothing happens."""
    if form.without_large:
        workload.end_large()
    samples = [
        _refusal(pool, request) if form.refused else _job(pool, request, workload)
        for _ in budget.rounds(0.2)
    ]
    if form.without_large:
        workload.start_large()
    return [sum(sample) for sample in samples if sample is not None]


def _job(pool: _AnyPool, request: Any, workload: Workload) -> Optional[_Sample]:
    """How long alloc, to_dict and free last; None if that cannot be had.

    Where there is no room, as on a small cluster, jobs end until there is.
    """
    for _ in range(_MOST_TO_END):
        try:
            start = _now()
            allocation = pool.alloc(_JOB, request)
            allocated = _now()
        except InsufficientResources:
            workload.end_one()
            continue
        before = _now()
        allocation.to_dict()
        written = _now()
        pool.free(_JOB)
        return allocated - start, written - before, _now() - written
    return None


def _refusal(pool: _AnyPool, request: Any) -> Optional[_Sample]:
    """How long an alloc lasts that fails; None if it does not."""
    start = _now()
    try:
        pool.alloc(_JOB, request)
    except InsufficientResources:
        return (_now() - start,)
    pool.free(_JOB)
    return None


def _construct(make: Callable[[], Any], budget: _Budget) -> tuple[Any, Timing]:
    """A new pool, and how long it took to make it; never two at a time, for the memory's sake."""
    pool, times = None, []
    for _ in budget.rounds(0.3):
        del pool
        gc.collect()
        start = _now()
        pool = make()
        times.append(_now() - start)
    return pool, Timing.of(times)


def _pool_timings(pool: _AnyPool, workload: Workload, budget: _Budget) -> dict[str, Timing]:
    """Marking comes before copying, for a pool that was copied has to part with its copy."""
    copies, downs, ups = [], [], []
    for _ in budget.rounds(0.5):
        workload.churn(_CHURN)
        rank = str(workload.any_rank())
        start = _now()
        pool.mark_down(rank)
        down = _now()
        pool.mark_up(rank)
        downs.append(down - start)
        ups.append(_now() - down)
    for _ in budget.rounds(0.5):
        workload.churn(_CHURN)
        start = _now()
        copy = pool.copy()
        copies.append(_now() - start)
        del copy
    return {
        "copy": Timing.of(copies),
        "mark_down": Timing.of(downs),
        "mark_up": Timing.of(ups),
    }


def _peak_memory() -> int:
    """The most memory this process had, in bytes.

    Not from getrusage where /proc has it, as that counts what the process was before exec.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
