"""What a job holds: how much, and as text: rank0/core0 (Flux's short form), n0/core0 for people.

This needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

from treepool.rfc import hostlist, idset

if TYPE_CHECKING:  # commands print this that have no nodes
    from treepool.placement.nodes.inventory import Inventory
    from treepool.placement.nodes.state import Held


def ranks_in(parts: Iterable[Held]) -> int:
    """The ranks of *parts* (bitmask)."""
    return idset.union(ranks for ranks, _, _ in parts)


def size(parts: Iterable[Held]) -> tuple[int, int]:
    """How many cores and GPUs *parts* have."""
    cores = gpus = 0
    for ranks, its_cores, its_gpus in parts:
        nodes = idset.size(ranks)
        cores += nodes * idset.size(its_cores)
        gpus += nodes * idset.size(its_gpus)
    return cores, gpus


def short_form(parts: Iterable[Held]) -> str:
    """Flux's short form of *parts*: ``rank<ids>/core<ids>[,gpu<ids>]``, separated by blanks."""
    return _shown((f"rank{_ids(idset.encode(ranks))}", cores, gpus) for ranks, cores, gpus in parts)


def on_hosts(parts: Iterable[Held], inventory: Inventory) -> str:
    """*parts* with hosts, ``n[17-18]/core[0-3]``; ranks stand beside a host that has several.

    Ranks without a host, which may have left *inventory*, are named by their numbers.
    """
    return _shown((where(ranks, inventory), cores, gpus) for ranks, cores, gpus in parts)


def where(ranks: int, inventory: Inventory) -> str:
    """The hosts of *ranks* (bitmask), as ``on_hosts`` names them."""
    names, shown = inventory.hosts_of(ranks), f"rank{_ids(idset.encode(ranks))}"
    if not inventory.several.isdisjoint(names):
        return f"{hostlist.encode(dict.fromkeys(names))}/{shown}"
    return hostlist.encode(names) if names and all(names) else shown


def _shown(placed: Iterable[tuple[str, int, int]]) -> str:
    """Places, and the cores and GPUs (bitmasks) that a job has on each of them."""
    shown = []
    for where, cores, gpus in placed:
        text = f"{where}/core{_ids(idset.encode(cores))}"
        shown.append(text + (f",gpu{_ids(idset.encode(gpus))}" if gpus else ""))
    return " ".join(shown)


def _ids(text: str) -> str:
    return text if text.isdigit() else f"[{text}]"
