"""Every entry point that other people's input reaches, as a function of bytes.

A target gets any bytes at all. What it may do is return or raise an error that its documentation
names, with a message of one printable line; all else is a bug.
"""

import errno
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache

import attrs

from discovery import test_sites, test_slurmnodes
from fuzz import seeds as good
from fuzz.asked import answered
from treepool import parse_shape, subinstance
from treepool.cli import vectors
from treepool.cli.main import main
from treepool.discovery import fluxion, hwloc, slurmnodes, visible
from treepool.discovery.levels import topo_of
from treepool.discovery.reports import amd, intel, mig, nvidia
from treepool.discovery.sites import read as sites
from treepool.discovery.slurmlines import File
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidCount,
    InvalidHardware,
    InvalidHostlist,
    InvalidIdset,
    InvalidInput,
    InvalidJobspec,
    InvalidKey,
    InvalidOption,
    InvalidR,
    InvalidShape,
    InvalidWindow,
    TreepoolError,
)
from treepool.flux import gpuopt, options, waitopt
from treepool.placement.pool import Pool
from treepool.placement.request import job_options
from treepool.rfc import (
    constraint,
    count,
    document,
    hostlist,
    idset,
    jobcheck,
    jobspec,
    keycheck,
    windows,
)
from treepool.rfc.hostindex import HostIndex
from treepool.rfc.links import read_links
from treepool.rfc.mix import read_mix
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey
from treepool.rfc.shape import format_shape
from treepool.view import jobtable, snapshot, swf, trace
from treepool.view.snapshot import InvalidSnapshot

#: Longest message, in characters: a JSON pointer, a quoted piece of the input, and a sentence.
MAX_MESSAGE = 4000


@attrs.frozen
class Target:
    """An entry point: ``run`` calls it on bytes and may raise ``errors``; ``seeds`` are good."""

    name: str
    run: object
    errors: tuple
    seeds: tuple = ()


TARGETS = {}


def target(*errors, seeds=()):
    """Make a function a target that may raise *errors*, with good inputs *seeds*."""

    def add(function):
        name = function.__name__.strip("_")
        data = tuple(s if isinstance(s, bytes) else s.encode() for s in seeds)
        TARGETS[name] = Target(name, function, errors, data)
        return function

    return add


class Misbehaved(AssertionError):
    """A target raised what it must not, or with a message that is not one printable line."""


def attempt(name, data):
    """Run target *name* on bytes *data*: "read", or the name of the documented error."""
    chosen = TARGETS[name]
    try:
        chosen.run(data)
    except chosen.errors as e:
        message = e.line if isinstance(e, InvalidShape) else str(e)
        if not message or not message.isprintable() or len(message) > MAX_MESSAGE:
            raise Misbehaved(f"{name}: {type(e).__name__}: {message[:2000]!r}") from e
        if not all(line.isprintable() for line in str(e).split("\n")):
            raise Misbehaved(f"{name}: {type(e).__name__}: {str(e)[:2000]!r}") from e
        return type(e).__name__
    except TreepoolError as e:
        raise Misbehaved(f"{name}: {type(e).__name__} is not documented: {e}") from e
    return "read"


def _text(data):
    """Bytes as text of any characters, lone surrogates among them."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _json(data):
    """The JSON value of bytes, by Python's own reader, which also makes NaN and huge integers.

    Text that is not JSON stands for itself: a value of a type that nobody expects.
    """
    text = _text(data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# -- formats of text


@target(InvalidIdset, seeds=["0-3,5", "[1,4-6]", "", "0-4194304"])
def _idset(data):
    mask = idset.decode(_text(data))
    assert idset.decode(idset.encode(mask)) == mask


@target(InvalidHostlist, seeds=["a[01-03,7],b", "r[1-2]n[1-2]", "x", "a,,b"])
def _hostlist(data):
    names = hostlist.decode(_text(data))
    if len(names) < 10_000:
        assert hostlist.decode(hostlist.encode(names)) == names


@target(InvalidCount, seeds=["4", "2-8", "3+", "2-16:2:*", "[1,4,9]", "2-99:3:^"])
def _count(data):
    _use(count.parse_text(_text(data)))


@target(InvalidCount, seeds=['{"min": 2, "max": 9, "operator": "*", "operand": 2}', "7", '"1-3"'])
def _count_json(data):
    _use(count.parse(_json(data)))


def _use(found):
    for upto in (0, 1, found.minimum, 1 << 20, 1 << 62):
        largest = found.largest(upto)
        assert largest is None or found.minimum <= largest <= upto
        next(found.valid(upto), None)
    assert count.parse(found.spec()) == found
    assert count.parse_text(found.text()) == found


@target(InvalidShape, seeds=good.SHAPES)
def _shape(data):
    text = _text(data)
    try:
        resources = parse_shape(text)
    except InvalidShape as e:
        assert 0 <= e.column <= len(text), e.column
        raise
    try:
        written = format_shape(resources)
    except InvalidJobspec as e:
        assert "longer than" in str(e) or "nested" in str(e), e
        return
    assert parse_shape(written) == resources


@target(InvalidJobspec, seeds=[json.dumps(parse_shape(s)) for s in good.SHAPES])
def _resources(data):
    format_shape(_json(data))


@target(InvalidOption, seeds=["num=4:mode=exclusive:nvlink=yes:gmodel=A100:gmem=40GB", "num=1"])
def _gpuopt(data):
    gpuopt.parse(_text(data))


@target(InvalidOption, seeds=["7*slot/[core=12;gpu=1], 0.5*slot=2/node{x}", "slot/core", ""])
def _mix(data):
    kinds = read_mix(_text(data))
    assert read_mix(",".join(f"{kind.weight:.9f}*{kind.shape}" for kind in kinds)) == kinds


@target(InvalidOption, seeds=["1@10:00", "1@1-12:30:00", "1@90s", "2"])
def _waitopt(data):
    _, seconds = waitopt.switches(_text(data))
    assert seconds is None or 0 <= seconds < 1e14


# -- formats of JSON


@target(InvalidInput, seeds=['{"a": [1, 2.5e3, "x", null]}'])
def _document(data):
    document.load(_text(data), InvalidInput, "it")


@target(InvalidJobspec, seeds=good.CONSTRAINTS)
def _constraint(data):
    found = constraint.parse(_json(data))
    hosts = HostIndex(["a0", "a01", "a2", "h1", "h2", "n1-2", "n12", "r1n2"], 0xFF)
    constraint.evaluate(found, 0xFF, {"gpu": 3}, hosts.matching)


@target(InvalidJobspec, seeds=good.WISHES)
def _job_options(data):
    options = _json(data)
    if isinstance(options, dict):
        job_options.read(options, ("numa", "socket"), "preferred")


@target(InvalidJobspec, seeds=good.JOBSPECS)
def _jobspec(data):
    jobspec.read(_json(data))


@target(InvalidR, InvalidKey, seeds=good.RS)
def _R(data):
    _read_all(ResourceSet, data)


@target(InvalidKey, seeds=good.KEYS)
def _key(data):
    _read_all(SchedulingKey, data)


#: A target may call several functions on an input; on longer ones, and of more nodes, the first.
SHORT = 1 << 16


@target(seeds=good.RS)
def _R_problems(data):
    _problems(ResourceSet, _text(data))


@target(seeds=good.KEYS)
def _key_problems(data):
    _problems(SchedulingKey, _text(data))


@target(InvalidR, InvalidKey, seeds=good.RS)
def _R_warnings(data):
    _lines(keycheck.warnings(ResourceSet.read(_text(data))))


@target(seeds=good.KEYS)
def _key_warnings(data):
    _lines(keycheck.key_warnings(_json(data)))


@target(seeds=good.JOBSPECS)
def _jobspec_problems(data):
    value = _json(data)
    problems = jobcheck.problems(value)
    _lines(str(problem) for problem in problems)
    if not problems:
        jobspec.read(value)
        _lines(jobcheck.warnings(value))


def _lines(lines):
    for line in lines:
        if not line.isprintable() or len(line) > MAX_MESSAGE:
            raise Misbehaved(f"no printable line: {line[:2000]!r}")


def _problems(kind, text):
    problems = kind.problems(text)
    _lines(map(str, problems))
    return problems


def _read_all(kind, data):
    """Problems and reading agree; what is read can be written and read again."""
    text = _text(data)
    if len(text) > SHORT:
        kind.read(text)
        return
    try:
        found = kind.read(text)
    except InvalidInput:
        assert _problems(kind, text), "read refuses what problems accepts"
        raise
    if isinstance(found, ResourceSet) and len(found.hosts) > SHORT:
        return
    problems = _problems(kind, text)
    assert not problems, problems
    assert kind.read(found.to_dict()).to_dict() == found.to_dict()


@target(InvalidKey, seeds=good.TABLES)
def _linktable(data):
    table = read_links(_text(data))
    table.pairs()
    assert read_links(table.to_dict()).pairs() == table.pairs()


@target(InvalidOption, seeds=good.CONFIGURATIONS)
def _configuration(data):
    read = options.read([], _json(data), ("debug",))
    assert set(read.queues) <= {"debug"}


@target(seeds=["--json\nslot=1/core\nslot=2/node{x}", "--cluster\nb\nslot=1/numa{x}", "-x"])
def _command(data):
    """The words after ``treepool alloc``, one on each line; what they print is one line each."""
    words = [word for word in _text(data).splitlines() if word != "-" and word[:3] != "-R-"]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["alloc", *words])
    assert status in (0, 1, 2)
    _lines([*out.getvalue().splitlines(), *err.getvalue().splitlines()])


@target(InvalidWindow, seeds=good.WINDOWS)
def _windows(data):
    for entry in windows.read_all(_json(data)):
        assert windows.read(entry.to_dict()) == entry


@target(InvalidR, InvalidKey, seeds=good.RS)
def _subinstance(data):
    once = subinstance(_text(data))
    nodes = max(idset.decode(entry["rank"]).bit_length() for entry in once["execution"]["R_lite"])
    assert len(data) > SHORT or nodes > SHORT or subinstance(once) == once


@target(InvalidInput, seeds=['{"submit": 0, "duration": 60, "shape": "slot=1/core", "id": 3}\n'])
def _trace(data):
    for line in trace.write(trace.read(_text(data)).jobs):
        trace.read(line)


@target(InvalidInput, seeds=good.SACCT)
def _jobtable(data):
    jobs = jobtable.read(_text(data)).jobs
    for line in trace.write(jobs if len(data) <= SHORT else ()):
        trace.read(line)


@target(InvalidInput, seeds=good.SWF)
def _swf(data):
    found = swf.read(_text(data))
    for line in trace.write(found.jobs if len(data) <= SHORT else ()):
        trace.read(line)
    assert found.machine.cores(1) > 0
    _lines(found.remarks)


@target(InvalidSnapshot, seeds=[good.SNAPSHOT])
def _snapshot(data):
    text = _text(data)
    found = snapshot.read(text)
    if len(data) <= SHORT and idset.size(found.resource_set.mask) <= SHORT:
        assert snapshot.read(found.text).to_dict() == found.to_dict()
        assert not snapshot.problems(json.loads(text))
        pool = found.pool(since=found.time)
        assert all(pool.has_job(holder.jobid) for holder in found.holders())
    found.windows_since(found.time)
    _ = found.rules, found.stopped, found.jobs
    for job in found.pending:
        found.owner_of(job)


@target(seeds=[good.SNAPSHOT])
def _snapshot_problems(data):
    _lines(str(problem) for problem in snapshot.problems(_json(data)))


@target(seeds=[good.VECTORS])
def _vectors(data):
    value = _json(data)
    problems = vectors.problems(value)
    _lines(map(str, problems))
    if not problems:
        list(vectors.play(value))


# -- pools


@target(InvalidR, InvalidKey, InvalidOption, seeds=good.RS)
def _pool(data):
    pool = Pool(_text(data))
    if len(data) > SHORT or idset.size(pool.ranks) > SHORT:
        _allocate(pool, 1, json.loads(good.jobspec_text("slot=1/core")))
        return
    for jobid, shape in enumerate(("slot=1/core", "slot=1/gpu=2", "node/slot=1/core=2"), 1):
        _allocate(pool, jobid, json.loads(good.jobspec_text(shape)))
    pool.copy_allocated()
    pool.copy_down()
    Pool(pool.to_dict())
    pool.remove_ranks("0-1")
    pool.to_dict()


_ANSWERS = (InvalidJobspec, InfeasibleRequest, InsufficientResources)


@lru_cache(maxsize=None)
def _idle_pool(name):
    return Pool(good.small_R() if name == "small" else good.cluster(name))


@target(*_ANSWERS, seeds=good.JOBSPECS)
def _alloc(data):
    """Any jobspec, to a pool of two kinds of node with links."""
    _ask("small", data)


@target(*_ANSWERS, seeds=good.JOBSPECS)
def _alloc_cluster(data):
    """Any jobspec, to RFC 49's cluster A."""
    _ask("rfc49-cluster-a", data)


def _ask(name, data):
    pool = _idle_pool(name).copy()
    request = pool.parse_resource_request(_json(data))
    pool.check_feasibility(request)
    allocation = pool.alloc(1, request)
    ResourceSet.read(allocation.to_dict())
    pool.free(1, allocation, final=True)
    assert not pool.copy_allocated().entries


def _allocate(pool, jobid, spec):
    try:
        pool.alloc(jobid, pool.parse_resource_request(spec)).to_dict()
    except _ANSWERS:
        return


class Refusal(Exception):
    """A question is refused, with a reason."""


@target(Refusal, seeds=good.ASKED)
def _question(data):
    """A guest's request to the scheduler module: its topic in the first line, then the payload."""
    topic, _, text = _text(data).partition("\n")
    if topic not in ("look", "jobs", "job", "ask", "try", "numbers", "totals"):
        topic, text = "ask", _text(data)
    answers, errors = answered(_idle_pool("small").copy(), topic, text)
    assert bool(answers) != bool(errors) and len(errors) < 2
    for number, reason in errors:
        assert number in (errno.EINVAL, errno.EPROTO, errno.EMSGSIZE, errno.EPERM), number
        raise Refusal(reason)


# -- hardware


@target(InvalidHardware, seeds=[good.XML])
def _hwloc(data):
    machine = hwloc.read_hwloc(data)
    topo_of(machine)


@target(InvalidHardware, seeds=[good.TOPO_TEXT, "No devices were found\n"])
def _nvidia_topo(data):
    told = nvidia.read_topo(data)
    told.links.to_dict()
    assert nvidia.read_topo(_text(data)) == told or not data.isascii()


@target(InvalidHardware, seeds=[good.AMD_TEXT, good.AMD_JSON])
def _amd_topo(data):
    told = amd.read_topo(_text(data))
    assert read_links(told.links.to_dict()) == told.links


@target(InvalidHardware, seeds=[good.INTEL_TEXT])
def _intel_topo(data):
    told = intel.read_topo(_text(data))
    assert read_links(told.links.to_dict()) == told.links


@target(InvalidHardware, seeds=[good.LIST_TEXT])
def _nvidia_list(data):
    mig.read_list(_text(data))


@target(InvalidHardware, seeds=[*test_sites.SEEDS])
def _site_file(data):
    hosts = [f"n{i}" for i in range(6)]
    found, warnings = sites.fabric_of(sites.read(_text(data), hosts), hosts, 0b10111101)
    assert all(warning.isprintable() for warning in warnings)
    _lines(str(problem) for problem in _fabric_problems(found))


SLURM = [test_slurmnodes.scontrol("n0") + test_slurmnodes.PAIRS, *test_slurmnodes.SEEDS]


@target(InvalidHardware, seeds=SLURM)
def _slurm_nodes(data):
    for _, machine in slurmnodes.read([File(_text(data))]).machines[:9]:
        topo_of(machine)


@target(InvalidHardware, seeds=[good.CLIQUE_TEXT])
def _nvlink(data):
    """``nvidia-smi -q`` of one of some hosts, another has good text."""
    site = sites.nvlink([("n0", _text(data)), ("n1", good.CLIQUE_TEXT)], ["n0", "n1"])
    found, _ = sites.fabric_of(site, ["n0", "n1", "n2"], 0b111)
    assert _fabric_problems(found) == []


@target(InvalidHardware, InvalidHostlist, seeds=["x1000c0s1b0n0\nx1000c0s1b0n1\nx9c7s0b0n0"])
def _cray(data):
    """Names of hosts."""
    hosts = list(dict.fromkeys(_text(data).splitlines()))
    site = sites.cray(hosts)
    if site.locations:
        found, _ = sites.fabric_of(site, hosts, (1 << len(hosts)) - 1)
        assert len(data) > SHORT or _fabric_problems(found) == []


@target(InvalidR, InvalidKey, InvalidHardware, seeds=good.GRAPHS)
def _fluxion(data):
    """An R with Fluxion's key."""
    R = ResourceSet.read(_text(data))
    if not fluxion.has_graph(R.scheduling):
        return
    found = fluxion.encode(R)
    lines = [line for kind in found.kinds for line in (*kind.node.notes, *kind.node.warnings)]
    _lines([*found.warnings, *lines])
    problems = [] if len(data) > SHORT else ResourceSet.problems(found.R.to_dict())
    # A type may be both above and in nodes.
    assert all("is in the topo of entry" in problem.message for problem in problems), problems


def _fabric_problems(found):
    return SchedulingKey.problems({"writer": "TreePool", "fabric": found})


@target(InvalidHardware, seeds=["0,1,2", "GPU-5a3", "-1", ""])
def _visible(data):
    for vendor, filters in visible.READ.items():
        for name in sum(filters, ()):
            visible.Library(vendor, 0xFF, {0: "GPU-5a3", 1: "MIG-0"}).seen({name: _text(data)})
