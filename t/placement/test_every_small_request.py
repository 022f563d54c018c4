"""Which resource lists are refused: every list of a few vertices, and the rules that refuse it."""

from __future__ import annotations

from itertools import product
from typing import Any, Iterator

import pytest

from made import nodes
from placement.duel import outcome
from placement.reference import ReferencePool
from placement.strategies import jobspec
from placement.wanted import places
from treepool.errors import InvalidJobspec
from treepool.placement.pool import Pool

SOCKETS = [{"cores": "0-1", "gpus": "0"}, {"cores": "2-3", "gpus": "1"}]
R = nodes("0-1", "0-3", "0-1", {"socket": SOCKETS})

#: A forest as nested tuples: each item is a tree, and has the trees below it.
Forest = tuple[Any, ...]


def forests(vertices: int) -> Iterator[Forest]:
    """All ordered forests of so many vertices."""
    if not vertices:
        yield ()
    for below in range(vertices):
        for inner, beside in product(forests(below), forests(vertices - 1 - below)):
            yield (inner, *beside)


def chains(vertices: int) -> Iterator[Forest]:
    """The forest in which each vertex is below the one before."""
    chain: Forest = ()
    for _ in range(vertices):
        chain = (chain,)
    yield chain


def filled(forest: Forest, values: Iterator[Any]) -> list[dict[str, Any]]:
    """*forest* as a resource list, its vertices given the keys in *values* from the top."""
    made = []
    for inner in forest:
        one = {"count": 1, **next(values)}
        made.append({**one, "with": filled(inner, values)} if inner else one)
    return made


TYPES = [{"type": kind} for kind in ("node", "slot", "socket", "core", "gpu", "memory")]
FEW = [{"type": kind} for kind in ("node", "slot", "socket", "core")]
EXCLUSIVE = [*TYPES, *({**kind, "exclusive": said} for kind in TYPES for said in (True, False))]
SLOTS = [kind for kind in EXCLUSIVE if kind["type"] in ("slot", "socket", "core")]
KEYS = [
    *TYPES,
    {"type": "rack"},
    {"type": "storage"},
    *({**kind, **more} for kind in TYPES for more in ({"unit": "GB"}, {"unit": "x"}, {"id": "0"})),
]


@pytest.mark.parametrize(
    ("shapes", "vertices", "kinds"),
    [
        *((forests, number, TYPES) for number in (1, 2, 3)),
        (forests, 2, EXCLUSIVE),
        (forests, 2, KEYS),
        pytest.param(forests, 4, TYPES, marks=pytest.mark.depth),
        pytest.param(chains, 5, FEW, marks=pytest.mark.depth),
        pytest.param(forests, 3, EXCLUSIVE, marks=pytest.mark.depth),
        pytest.param(chains, 4, SLOTS, marks=pytest.mark.depth),
        pytest.param(forests, 3, KEYS, marks=pytest.mark.depth),
    ],
)
def test_the_reader_refuses_what_a_rule_refuses_and_nothing_else(shapes, vertices, kinds):
    pool, reference = Pool(R), ReferencePool(R)
    for shape in shapes(vertices):
        for keys in product(kinds, repeat=vertices):
            spec = jobspec(filled(shape, iter(keys)))
            found = list(places(spec["resources"]))
            if any(p.kind == "slot" and not p.children for p in found):
                continue  # no RFC 14 resource list
            want = outcome(lambda spec=spec: reference.wanted(spec))
            request = outcome(lambda spec=spec: pool.parse_resource_request(spec))
            assert (want is InvalidJobspec) == (request is InvalidJobspec), spec["resources"]
            assert want is InvalidJobspec or not isinstance(request, type), spec["resources"]
