"""The pools that are compared: treepool's policies, flux-core's pool, and two of this page's own.

Each gives a job of (cores, GPUs) a place: a rank, and cores and GPUs as bitmasks.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Optional, Protocol

from bench.packing.clusters import Ask, Cluster, Ids, Mix
from bench.peer import PeerPool
from treepool.errors import InsufficientResources
from treepool.placement.choose.pastmix import past_mix
from treepool.placement.effort import finished
from treepool.placement.pool import Pool
from treepool.rfc import idset, jobspec
from treepool.rfc.rset import ResourceSet
from treepool.rfc.shape import parse_shape

Place = tuple[int, int, int]


class Packer(Protocol):
    """A pool."""

    def start(self, jobid: int, ask: Ask) -> Optional[Place]:
        """The place of the job, None if it has to wait."""

    def end(self, jobid: int) -> None:
        """The job has ended."""


def shape_of(ask: Ask) -> str:
    """The RFC 46 shape of a job."""
    return f"slot/[core={ask[0]};gpu={ask[1]}]" if ask[1] else f"slot/core={ask[0]}"


class _Flux:
    """A pool with Flux's methods."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._requests: dict[Ask, Any] = {}

    def start(self, jobid: int, ask: Ask) -> Optional[Place]:
        request = self._requests.get(ask)
        if request is None:
            spec = jobspec.from_resources(parse_shape(shape_of(ask)))
            request = self._requests[ask] = self._pool.parse_resource_request(spec)
        try:
            found = self._pool.alloc(jobid, request)
        except InsufficientResources:
            return None
        if hasattr(found, "parts"):
            ((ranks, cores, gpus),) = found.parts
            return idset.lowest(ranks), cores, gpus
        (entry,) = ResourceSet.read({**found.to_dict(), "scheduling": {}}).entries
        return idset.lowest(entry.ranks), entry.cores, entry.gpus

    def end(self, jobid: int) -> None:
        self._pool.free(jobid)


class _Own:
    """Nodes by rank, with what is free; a job gets the first domain on the chosen node that has it.

    Written without treepool's engine, so that both can be compared.
    """

    def __init__(self, on: Cluster) -> None:
        self.levels = [kind.levels()[::-1] for kind in on.kinds]
        self.free = [levels[-1][0] for levels in self.levels]
        self.jobs: dict[int, Place] = {}
        self.counts = [(k.cores, k.gpus) for k in on.kinds]

    def choose(self, ask: Ask) -> Optional[int]:
        raise NotImplementedError

    def start(self, jobid: int, ask: Ask) -> Optional[Place]:
        rank = self.choose(ask)
        if rank is None:
            return None
        cores, gpus = next(
            (domain[0] & self.free[rank][0], domain[1] & self.free[rank][1])
            for level in self.levels[rank]
            for domain in level
            if covers(domain, self.free[rank], ask)
        )
        place = rank, idset.take_lowest(cores, ask[0]), idset.take_lowest(gpus, ask[1])
        self.jobs[jobid] = place
        self._change(place, ask, -1)
        return place

    def end(self, jobid: int) -> None:
        place = self.jobs.pop(jobid)
        self._change(place, (idset.size(place[1]), idset.size(place[2])), 1)

    def _change(self, place: Place, ask: Ask, sign: int) -> None:
        rank, cores, gpus = place
        self.free[rank] = self.free[rank][0] ^ cores, self.free[rank][1] ^ gpus
        self.counts[rank] = tuple(n + sign * k for n, k in zip(self.counts[rank], ask))


def covers(domain: Ids, free: Ids, ask: Ask) -> bool:
    """Whether *ask* is free in *domain*."""
    return all(idset.size(d & f) >= n for d, f, n in zip(domain, free, ask))


class Random(_Own):
    """Any node with room."""

    def __init__(self, on: Cluster, mix: Mix) -> None:
        super().__init__(on)
        self._random = random.Random(0)

    def choose(self, ask: Ask) -> Optional[int]:
        having = [
            rank for rank, (c, g) in enumerate(self.counts) if c >= ask[0] and g >= ask[1]
        ]  # fmt: skip
        return self._random.choice(having) if having else None


class Fragmentation(_Own):
    """Fragmentation gradient descent (ATC'23), for whole GPUs: the mix is known beforehand.

    The fragmentation of a node is the number of its free GPUs that a job of the mix cannot use, on
    average; the node on which it grows least is taken. Nodes where the job is local come first
    among equals, then those with the fewest free GPUs and cores.
    """

    def __init__(self, on: Cluster, mix: Mix) -> None:
        super().__init__(on)
        kinds = Counter(mix)
        self._mix = [(ask, n / len(mix)) for ask, n in kinds.items()]
        self._known: dict[Ask, float] = {}

    def _fragmented(self, counts: Ask) -> float:
        if counts not in self._known:
            cores, gpus = counts
            lost = sum(share for (c, g), share in self._mix if not g or c > cores or g > gpus)
            self._known[counts] = lost * gpus
        return self._known[counts]

    def choose(self, ask: Ask) -> Optional[int]:
        best = None
        for rank, (cores, gpus) in enumerate(self.counts):
            if cores < ask[0] or gpus < ask[1]:
                continue
            after = cores - ask[0], gpus - ask[1]
            grown = round(self._fragmented(after) - self._fragmented((cores, gpus)), 9)
            if best is not None and grown > best[0][0]:
                continue
            key = grown, not self._local(rank, ask), gpus, cores, rank
            if best is None or key < best[0]:
                best = key, rank
        return None if best is None else best[1]

    def _local(self, rank: int, ask: Ask) -> bool:
        levels = self.levels[rank]
        level = next(one for one in levels if any(covers(d, d, ask) for d in one))
        return any(covers(domain, self.free[rank], ask) for domain in level)


def packer(name: str, on: Cluster, mix: Mix) -> Packer:
    """The pool *name*: a policy of treepool (``packing:4`` with a weight), or another pool.

    ``mix`` is the policy packing with the option mix, as it is made from past jobs.
    """
    if name == "random":
        return Random(on, mix)
    if name == "fgd":
        return Fragmentation(on, mix)
    if name == "flux-core":
        return _Flux(PeerPool(on.R()))
    policy, _, weight = name.partition(":")
    if policy == "mix":
        pool = Pool(on.R(), **({"straddle": weight} if weight else {}))
        asked = {shape_of(ask): number for ask, number in Counter(mix).items()}
        past = finished(past_mix(asked, pool.inventory))
        pool.set_options(**{**pool.options, "mix": past.text})
        return _Flux(pool)
    return _Flux(Pool(on.R(), policy=policy, **({"straddle": weight} if weight else {})))
