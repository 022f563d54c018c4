"""What a request waits for: which jobs would have to end."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

import attrs

from treepool.placement.allocation import Allocation
from treepool.placement.held import held_on
from treepool.placement.pool import Pool
from treepool.placement.request.vertices import Request
from treepool.view.jobs import Job

#: Most jobs that are tried one by one.
MAX_TRIED = 512


@attrs.frozen
class Waiting:
    """The jobs that a request waits for, by id.

    If ``one_will_do`` is true, the end of any one of ``holders`` is enough. Otherwise all of them
    must end, and none could be left out. ``holders`` is empty if the request also waits for nodes
    that are down.
    """

    one_will_do: bool
    holders: Mapping[int, Job]


def waiting(
    pool: Pool,
    request: Request,
    jobs: Mapping[int, Job],
) -> Waiting:
    """What *request*, which *pool* cannot serve now, waits for among *jobs*, by id.

    If the end of a single job is enough, the result has all such jobs among the first MAX_TRIED.
    Otherwise it has as few as needed of the jobs that came first.
    """

    def holders(ids: Iterable[int]) -> Mapping[int, Job]:
        return {i: jobs[i] for i in ids}

    ids = list(jobs)
    left = pool.copy()
    one = [jobid for jobid in ids[:MAX_TRIED] if _serves_without(left, request, jobid, jobs)]
    if one:
        return Waiting(True, holders(one))
    first, last = 0, len(ids) + 1
    while last - first > 1:  # if it can start at all, it can after the first *last* jobs ended
        middle = (first + last) // 2
        if _serves(_without(pool, ids[:middle]), request):
            last = middle
        else:
            first = middle
    if last > len(ids):
        return Waiting(False, {})
    ended = ids[:last]
    left = _without(pool, ended)
    needed = []
    for jobid in reversed(ended):  # later jobs can often go on
        _hold(left, jobid, jobs[jobid])
        if not _serves(left, request):
            left.free(jobid)
            needed.append(jobid)
    return Waiting(False, holders(reversed(needed)))


def _serves_without(pool: Pool, request: Request, jobid: int, jobs: Mapping[int, Job]) -> bool:
    pool.free(jobid)
    served = _serves(pool, request)
    _hold(pool, jobid, jobs[jobid])
    return served


def _hold(pool: Pool, jobid: int, job: Job) -> None:
    """Let *job* hold again what it did; ranks that left the pool did not come back."""
    here = held_on(pool.ranks, job.parts)
    pool.register_alloc(jobid, Allocation(pool.inventory, here, job.nslots))


def _without(pool: Pool, ended: Sequence[int]) -> Pool:
    copy = pool.copy()
    for jobid in ended:
        copy.free(jobid)
    return copy


def _serves(pool: Pool, request: Request) -> bool:
    """Whether *pool* could serve *request* now."""
    return pool.choice(request).selection is not None
