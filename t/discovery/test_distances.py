"""Distances between NUMA nodes, from hwloc's matrices and memory attributes."""

from __future__ import annotations

import re

import pytest

import hwlocfile
from discovery.nodes import numbers_of
from hwlocfile import Made
from treepool.discovery import binding
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import topo_of
from treepool.discovery.task import Task
from treepool.rfc.links import Distances

#: Two sockets of two NUMA nodes each, as Linux reports them (ACPI's SLIT).
SLIT = [10, 12, 32, 32, 12, 10, 32, 32, 32, 32, 10, 12, 32, 32, 12, 10]
ROWS = tuple(tuple(SLIT[i : i + 4]) for i in range(0, 16, 4))

#: GB/s between them; 250 is local.
BANDWIDTH = [{10: 250, 12: 200, 32: 80}[value] for value in SLIT]


def by_os(name, kind, values):
    numbers = " ".join(map(str, values))
    return (
        f'<distances2 type="NUMANode" nbobjs="4" kind="{kind}" name="{name}" indexing="os">\n'
        f'<indexes length="8">0 1 2 3 </indexes>\n<u64values length="9">{numbers} </u64values>\n'
        "</distances2>\n"
    )


def attributes(name, values, drop=0):
    """Memory attributes from each NUMA node's CPUs to each node, such as an HMAT has."""
    text = Made().xml()
    nodes = re.findall(r'type="NUMANode" cpuset="(\w+)".*?gp_index="(\d+)"', text)
    lines = [
        f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="{target}" '
        f'value="{values[4 * i + j]}" initiator_cpuset="{cpuset}"/>'
        for i, (cpuset, _) in enumerate(nodes)
        for j, (_, target) in enumerate(nodes)
    ]
    return f'<memattr name="{name}" flags="5">{"".join(lines[drop:])}</memattr>\n'


def by_gp(name, *last):
    """A matrix of the NUMA nodes by gp_index; that of the last one is *last*, if given."""
    numbers = numbers_of(Made().xml(), "NUMANode")
    numbers = [*numbers[: 4 - len(last)], *last]
    matrix = hwlocfile.distances(name, "NUMANode", numbers, SLIT)
    return matrix.replace('kind="9"', 'kind="5"')


def distances(more, levels=None, **form):
    links = topo_of(read_hwloc(Made(more=more, **form).xml()), levels).machine.links
    return links and links.distances


@pytest.mark.parametrize(
    "more",
    [
        by_os("NUMALatency", 5, SLIT),
        by_os("", 5, SLIT),
        by_gp("NUMALatency"),
        attributes("Latency", SLIT),
        by_os("NUMALatency", 5, [8 * value for value in SLIT]),
        attributes("Bandwidth", BANDWIDTH) + by_os("NUMALatency", 5, SLIT),
        by_gp("NUMALatency", 9999) + attributes("Latency", SLIT),  # of a node that is not there
    ],
)
def test_latencies_are_distances_with_ten_for_local(more):
    assert distances(more) == Distances("numa", ROWS)


@pytest.mark.parametrize(
    "more", [by_os("NUMABandwidth", 9, BANDWIDTH), attributes("Bandwidth", BANDWIDTH)]
)
def test_a_larger_bandwidth_is_a_smaller_distance(more):
    found = distances(more)
    assert found.values[0] == (10, 12, 31, 31)


@pytest.mark.parametrize(
    "more",
    [
        "",
        by_os("NUMALatency", 5, [10] * 16),  # all alike
        by_os("NUMALatency", 5, [value or 21 for value in SLIT][:15]),
        by_os("NUMALatency", 5, SLIT).replace("0 1 2 3 ", "0 1 2 2 "),
        by_os("NUMALatency", 5, SLIT).replace("0 1 2 3 ", "0 1 2 x "),
        by_os("NUMALatency", 5, SLIT).replace("0 1 2 3 ", f"0 1 2 {'9' * 5000} "),
        by_os("NUMALatency", 5, [0] * 16),
        attributes("Latency", SLIT, drop=1),
        by_os("NUMALatency", 5, SLIT).replace("NUMANode", "Package"),
    ],
)
def test_incomplete_or_equal_distances_are_left_out(more):
    assert distances(more) is None


def test_distances_are_between_the_domains_that_are_numa_nodes():
    assert distances(by_os("NUMALatency", 5, SLIT), packages=4, numas=1).locality == "socket"
    assert distances(by_os("NUMALatency", 5, SLIT), ["numa"]).locality == "numa"
    assert distances(by_os("NUMALatency", 5, SLIT), ["socket"]) is None


def test_the_preferred_numa_node_is_the_one_nearest_to_all_cores():
    # Four cores in each of the outer nodes and three in the middle one, to which both are near.
    line = [10, 12, 40, 12, 10, 12, 40, 12, 10]
    more = by_os("NUMALatency", 5, line).replace("0 1 2 3 ", "0 1 2 ").replace('"4"', '"3"')
    made = Made(packages=3, numas=1, smt=1, more=more)
    task = Task(read_hwloc(made.xml()), 0xF7F)
    assert binding.numactl_option(task.machine, binding.bind(task), "preferred") == "--preferred=1"
    # The matrix lacks the last node, which is not the nearest for that reason.
    partial = by_os("NUMALatency", 5, [10, 12, 12, 10]).replace("0 1 2 3 ", "0 1 ")
    some = Task(read_hwloc(Made(packages=3, numas=1, smt=1, more=partial).xml()), 0xFF3)
    assert binding.numactl_option(some.machine, binding.bind(some), "preferred") == "--preferred=1"
    alone = Task(read_hwloc(Made(packages=3, numas=1, smt=1).xml()), 0xF7F)
    assert binding.numactl_option(alone.machine, binding.bind(alone), "preferred") == (
        "--preferred=0"
    )
