"""The words of a refusal: what an unknown type was probably meant to be, which constraint fails."""

from __future__ import annotations

import pytest

from treepool import Pool, parse_shape
from treepool.errors import InvalidJobspec
from treepool.rfc.jobspec import from_resources


@pytest.fixture(scope="module")
def pool() -> Pool:
    """Four nodes with two sockets each."""
    sockets = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    return Pool(
        {
            "version": 1,
            "execution": {
                "R_lite": [{"rank": "0-3", "children": {"core": "0-7", "gpu": "0-1"}}],
                "nodelist": ["n[0-3]"],
                "properties": {"red": "0-1", "blue": "2-3"},
                "starttime": 0,
                "expiration": 0,
            },
            "scheduling": {
                "writer": "TreePool",
                "children": [{"ranks": "0-3", "topo": {"socket": sockets}}],
            },
        }
    )


@pytest.mark.parametrize(
    ("shape", "meant"),
    [
        ("slot/cores=2", "core"),
        ("slot/[core;mem=4]", "memory"),
        ("nodes=2/slot/core", "node"),
        ("slot/gpus=1", "gpu"),
        ("slot/sockets{x}", "socket"),
        ("slot/Socket{x}", "socket"),
    ],
)
def test_an_unknown_type_suggests_the_nearest_name_that_the_pool_knows(
    pool: Pool, shape: str, meant: str
) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        pool.parse_resource_request(from_resources(parse_shape(shape)))
    assert (
        f"(did you mean {meant!r}?); this pool knows node, slot, core, gpu, memory, storage, socket"
        in str(caught.value)
    )


def test_a_type_like_no_other_suggests_nothing(pool: Pool) -> None:
    with pytest.raises(InvalidJobspec) as caught:
        pool.parse_resource_request(from_resources(parse_shape("slot/rack/core")))
    assert "unknown resource type 'rack'; this pool knows" in str(caught.value)
