"""The R of some nodes, and what a job asks for and gets on them: most tests begin with these."""

from __future__ import annotations

from typing import Any, Optional

from treepool import parse_shape
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.rfc.links import Links, digest


def nodes(
    ranks: str = "0",
    cores: str = "0-7",
    gpus: str = "",
    topo: Optional[dict[str, Any]] = None,
    links: Optional[Links] = None,
    fabric: Optional[dict[str, Any]] = None,
    **execution: Any,
) -> dict[str, Any]:
    """An R of hosts n0, n1, ... that have these ids each; without *topo* and *fabric* no key."""
    children = {"core": cores, **({"gpu": gpus} if gpus else {})}
    R: dict[str, Any] = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": children}],
            "nodelist": [f"n{ranks}" if ranks.isdecimal() else f"n[{ranks}]"],
            **execution,
        },
    }
    if topo is not None or fabric is not None:
        R["scheduling"] = {"writer": "TreePool", "children": []}
    if topo is not None:
        R["scheduling"]["children"] = [{"ranks": ranks, "topo": topo}]
    if links is not None:
        R["scheduling"]["links"] = {digest(topo): links.to_dict()}
    if fabric is not None:
        R["scheduling"]["fabric"] = fabric
    return R


def asked(
    pool: Pool,
    shape: str,
    constraints: Optional[dict[str, Any]] = None,
    duration: float = 0.0,
    **options: Any,
) -> Any:
    """What a job of *shape* with *options* of treepool's asks *pool* for."""
    spec = from_resources(parse_shape(shape), duration, constraints, options or None)
    return pool.parse_resource_request(spec)


def alloc(pool: Pool, jobid: int, shape: str, *args: Any, **options: Any) -> Allocation:
    """What such a job gets."""
    return pool.alloc(jobid, asked(pool, shape, *args, **options))
