"""Nodes for the tests of discovery: types of devices, matrices, real files, a pool of one node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

import attrs

from hwlocfile import Device, Made, distances
from treepool.discovery.key import Nodes, encode_new
from treepool.discovery.levels import NodeTopo
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.rfc.shape import parse_shape

#: PCI types of devices, in hwloc's form.
MI250X = "0380 [1002:7408] [1002:0b0c] 00"
MI300A = "1200 [1002:74a0] [1002:74a0] 00"
CONNECTX = "0207 [15b3:1021] [15b3:0041] 00"

#: Files of real nodes lie beside the checkout, because they may not be copied into it.
SHARED = Path(__file__).parents[3] / "shared"


def numbers_of(xml: str, kind: str) -> list[int]:
    """The gp_index of each object of a type, in the order of *xml*."""
    return [int(number) for number in re.findall(rf'type="{kind}".*?gp_index="(\d+)"', xml)]


def with_matrix(name: str, mbps: int, devices: Sequence[Device], **form: int) -> Made:
    """A machine with *devices*, and a matrix *name* that joins any two of its OS devices.

    The diagonal has another value, which means nothing.
    """
    made = Made(devices=devices, **form)
    numbers = numbers_of(made.xml(), "OSDev")
    values = [1_000_000 if a == b else mbps for a in numbers for b in numbers]
    return attrs.evolve(made, more=distances(name, "OSDev", numbers, values))


class OneNode:
    """A pool of one node; ``alloc`` returns what R_lite says of each next job."""

    def __init__(self, node: NodeTopo) -> None:
        self.R = encode_new([Nodes(1, node)], ["host"]).R.to_dict()
        self.pool = Pool(self.R)
        self.jobs = 0

    def alloc(self, shape: str) -> dict[str, str]:
        self.jobs += 1
        request = self.pool.parse_resource_request(from_resources(parse_shape(shape)))
        R = self.pool.alloc(self.jobs, request).to_dict()
        return R["execution"]["R_lite"][0]["children"]
