"""Jobs as views show them; the lines of jobs and users in ``treepool status``, without engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Protocol

import attrs

from treepool.placement.nodes.parts import ranks_in, short_form, size
from treepool.rfc import idset
from treepool.view import words

if TYPE_CHECKING:
    from treepool.placement.nodes.state import Held


class Got(Protocol):
    """What a job gets: an allocation, or what the scheduler tells of one."""

    @property
    def parts(self) -> tuple[Held, ...]:
        """Ranks, cores and GPUs (bitmasks)."""

    @property
    def nslots(self) -> int:
        """The number of slots."""

    def where(self, ranks: int) -> str:
        """The hosts of the *ranks* of a part."""

    def to_dict(self) -> dict[str, Any]:
        """Its R."""


@attrs.frozen
class Job:
    """A job as pictures show it: its name, what it asked for, and what it holds.

    ``parts`` are (ranks, cores, GPUs), all three as bitmasks. ``nslots`` is 0 if not known.
    """

    name: str
    asked: str
    parts: tuple[Held, ...]
    nslots: int = 0

    @classmethod
    def of(cls, name: str, asked: str, held: Got) -> Job:
        """The job *name* that holds what is *held*."""
        return cls(name, asked, held.parts, held.nslots)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The job's ranks, ascending."""
        return tuple(idset.iterate(idset.union(ranks for ranks, _, _ in self.parts)))

    @property
    def ncores(self) -> int:
        """How many cores the job holds."""
        return size(self.parts)[0]

    @property
    def ngpus(self) -> int:
        """How many GPUs the job holds."""
        return size(self.parts)[1]


@attrs.frozen
class Running:
    """A job of the instance: what it holds, its owner, its name and its state in Flux's words.

    ``since`` is when it started or, if it waits, was submitted, in seconds since the epoch.
    ``due`` is when it ends at the latest or, if it waits, starts, 0 if that is not known. ``note``
    is why it waits. ``fitness`` is from 0 to 1, None if it is not known. ``id`` is Flux's.
    """

    job: Job
    user: str
    title: str
    state: str
    since: float
    note: str = ""
    fitness: Optional[float] = None
    id: int = 0
    due: float = 0.0


@attrs.frozen
class JobLine:
    """One job: ``placement`` in Flux's short form, ``summary`` the same by hosts, for people.

    ``hosts`` is a hostlist, ``domains`` are the domains that it has on a node.
    ``fitness`` is from 0 to 1, None for a job that holds nothing, or of which it is not known.
    """

    job: str
    user: str
    name: str
    state: str
    since: float
    nodes: int
    cores: int
    gpus: int
    placement: str
    hosts: str
    summary: str
    domains: str
    fitness: Optional[float]
    note: str

    @classmethod
    def of(cls, running: Running, hosts: str, summary: str, domains: str) -> JobLine:
        """The line of a job, of which it is known where it is."""
        job = running.job
        return cls(
            job.name,
            words.plain(running.user),
            words.plain(running.title),
            running.state,
            running.since,
            idset.size(ranks_in(job.parts)),
            job.ncores,
            job.ngpus,
            short_form(job.parts),
            hosts,
            summary,
            domains,
            running.fitness if job.parts else None,
            words.plain(running.note, words.MAX_LIST),
        )


@attrs.frozen
class UserLine:
    """What a user has: jobs that run and wait, and nodes, cores and GPUs that those that run have.

    A node on which several jobs of his have something counts once.
    """

    user: str
    running: int
    waiting: int
    nodes: int
    cores: int
    gpus: int


def user_lines(
    users: Mapping[str, Mapping[str, int]], name_of: Callable[[int], str]
) -> list[UserLine]:
    """A line for each of *users*, which are by id; who has the most cores is first."""
    names = "running", "waiting", "nodes", "cores", "gpus"
    found = [
        UserLine(words.plain(name_of(int(user))), *(has[name] for name in names))
        for user, has in users.items()
    ]
    return sorted(found, key=lambda line: (-line.cores, -line.waiting, line.user))
