"""What is missing: the words for too few cores, GPUs, memory or links; sizes and amounts in words.

The message names the first number that does not fit: "no numa domain has 20 cores: the largest
has 15".
"""

from __future__ import annotations

from typing import Optional, Sequence

import attrs

from treepool.errors import Reason
from treepool.placement.gpus.graph import graph_of, largest_clique
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.levels import amount_levels, asked_of, has_memory, usable_gpus
from treepool.placement.on_node.place import meets_demand
from treepool.placement.request.need import Demand, Need
from treepool.rfc import idset
from treepool.rfc.links import ANY_FAST
from treepool.rfc.quote import amount

#: A domain and the node type that it is in.
Place = tuple[NodeType, Domain]


def why_no_amount(need: Need, where: str, places: Sequence[Place]) -> Optional[Reason]:
    """Why none of *places*, each a *where* domain, has *need*'s amount; None if one of them has."""
    kind = where if where == "node" else f"{where} domain"
    domains = [domain for _, domain in places]
    cores, gpus = max(d.ncores for d in domains), max(d.ngpus for d in domains)
    if need.cores > cores:
        asked = amount(need.cores, "core")
        message = f"no {kind} has {asked}: the largest has {cores}"
        return Reason("cores", message, kind, need.cores, cores)
    if need.gpus > gpus:
        asked = amount(need.gpus, "GPU")
        message = f"no {kind} has {asked}: the largest has {gpus}{_slices(domains)}"
        return Reason("gpus", message, kind, need.gpus, gpus)
    reason = (
        _why_no_memory(need, kind, domains)
        or _why_no_gpu_memory(need, kind, places)
        or _why_not_joined(need, where, places)
    )
    hosts = ((d, amount_levels(t, asked_of(d, need), d)) for t, d in places)
    if reason is not None or any(d in able and has_memory(d, need) for d, able in hosts):
        return reason
    all_of = [amount(need.cores, "core")] if need.cores else []
    if need.gpus:
        more = f" of {size(need.gpu_memory, least=True)}" if need.gpu_memory else ""
        more += f" joined by {links(need.demand)}" if need.demand and need.gpus > 1 else ""
        all_of.append(amount(need.gpus, "GPU") + more)
    all_of += [f"{size(need.memory, least=True)} of memory"] if need.memory else []
    return Reason("together", f"no {kind} has {' and '.join(all_of)} together", kind)


def why_no_whole(need: Need, name: str, places: Sequence[Place]) -> Optional[Reason]:
    """Why none of *places*, whole domains called *name*, has all its GPUs as *need* demands."""
    if need.gpu_memory and not any(d.gpus & ~t.gpus_with(need.gpu_memory) == 0 for t, d in places):
        least = size(need.gpu_memory, least=True)
        message = f"not all GPUs of any {name} are known to have {least}"
        return Reason("gpu-memory", message, name, need.gpu_memory)
    if need.demand is None:
        return None
    joined = attrs.evolve(need, gpu_memory=0)
    if any(meets_demand(t, d.gpus, joined) for t, d in places):
        return None
    return Reason("links", f"no {name} has all its GPUs joined by {links(need.demand)}", name)


def _slices(domains: Sequence[Domain]) -> str:
    """A hint on how to ask for slices of GPUs, if *domains* have any."""
    names = sorted({inner.name for domain in domains for inner in domain.mig})
    return f" (slices are asked for as {', '.join(names[:4])})" if names else ""


def _why_no_memory(need: Need, kind: str, domains: Sequence[Domain]) -> Optional[Reason]:
    if any(has_memory(domain, need) for domain in domains):
        return None
    near = max(d.memory if d.capacity is None else d.capacity for d in domains)
    far = max(d.memory + d.cxl if d.capacity is None else d.capacity for d in domains)
    largest = far if need.allow_cxl else near
    have = f"the largest has {size(largest)}" if largest else "none says how much it has"
    if need.allow_cxl and far > near:
        have += ", CXL memory included"
    elif far >= need.memory:
        have += f", with CXL memory {size(far)}: allow_cxl makes it count"
    message = f"no {kind} has {size(need.memory, least=True)} of memory: {have}"
    return Reason("memory", message, kind, need.memory, largest)


def _why_no_gpu_memory(need: Need, kind: str, places: Sequence[Place]) -> Optional[Reason]:
    if not need.gpu_memory or not need.gpus:
        return None
    wanted = size(need.gpu_memory, least=True)
    most = max(idset.size(d.gpus & usable_gpus(t, d, need)) for t, d in places)
    if most >= need.gpus:
        return None
    if most:
        asked = amount(need.gpus, "GPU")
        message = f"no {kind} has {asked} of {wanted} or more: the most that one has is {most}"
        return Reason("gpus", message, kind, need.gpus, most)
    sizes = (t.gpu_memory.get(g, 0) for t, _ in places for g in idset.iterate(t.root.gpus))
    largest = max(sizes, default=0)
    have = (
        f"the largest has {size(largest)}"
        if largest
        else "no node says how much memory its GPUs have"
    )
    message = f"no GPU is known to have {wanted}: {have}"
    return Reason("gpu-memory", message, "GPU", need.gpu_memory, largest)


def _why_not_joined(need: Need, where: str, places: Sequence[Place]) -> Optional[Reason]:
    if need.demand is None or need.gpus < 2:
        return None
    most = 0
    for node_type, domain in places:
        graph = graph_of(node_type.links, need.demand)
        assert graph is not None
        most = max(most, largest_clique(graph, domain.gpus & usable_gpus(node_type, domain, need)))
    if most >= need.gpus:
        return None
    inside = "" if where == "node" else f" of one {where} domain"
    have = f"the largest such set has {most}"
    if all(node_type.links is None for node_type, _ in places):
        have = "no node says how its GPUs are linked"
    message = f"no {need.gpus} GPUs{inside} are joined by {links(need.demand)}: {have}"
    return Reason("links", message, where, need.gpus, most)


def links(demand: Optional[Demand]) -> str:
    """*demand* in words, such as "links of 50 GB/s"."""
    assert demand is not None
    kinds = {"nvlink": "NVLink", "xgmi": "xGMI", "xelink": "Xe Link"}
    kinds[ANY_FAST] = "NVLink, xGMI or Xe Link"
    kind = kinds.get(demand.type, "links")
    return f"{kind} of {demand.gbps:g} GB/s" if demand.gbps else kind


def plural(number: int, what: str) -> str:
    """The word for *number* things that are called *what*."""
    return what if number == 1 else f"{what}s"


def size(number: int, least: bool = False) -> str:
    """A number of bytes in the largest binary unit in which it is 1 or more.

    It is rounded down to a tenth, or up if it is the *least* that will do, so that what is there
    never looks like enough where it is not.
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    exponent = max(0, min(len(units) - 1, (number.bit_length() - 1) // 10))
    tenths = (-10 * number if least else 10 * number) >> 10 * exponent
    whole, tenth = divmod(abs(tenths), 10)
    return f"{whole}{f'.{tenth}' if tenth else ''} {units[exponent]}"
