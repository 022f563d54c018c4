"""MIG: slices of GPUs are for who asks them by the name of their profile."""

from __future__ import annotations

from itertools import accumulate

import pytest

from made import asked, nodes
from placement.test_gpu_link import given, node_R
from treepool.errors import InfeasibleRequest, TooComplex
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.links import Links, Wire

#: One full GPU and four slices, two of them on the second NUMA domain without any full one.
TOPO = {
    "numa": [
        {"cores": "0-3", "gpus": "0-2", "mig-1g.10gb": [{"cores": "2-3", "gpus": "1-2"}]},
        {"cores": "4-7", "mig-1g.10gb": [{"cores": "4-7", "gpus": "3-4"}]},
    ]
}


def pool(**options):
    return Pool(node_R(None, TOPO, "0-7", "0-4"), **options)


def test_reasons_count_full_gpus_and_slices_apart():
    with pytest.raises(InfeasibleRequest, match=r"2 GPUs: the largest has 1 \(slices .* mig-1g"):
        given(pool(), "slot/[core;gpu=2]")
    with pytest.raises(InfeasibleRequest, match=r"no mig-1g.10gb domain has 3 GPUs: .* has 2$"):
        given(pool(), "slot/mig-1g.10gb/[core;gpu=3]")


def test_slices_have_no_part_in_links():
    links = Links.from_matrix({(0, 1): Wire("nvlink", 50), (1, 2): Wire("nvlink", 50)})
    cluster = Pool(node_R(links, TOPO, "0-7", "0-4"))
    with pytest.raises(InfeasibleRequest, match="no node has 2 GPUs: the largest has 1"):
        given(cluster, "slot/[core;gpu=2]", gpu_link=50)


#: Cores and GPUs of NUMA domains in which a search for SLOTS is long: these need 16 GPUs, one more
#: than there are, but the search counts the slices, too, before it tries.
SIZES = ((7, 3), (4, 3), (8, 1), (4, 3), (3, 3), (3, 2))
SLOTS = "node=2/slot=4/[numa=3/[core;gpu];core=2;gpu]"


@pytest.mark.parametrize("shape", [SLOTS, f"switch/{SLOTS}"])
@pytest.mark.parametrize("options", [{}, {"within": "switch"}, {"same": "driver"}])
def test_a_search_beside_slices_that_is_given_up_is_no_no_in_any_domain(shape, options):
    ends = [list(accumulate(sizes)) for sizes in zip(*SIZES)]
    numa = [
        {
            "cores": f"{cores - ncores}-{cores - 1}",
            "gpus": idset.encode_ids(range(gpus - ngpus, gpus)),
        }
        for (ncores, ngpus), cores, gpus in zip(SIZES, *ends)
    ]
    cores, gpus = ends[0][-1], ends[1][-1]
    topo = {"numa": numa, "mig-1g.10gb": [{"gpus": f"{gpus}-{gpus + 7}", "cores": str(cores)}]}
    fabric = {"switch": [{"ranks": "0-1"}, {"ranks": "2-3"}]}
    drivers = {"driver:1": "0-3"}
    R = nodes("0-3", f"0-{cores}", f"0-{gpus + 7}", topo, fabric=fabric, properties=drivers)
    cluster = Pool(R)
    request = asked(cluster, shape, **options)
    for _ in range(2):  # also if it is known that a search was given up
        with pytest.raises(TooComplex):
            cluster.check_feasibility(request)
        with pytest.raises(TooComplex):
            cluster.alloc(1, request)


def test_slices_without_cores_are_asked_for_with_a_core_beside_them():
    topo = {
        "numa": [{"cores": "0-7", "gpus": "0-2", "mig-1g.10gb": [{"gpus": "1"}, {"gpus": "2"}]}]
    }
    some = Pool(node_R(None, topo, "0-7", "0-2"))
    for shape in ("slot/mig-1g.10gb{x}", "slot/mig-1g.10gb"):
        with pytest.raises(InfeasibleRequest, match="a slot needs one: ask for core=1 beside it"):
            given(some, shape)
    assert given(some, "slot/[core=1;mig-1g.10gb{x}]") == {"core": "0", "gpu": "1"}
