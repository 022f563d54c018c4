"""What flux-core makes of the R of a job when an instance starts on it."""

from __future__ import annotations

import json
from typing import Any

from treepool.placement.pool import Pool
from treepool.rfc import idset


def inherited(R: dict[str, Any], contained: bool = False) -> dict[str, Any]:
    """Ranks and cores of R_lite counted from zero; the key is left alone.

    So are GPUs, unless the instance is *contained* (flux-core PR 7806): it is kept from all others.
    """
    R = json.loads(json.dumps(R))
    entries = R["execution"]["R_lite"]
    ranks = sorted(rank for entry in entries for rank in ids(entry["rank"]))
    position = {rank: i for i, rank in enumerate(ranks)}
    for entry in entries:
        entry["rank"] = idset.encode_ids(sorted(position[rank] for rank in ids(entry["rank"])))
        count = len(ids(entry["children"]["core"]))
        entry["children"]["core"] = idset.encode((1 << count) - 1)
        if contained and "gpu" in entry["children"]:
            count = len(ids(entry["children"]["gpu"]))
            entry["children"]["gpu"] = idset.encode((1 << count) - 1)
    for name, having in R["execution"].get("properties", {}).items():
        renumbered = sorted(position[rank] for rank in ids(having))
        R["execution"]["properties"][name] = idset.encode_ids(renumbered)
    del R["execution"]["nslots"]
    return started(R)


def inherited_contained(R: dict[str, Any]) -> dict[str, Any]:
    """``inherited`` by a contained instance."""
    return inherited(R, contained=True)


def started(R: dict[str, Any]) -> dict[str, Any]:
    """*R* with a start time, which the R of each job in Flux has."""
    execution = R["execution"]
    return {**R, "execution": {**execution, "starttime": execution.get("starttime") or 1.0}}


def with_key_of(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """The R of a job in Flux, of which only R_lite was renumbered: *inner* with *outer*'s key."""
    return started({**inner, "scheduling": outer["scheduling"]})


def excluding(R: dict[str, Any], excluded: int) -> dict[str, Any]:
    """The R of an instance without the ranks in bitmask *excluded*; the key is left alone."""
    pool = Pool(R)
    pool.remove_ranks(excluded)
    return {**pool.to_dict(), "scheduling": R["scheduling"]}


def ids(text: str) -> list[int]:
    """The ids of an RFC 22 idset, ascending."""
    return list(idset.iterate(idset.decode(text)))
