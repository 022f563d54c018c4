"""How far NUMA nodes are from each other, and which of hwloc's matrices and attributes says it."""

from __future__ import annotations

from typing import Mapping, Optional

from treepool.discovery.hwlocxml import Distances, Object, Topology, index

#: Distances between NUMA nodes, by the operating system's numbers.
Between = Mapping[tuple[int, int], int]

#: ACPI's distance of a NUMA node from itself.
_LOCAL = 10

#: hwloc's bit for a kind of matrix in which a larger value is nearer.
_BANDWIDTH = 8


def numa_distances(topology: Topology) -> Between:
    """The distances between all NUMA nodes that have any, 10 for the local one.

    The first source that has all of them is used: a matrix of latencies (Linux has one), the memory
    attribute Latency, a matrix of bandwidths, or the memory attribute Bandwidth.
    """
    nodes = {n.attributes.get("gp_index", ""): n for n in topology.root.walk() if _is_numa(n)}
    matrices = [found for d in topology.distances if (found := _matrix(d, nodes))]
    for larger_is_nearer in (False, True):
        for kind, values in matrices:
            if larger_is_nearer == bool(kind & _BANDWIDTH):
                return _scaled(values, larger_is_nearer)
        name = "Bandwidth" if larger_is_nearer else "Latency"
        attributes = _attributes(topology, name, nodes)
        if attributes:
            return _scaled(attributes, larger_is_nearer)
    return {}


def _is_numa(item: Object) -> bool:
    return item.type == "NUMANode" and item.os_index >= 0


def _matrix(matrix: Distances, nodes: Mapping[str, Object]) -> Optional[tuple[int, Between]]:
    """The kind and the values of a matrix, if it is about NUMA nodes and square."""
    size = len(matrix.objects)
    numbers = []
    for key in matrix.objects:
        kind, _, text = key.partition(":")
        if kind != "NUMANode":
            return None
        if matrix.by_gp:
            numbers.append(nodes[text].os_index if text in nodes else -1)
        else:
            numbers.append(index(text))
    if not size or len(matrix.values) != size**2 or len(set(numbers)) < size or -1 in numbers:
        return None
    pairs = ((a, b) for a in numbers for b in numbers)
    return matrix.kind, dict(zip(pairs, matrix.values))


def _attributes(topology: Topology, name: str, nodes: Mapping[str, Object]) -> Between:
    """The memory attribute *name* of each NUMA node from the CPUs of each; {} if one is missing."""
    by_cpuset = {node.cpuset: node.os_index for node in nodes.values() if node.cpuset}
    found = {
        (by_cpuset[value.initiator], nodes[value.target].os_index): value.value
        for value in topology.memory_values
        if value.name == name and value.initiator in by_cpuset and value.target in nodes
    }
    numbers = {number for pair in found for number in pair}
    return found if len(found) == len(numbers) ** 2 else {}


def _scaled(values: Between, larger_is_nearer: bool) -> Between:
    """*values* as distances, 10 being the least of a NUMA node from its own CPUs."""
    own = [value for (a, b), value in values.items() if a == b and value]
    if not own or not all(values.values()):
        return {}
    if larger_is_nearer:
        return {pair: round(_LOCAL * max(own) / value) for pair, value in values.items()}
    return {pair: round(_LOCAL * value / min(own)) for pair, value in values.items()}
