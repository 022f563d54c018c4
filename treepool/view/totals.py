"""The numbers of a cluster, what is above its nodes, and why nodes are drained, in words.

Commands print this of what the scheduler tells them, so it needs no engine.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

import attrs

from treepool.rfc import hostlist, idset
from treepool.rfc.windows import WindowEntry
from treepool.view import words

#: Whether jobs may use a node: it is up, down, or drained by an administrator.
UP, DOWN, DRAINED = "up", "down", "drained"

#: The state of a node that is up: nothing allocated, something allocated, or no core left.
IDLE, PARTLY, FULL = "idle", "partial", "full"

#: All states of a node, in the order of Totals.
STATES = (IDLE, PARTLY, FULL, DOWN, DRAINED)

#: Longest reason for which nodes were drained, and most reasons that are told.
_MAX_REASON, MAX_DRAINS = 200, 16


class Totals(NamedTuple):
    """Numbers of a cluster, or of one node of it.

    Each node is counted in exactly one state, from idle to drained. Free resources are those that a
    job could get now; a node that is down or drained has none. Used resources are those that jobs
    hold, also on such nodes. The rest of ``cores`` and ``gpus`` is out of service.
    ``gpus_stranded`` of the free GPUs cannot be used by the jobs of the site's mix, see
    placement/choose/mix.py; a GPU that some of them can use counts in part.
    """

    nodes: int
    idle: int
    partly: int
    full: int
    down: int
    drained: int
    cores: int
    cores_free: int
    cores_used: int
    gpus: int
    gpus_free: int
    gpus_used: int
    gpus_stranded: float

    @property
    def amounts(self) -> list[Amount]:
        """The cores and, if there are any, the GPUs, as Amounts."""
        found = [Amount("cores", self.cores, self.cores_free, self.cores_used)]
        if self.gpus:
            gpus = self.gpus, self.gpus_free, self.gpus_used
            found.append(Amount("GPUs", *gpus, int(self.gpus_stranded)))
        return found

    @property
    def states(self) -> list[tuple[str, int]]:
        """How many nodes are in each state, by its name; states without nodes are left out."""
        numbers = self.idle, self.partly, self.full, self.down, self.drained
        return [(state, number) for state, number in zip(STATES, numbers) if number]

    @property
    def line(self) -> str:
        """The numbers in one line."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.states)
        amounts = []
        for amount in self.amounts:
            text = f"{amount.used:,} of {amount.total:,} {amount.name} used, {amount.free:,} free"
            text += f" ({amount.stranded:,} stranded)" if amount.stranded else ""
            amounts.append(text)
        nodes = words.count(self.nodes, "node")
        return f"{nodes}: {states}; {'; '.join(amounts)}" if self.nodes else nodes

    def plus(self, other: Totals, times: int = 1) -> Totals:
        """The sum of these numbers and *times* those of *other*."""
        return Totals._make(a + times * b for a, b in zip(self, other))


@attrs.frozen
class Amount:
    """The cores or the GPUs of Totals: free (some stranded), used, out of service."""

    name: str
    total: int
    free: int
    used: int
    stranded: int = 0

    @property
    def away(self) -> int:
        """The amount on nodes that are down or drained that no job holds."""
        return self.total - self.free - self.used


NOTHING = Totals(*[0] * len(Totals._fields))


@attrs.frozen
class LocalityLine:
    """The domains of a locality: how many, how many of them have idle nodes, the most idle ones."""

    locality: str
    domains: int
    with_idle: int
    largest: int
    where: str

    @property
    def text(self) -> str:
        """The line in words."""
        domains = f"{self.locality}: {words.count(self.domains, 'domain')}"
        if not self.largest:
            return f"{domains}, no node in them is idle"
        nodes = words.count(self.largest, "idle node")
        return (
            f"{domains}, {self.with_idle:,} with idle nodes;"
            f" a job of up to {nodes} fits into one ({self.where})"
        )


@attrs.frozen
class Drained:
    """Nodes that were drained for the same reason, "" if none was given."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    reason: str

    @property
    def line(self) -> str:
        """Which nodes, and why: "n[0-1]: broken"."""
        hosts = words.listed(hostlist.encode(self.hosts))
        return f"{hosts}: {words.plain(self.reason, _MAX_REASON) or 'no reason was given'}"

    def to_dict(self) -> dict[str, Any]:
        """The nodes and the reason as JSON."""
        ranks, hosts = idset.encode_ids(self.ranks), hostlist.encode(self.hosts)
        return {"ranks": ranks, "hosts": hosts, "reason": self.reason}


@attrs.frozen
class Overview:
    """An instance at one moment: what ``treepool status`` tells first.

    ``cores_kept`` are free cores that are only for jobs with GPUs, ``preemptible`` the cores and
    GPUs of jobs that may be ended for others. ``localities`` are those above the nodes, None if
    there are none. ``held_back`` is what the scheduler holds back for jobs whose R it cannot read:
    in Flux's short form, its hosts, and in words; each is "" if it holds nothing back. ``windows``
    are those that are not over. ``stopped`` says why no job starts at all, None if jobs do;
    ``other`` which other scheduler starts them, if one does.
    """

    totals: Totals
    cores_kept: int
    preemptible: tuple[int, int]
    localities: Optional[tuple[LocalityLine, ...]]
    held_back: tuple[str, str, str]
    windows: tuple[WindowEntry, ...]
    drains: tuple[Drained, ...]
    stopped: Optional[str]
    other: str = ""


def by_reason(reasons: Mapping[str, str]) -> list[tuple[int, str]]:
    """The ranks (bitmask) that are drained for each reason, by *reasons* for idsets of ranks."""
    together = dict.fromkeys(reasons.values(), 0)
    for ranks, reason in reasons.items():
        together[reason] |= idset.decode(ranks)
    found = ((mask, reason) for reason, mask in together.items() if mask)
    return sorted(found, key=lambda one: idset.lowest(one[0]))
