"""What resources are used for: in total, by queue, kind of node, domain and user; why jobs wait.

Imports no flux."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Generator, Iterator, Mapping, Optional, Sequence, TypeVar

from treepool.flux.numbers import free_of
from treepool.flux.submissions import DEFERRED, OPENS, UNKNOWN
from treepool.placement.held import HELD_BACK
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.nodes.state import NodeState
from treepool.placement.nodes.tree import Domain
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool
from treepool.rfc import constraint, hostlist, idset
from treepool.rfc.queues import Queues

#: What is free, and what jobs have (also on nodes that are not up); the rest is on nodes that are
#: down, or that an administrator drained. Each core and GPU is in one of these states, and each
#: node, which may also be in use in part.
FREE, PARTIAL, ALLOCATED, DOWN, DRAINED = "free", "partial", "allocated", "down", "drained"
NODE_STATES = FREE, PARTIAL, ALLOCATED, DOWN, DRAINED
STATES = FREE, ALLOCATED, DOWN, DRAINED

#: Most domains of a level that are counted one by one, and most kinds of node that have a name of
#: their own. Each is a dozen time series.
_MOST_DOMAINS, _MOST_KINDS = 64, 32

#: Why jobs wait: the codes of reasons, and two of submissions.py. A monitor wants to see each,
#: also if no job waits for it.
REASONS: tuple[str, ...] = (
    *(
        "ahead",
        "in-use",
        "reserved",
        "apart",
        "down",
        "window",
        "wait",
        "search",
        "late",
        "preempting",
        "soon",
    ),
    *(DEFERRED, OPENS, UNKNOWN),
)

#: The name of all other kinds.
_OTHERS = "other"

#: Ranks or jobs that are counted between two yields, and how many of them a domain or a job of
#: several nodes counts for at least.
_STEP, _LEAST = 8192, 64

#: Numbers of nodes, cores and GPUs, by state.
Counts = dict[str, dict[str, int]]

#: The state of a node, whether it is up, and whether it is drained.
_Look = tuple[Optional[NodeState], int, int]

#: Of each job that waits: its queue, its user, and the code of the reason for which it waits.
Waits = Iterator[tuple[str, int, str]]

#: Gives the user of a job; None if it is not known.
UserOf = Callable[[int], Optional[int]]

T = TypeVar("T")
Work = Generator[None, None, T]


def totals(
    queue: Queue,
    queues: Queues,
    waits: Waits,
    drained: Sequence[int] = (),
    user_of: Optional[UserOf] = None,
) -> Work[dict[str, Any]]:
    """The totals of *queue* and its pool, in the form of doc/questions.md, at one moment.

    *drained* are sets of ranks (bitmasks). With *user_of*, those of users are among them.
    """
    pool, found = queue.pool, dict[str, Any]()
    nodes = _Nodes(pool, idset.union(drained))
    reserved = Counter(made.job.queue for made in queue.reservations.values())
    having = list(pool.job_end_times()) if user_of is not None else []
    every = yield from nodes.looks(list(idset.iterate(pool.ranks)))
    found["all"] = _counts(every)
    free = yield from free_of(pool)
    found.update(gpus_stranded=free["gpus_stranded"], cores_kept=int(free["cores_kept"]))
    found["preemptible"] = dict(zip(("cores", "gpus"), queue.profile.yielding))
    found["drained"] = yield from _drained(pool, drained)
    found["kinds"] = _by_kind(every)
    found["queues"] = {}
    for name in queues.tables:
        if queues.line(name) == name:
            of_queue = constraint.parse({"properties": queues.requires(name)})
            ranks = list(idset.iterate(pool.inventory.matching(of_queue)))
            found["queues"][name] = _counts((yield from nodes.looks(ranks)))
    fabric, found["levels"] = pool.inventory.fabric, {}
    if fabric is not None:
        for level in fabric.localities:
            found["levels"][level] = yield from _of_level(fabric, level, nodes)
    waiting, by_user = Counter[tuple[str, str]](), Counter[int]()
    for count, (name, user, code) in enumerate(waits, 1):
        waiting[name, code] += 1
        by_user[user] += 1
        if count % _STEP == 0:
            yield
    names = dict.fromkeys([*(found["queues"] or [""]), *(name for name, _ in waiting)])
    found["waiting"] = {name: {code: waiting[name, code] for code in REASONS} for name in names}
    found["reserved"] = {name: reserved[name] for name in names}
    if user_of is not None:
        found["users"] = yield from _by_user(pool, having, user_of, by_user)
    return found


class _Nodes:
    """The nodes as they are now, to be counted in steps."""

    def __init__(self, pool: Pool, drained: int) -> None:
        index = pool.situation.index
        self._state_of = index.state_of.copy()
        self._up = bytes(idset.flags(index.up, len(self._state_of)))
        self._drained = bytes(idset.flags(drained & pool.ranks, len(self._up)))
        self._done = 0

    def looks(self, ranks: Sequence[int]) -> Work[Counter[_Look]]:
        """How many of *ranks* look how."""
        found = Counter[_Look]()
        for first in range(0, len(ranks), _STEP):
            some = ranks[first : first + _STEP]
            of = self._state_of, self._up, self._drained
            found.update(zip(*(map(values.__getitem__, some) for values in of)))
            self._done += max(_LEAST, len(some))
            if self._done >= _STEP:
                self._done = 0
                yield
        return found


def _counts(looks: Mapping[_Look, int]) -> Counts:
    """What nodes that look so have in each state."""
    nodes = dict.fromkeys(NODE_STATES, 0)
    cores, gpus = dict.fromkeys(STATES, 0), dict.fromkeys(STATES, 0)
    for (state, up, drained), number in looks.items():
        if state is None:
            continue
        away = DRAINED if drained else DOWN
        used = FREE if state.idle else PARTIAL if state.ncores else ALLOCATED
        nodes[used if up else away] += number
        root = state.type.root
        for found, free, whole in (
            (cores, state.ncores, root.ncores),
            (gpus, state.ngpus, idset.size(root.gpus)),
        ):
            found[FREE if up else away] += number * free
            found[ALLOCATED] += number * (whole - free)
    return {"nodes": nodes, "cores": cores, "gpus": gpus}


def _drained(pool: Pool, drained: Sequence[int]) -> Work[list[dict[str, str]]]:
    """The ranks of each of these sets that are in the pool, and their hosts."""
    found = []
    for ranks in drained:
        here = ranks & pool.ranks
        hosts = hostlist.encode(pool.inventory.hosts_of(here))
        found.append({"ranks": idset.encode(here), "hosts": hosts})
        yield
    return found


def _by_kind(every: Mapping[_Look, int]) -> dict[str, Counts]:
    """The counts of each kind of node, those with the most nodes by what a node has."""
    kinds: dict[str, Counter[_Look]] = {}
    for look, number in every.items():
        if look[0] is not None:
            kinds.setdefault(_kind(look[0].type.root), Counter())[look] += number
    for name in sorted(kinds, key=lambda kind: -sum(kinds[kind].values()))[_MOST_KINDS:]:
        kinds.setdefault(_OTHERS, Counter()).update(kinds.pop(name))
    return {name: _counts(looks) for name, looks in kinds.items()}


def _kind(root: Domain) -> str:
    """What a node has, as the name of its kind."""
    has = (root.ncores, "cores"), (idset.size(root.gpus), "GPUs"), (root.memory >> 30, "GiB")
    return ", ".join(f"{number} {what}" for number, what in has if number)


def _of_level(fabric: Fabric, level: str, nodes: _Nodes) -> Work[dict[str, Any]]:
    """How many domains of *level* are in which state, the most free nodes in one of them, and the
    counts of each if they are few."""
    named = fabric.named(level)
    domains = [domain for domain in range(len(fabric)) if named[domain]]
    states, largest, inside = dict.fromkeys(NODE_STATES[:-1], 0), -1, dict[str, Counts]()
    where = ""
    for domain in domains:
        counts = _counts((yield from nodes.looks(list(fabric.ranks_in(domain)))))
        there = counts["nodes"]
        free, size = there[FREE], sum(there.values())
        if not size:  # its nodes are in the pool no more
            continue
        away = there[DOWN] + there[DRAINED]
        state = FREE if free == size else PARTIAL if free else DOWN if away == size else ALLOCATED
        states[state] += 1
        if free > largest:
            largest, where = free, fabric.name[domain] or f"of rank {fabric.lowest[domain]}"
        if len(domains) <= _MOST_DOMAINS:
            inside[_name(fabric, domain, inside)] = counts
    return {"domains": states, "largest": max(0, largest), "where": where, "inside": inside}


def _name(fabric: Fabric, domain: int, taken: Mapping[str, Counts]) -> str:
    """The name of a domain, which is not *taken*: sites need not name all, nor differently."""
    of_rank = f"of rank {fabric.lowest[domain]}"
    name = fabric.name[domain] or of_rank
    return name if name not in taken else f"{name} {of_rank}"


def _by_user(
    pool: Pool, having: Sequence[tuple[int, float]], user_of: UserOf, waiting: Mapping[int, int]
) -> Work[dict[str, dict[str, int]]]:
    """What the jobs of each user have, and how many run and wait; by the numeric id as a text."""
    ranks, counts = dict[int, int](), dict[int, Counter[str]]()
    done = 0
    for jobid, _ in having:
        job, user = pool.job(jobid), user_of(jobid)
        if job is None or user is None or jobid == HELD_BACK:  # it ended meanwhile
            continue
        count = counts.setdefault(user, Counter())
        count["running"] += 1
        for those, cores, gpus in job.parts:
            ranks[user] = ranks.get(user, 0) | those
            nodes = idset.size(those)
            count["cores"] += nodes * idset.size(cores)
            count["gpus"] += nodes * idset.size(gpus)
            done += _LEAST
        if done >= _STEP:
            done = 0
            yield
    names = "nodes", "cores", "gpus", "running", "waiting"
    for user, number in waiting.items():
        counts.setdefault(user, Counter())["waiting"] = number
    for user, mask in ranks.items():
        counts[user]["nodes"] = idset.size(mask)
    return {str(user): {name: count[name] for name in names} for user, count in counts.items()}
