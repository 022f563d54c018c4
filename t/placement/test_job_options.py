"""What a job's options may say, what they come to, and how bad ones are told."""

from __future__ import annotations

import json
import re

import attrs
import pytest

from made import nodes
from treepool import parse_shape
from treepool.errors import InvalidJobspec
from treepool.placement.pool import Pool
from treepool.placement.request import job_options
from treepool.placement.request.job_options import JobOptions, Same, Segment, Wait, Within
from treepool.placement.request.vertices import request_of
from treepool.rfc.constraint import Constraint
from treepool.rfc.jobspec import from_resources
from treepool.rfc.jobspec import read as read_jobspec

PLACE = "/attributes/system/treepool"

#: What the table of the module says there is.
NAMES = re.findall(r"^``(\w+)``", job_options.__doc__, re.M)


def read(known=("numa", "socket"), mode="preferred", **options):
    """The options on a pool that knows some localities and has a mode."""
    return job_options.read(options, known, mode, ("cell", "switch"))


def refused(*place, **options):
    """The message, less its place: the options name by name."""
    with pytest.raises(InvalidJobspec) as e:
        read(**options)
    pointer = "/".join((PLACE, *place))
    assert str(e.value).startswith(pointer + ": ")
    return str(e.value)[len(pointer) + 2 :]


def test_an_unknown_option_is_told_with_the_known_ones_which_are_those_of_the_modules_table():
    known = ", ".join(sorted(NAMES))
    assert refused(topology="numa") == f"unknown option 'topology', known: {known}"


def test_an_option_like_a_known_one_is_asked_about():
    assert refused(localty="none").startswith("unknown option 'localty' (did you mean 'locality'?)")


@pytest.mark.parametrize("mode", job_options.LOCALITIES)
def test_without_options_the_pools_locality_holds(mode):
    assert read(mode=mode) == JobOptions(mode)


#: The job itself prefers or requires locality.
SAYS = {"says_locality": True}

GOOD = [
    ({"locality": "none"}, {"locality": "none"}),
    ({"locality": "required"}, {"locality": "required", **SAYS}),
    ({"level": "socket"}, {"level": "socket"}),
    ({"topology_policy": "none"}, {"locality": "none"}),
    ({"topology_policy": "restricted"}, {"locality": "required", **SAYS}),
    ({"topology_policy": "single-numa-node"}, {"locality": "required", "level": "numa", **SAYS}),
    ({"topology_scope": "slot"}, {}),
    ({"topology_scope": "node", "level": "socket"}, {"whole_node": True, "level": "socket"}),
    ({"same_numa": "require"}, {"level": "numa"}),
    ({"same_numa": "required"}, {"level": "numa"}),
    ({"same_numa": "preferred"}, SAYS),
    ({"same_numa": "prefer", "locality": "required"}, {"locality": "required", **SAYS}),
    ({"same_numa": "prefer", "level": "socket"}, {"level": "socket", **SAYS}),
    ({"gpu_link": "fast"}, {"gpu_link_type": "fast"}),
    ({"gpu_link": 300}, {"gpu_gbps": 300.0}),
    ({"gpu_memory": 40}, {"gpu_memory": 40 * 2**30}),
    ({"unified_memory": True}, {"unified_memory": True}),
    ({"unified_memory": False}, {}),
    ({"allow_cxl": True}, {"allow_cxl": True}),
    ({"cores": "share"}, {"share_cores": True}),
    ({"window": "dat-1"}, {}),  # of an instance: its scheduler knows more
    ({"same": "driver"}, {"same": Same("driver", required=True)}),
    ({"same": "driver:require"}, {"same": Same("driver", required=True)}),
    ({"same": "driver:prefer"}, {"same": Same("driver", required=False)}),
    ({"within": "cell"}, {"within": (Within("cell"),)}),
    ({"within": "switch:1"}, {"within": (Within("switch"),)}),
    ({"within": "switch:3"}, {"within": (Within("switch", 3),)}),
    ({"segment": "switch:16"}, {"segments": (Segment("switch", 16),)}),
    ({"wait": 0.5, "locality": "required"}, {"wait": Wait(0.5), "locality": "required", **SAYS}),
    ({"switches": 1}, {"within": (Within("switch"),)}),
    ({"switches": 3, "wait": 60}, {"wait": Wait(60.0, Within("switch", 3)), **SAYS}),
    ({"within": "cell", "switches": 2}, {"within": (Within("cell"), Within("switch", 2))}),
    (
        {"within": "cell", "switches": 2, "wait": 60},
        {"within": (Within("cell"),), "wait": Wait(60.0, Within("switch", 2)), **SAYS},
    ),
    ({"within": "cell", "wait": 60}, {"within": (Within("cell"),), "wait": Wait(60.0), **SAYS}),
    # Two limits of one locality: the smaller one says both.
    ({"within": "switch:2", "switches": 2}, {"within": (Within("switch", 2),)}),
    ({"within": "switch:3", "switches": 2}, {"within": (Within("switch", 2),)}),
    ({"within": "switch:1", "switches": 1}, {"within": (Within("switch"),)}),
    (
        {"within": "switch:3", "switches": 2, "wait": 60},
        {"within": (Within("switch", 3),), "wait": Wait(60.0, Within("switch", 2)), **SAYS},
    ),
    (
        {"within": "switch:2", "switches": 3, "wait": 60},
        {"within": (Within("switch", 2),), "wait": Wait(60.0, Within("switch", 2)), **SAYS},
    ),
]


@pytest.mark.parametrize(("options", "changes"), GOOD, ids=[json.dumps(o) for o, _ in GOOD])
def test_an_option_changes_just_what_it_says(options, changes):
    assert read(**options) == attrs.evolve(JobOptions("preferred"), **changes)


def test_every_option_occurs_among_the_good():
    assert {name for options, _ in GOOD for name in options} == set(NAMES)


LOCALITY = "is not one of preferred, required, none"
POLICY = "is not one of none, best-effort, restricted, single-numa-node"
NAME = "is not the name of a locality"
SEGMENT = "is not a locality and a number of nodes, such as switch:16"
SECONDS = "is not a number of seconds above 0 and up to 1e9"
LINK = "is not nvlink, xgmi, xelink, fast or a number of GB/s"
GIB = "is not a number of GiB"
FLAG = "is not true or false"
SAME = "is not the family of a property, such as driver or driver:preferred"
BAD = [
    *((name, None, "null is not ") for name in NAMES),
    *((name, {"a": 1}, "an object is not ") for name in NAMES),
    *((name, "\x1b[2J\n", "'\\x1b[2J\\n' ") for name in NAMES),
    *((name, "x" * 5000, f"'{'x' * 57}...' ") for name in NAMES),
    ("locality", "near", f"'near' {LOCALITY}"),
    ("level", "", f"'' {NAME}"),
    ("level", "rack", "'rack' is not a locality; there are numa, socket"),
    ("topology_policy", "static", f"'static' {POLICY}"),
    ("topology_scope", "pod", "'pod' is not one of slot, node"),
    ("same_numa", "none", "'none' is not one of preferred, required"),
    ("gpu_link", "pcie", f"'pcie' {LINK}"),
    ("gpu_link", 0, f"0 {LINK}"),
    ("gpu_link", 1_000_001, f"1000001 {LINK}"),
    ("gpu_link", 10**400, f"an integer of 1329 bits {LINK}"),
    ("gpu_memory", 0, f"0 {GIB}"),
    ("gpu_memory", 39.5, f"39.5 {GIB}"),
    ("gpu_memory", "40GB", f"'40GB' {GIB}"),
    ("gpu_memory", 2**20 + 1, f"1048577 {GIB}"),
    ("unified_memory", 1, f"1 {FLAG}"),
    ("allow_cxl", 0, f"0 {FLAG}"),
    ("cores", 4, "4 is not share"),
    ("window", "a b", "'a b' is not the name of a window"),
    ("same", "driver:550", f"'driver:550' {SAME}"),
    ("same", "dri\nver", f"'dri\\nver' {SAME}"),
    ("same", True, f"true {SAME}"),
    ("within", "", f"'' {NAME}"),
    ("within", "pod", "'pod' is not a locality above the nodes; there are cell, switch"),
    ("segment", "switch", f"'switch' {SEGMENT}"),
    ("segment", "switch:0", f"'switch:0' {SEGMENT}"),
    ("segment", "switch:1e3", f"'switch:1e3' {SEGMENT}"),
    ("wait", 0, f"0 {SECONDS}"),
    ("wait", "10m", f"'10m' {SECONDS}"),
    ("wait", 1e10, f"10000000000.0 {SECONDS}"),
    ("within", "switch:0", "'0' is not a number of domains, such as 3 or 3:balanced"),
    ("within", "switch:" + "9" * 50, "'999"),
    ("switches", 0, "0 is not a number of domains"),
    ("switches", 1.5, "1.5 is not a number of domains"),
    ("segment", "switc:16", "'switc' is not a locality above the nodes (did you mean 'switch'?)"),
]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    BAD,
    ids=[f"{n}={v!a:.20}" for n, v, _ in BAD],
)
def test_a_bad_value_is_told_with_its_place(name, value, why):
    message = refused(name, **{name: value})
    assert message.startswith(why)
    assert message.isprintable()
    assert len(message) < 200


def test_a_level_of_a_flat_pool_is_told_that_there_is_none():
    assert refused("level", known=(), level="numa") == (
        "'numa' is not a locality; there are none, nodes are flat"
    )


CONTRADICTIONS = [
    (
        "topology_policy",
        {"topology_policy": "restricted", "locality": "none"},
        "'restricted' contradicts locality='none'",
    ),
    (
        "topology_policy",
        {"topology_policy": "single-numa-node", "level": "socket"},
        "'single-numa-node' contradicts level='socket'",
    ),
    (
        "same_numa",
        {"same_numa": "require", "level": "socket"},
        "'require' contradicts level='socket'",
    ),
    ("topology_scope", {"topology_scope": "node"}, "node needs a level"),
    (
        "topology_scope",
        {"topology_scope": "node", "topology_policy": "restricted"},
        "node needs a level",
    ),
    ("wait", {"wait": 60, "locality": "none"}, "60 contradicts locality='none'"),
    (
        "switches",
        {"switches": 2, "within": "cell:3"},
        "2 and within='cell:3': only one of two localities may have several domains",
    ),
    *(
        ("segment", {"segment": "switch:4", **limits}, f"'switch:4' does not go with {said}: seg")
        for limits, said in (
            ({"switches": 2}, "switches=2"),
            ({"switches": 2, "wait": 60}, "switches=2"),
            ({"switches": 2, "within": "cell"}, "switches=2"),
            ({"switches": 1, "within": "switch:2", "wait": 60}, "within='switch:2'"),
            ({"within": "cell:3"}, "within='cell:3'"),
        )
    ),
    (
        "same_numa",
        {"same_numa": "prefer", "locality": "none"},
        "'prefer' contradicts locality='none'",
    ),
]


@pytest.mark.parametrize(
    ("place", "options", "why"), CONTRADICTIONS, ids=[json.dumps(o) for _, o, _ in CONTRADICTIONS]
)
def test_options_that_contradict_each_other_are_refused(place, options, why):
    assert refused(place, **options).startswith(why)
    reverse = dict(reversed(list(options.items())))
    assert refused(place, **reverse).startswith(why)


@pytest.mark.parametrize(
    "options", [{"same_numa": "require"}, {"topology_policy": "single-numa-node"}]
)
def test_where_no_key_names_numa_domains_each_socket_is_one_and_else_the_node(options):
    assert read(("l3", "numa", "socket"), **options).level == "numa"
    assert read(("l3", "socket"), **options).level == "socket"
    assert read(("l3",), **options).level is None


def test_options_may_say_the_same():
    assert read(topology_policy="restricted", locality="required").locality == "required"
    assert read(same_numa="required", topology_policy="single-numa-node", level="numa") == read(
        topology_policy="single-numa-node"
    )


@pytest.mark.parametrize("known", [(), ("socket",)])
def test_a_level_that_the_pool_lacks_is_one_numa_domain_if_that_is_asked_too(known):
    assert read(known, level="numa", same_numa="required") == read(known, same_numa="required")


def test_all_slots_of_a_flat_node_are_in_its_one_numa_domain():
    found = read((), topology_policy="single-numa-node", topology_scope="node")
    assert (found.level, found.whole_node) == (None, False)


def test_waiting_for_locality_is_preferring_it_whatever_the_pools_mode():
    assert read(mode="none", wait=60).locality == "preferred"
    assert read(mode="required", wait=60).locality == "required"


def test_switches_of_a_pool_without_a_fabric_are_told_that_there_are_none():
    with pytest.raises(InvalidJobspec, match="there are no localities above the nodes"):
        job_options.read({"switches": 1}, (), "preferred")


def test_preferring_one_numa_domain_is_preferring_locality_whatever_the_pools_mode():
    assert read(mode="none", same_numa="prefer").locality == "preferred"
    assert read(mode="required", same_numa="prefer").locality == "required"


# -- what a request is then


def node(**execution):
    """A pool of one node of 2 sockets of 2 NUMA domains of 4 cores and a GPU."""
    numa = [{"cores": f"{4 * i}-{4 * i + 3}", "gpus": str(i)} for i in range(4)]
    topo = {"socket": [{"numa": numa[:2]}, {"numa": numa[2:]}]}
    return Pool(nodes("0", "0-15", "0-3", topo, **execution))


POOL = node()


def request(shape, constraints=None, **options):
    spec = from_resources(parse_shape(shape), constraints=constraints, options=options)
    return POOL.parse_resource_request(spec)


@pytest.mark.parametrize(
    ("options", "shape", "written_out"),
    [
        ({"level": "numa"}, "slot=2/core=3", "slot=2/numa/core=3"),
        ({"level": "socket"}, "slot/[core=3;gpu=1]", "slot/socket/[core=3;gpu=1]"),
        ({"level": "numa"}, "slot/node/core=3", "slot/node/numa/core=3"),
        ({"same_numa": "require"}, "slot=2/core=3", "slot=2/numa/core=3"),
        (
            {"level": "socket", "topology_scope": "node"},
            "node=2/slot=2/[core;gpu]",
            "node=2/socket/slot=2/[core;gpu]",
        ),
    ],
)
def test_a_level_is_the_same_as_that_locality_in_the_shape(options, shape, written_out):
    assert request(shape, **options) == request(written_out)
    assert request(shape, **options) != request(shape)


def test_single_numa_node_is_the_level_and_required():
    assert request("slot/core", topology_policy="single-numa-node") == request(
        "slot/numa/core", locality="required"
    )


@pytest.mark.parametrize(
    ("shape", "options", "why"),
    [
        ("slot/numa/core", {"level": "socket"}, "names localities above or below 'slot'"),
        ("socket/slot/core", {"level": "numa"}, "names localities above or below 'slot'"),
        (
            "slot/core",
            {"level": "numa", "topology_scope": "node"},
            "a node must stand above 'slot'",
        ),
    ],
)
def test_a_level_that_the_shape_leaves_no_room_for_is_refused(shape, options, why):
    with pytest.raises(InvalidJobspec, match=why):
        request(shape, **options)


@pytest.mark.parametrize(
    ("shape", "options", "why"),
    [
        (
            "switch=2/node=4/slot/core",
            {"switches": 2},
            "/resources/0/with/0/with/0: 2 domains of 'switch' at most are asked for,"
            " but the jobspec names 'switch' above 'slot'",
        ),
        (
            "slot=2/switch/node=4/core",
            {"segment": "cell:2"},
            "/resources/0: segments are asked for, but the jobspec names 'switch' below 'slot'",
        ),
        (
            "slot=8/core",
            {"segment": "cell:2"},
            "/resources/0: segments need a number of nodes, but no node is above or below 'slot'",
        ),
        (
            "slot=1-3/node=2/core",
            {"segment": "cell:2"},
            "/resources/0: segments need a fixed number of nodes, but it is a range for 'slot'",
        ),
        (
            "switch=2/node=4/slot/core",
            {"segment": "cell:8"},
            "/resources/0/with/0/with/0: segments of 8 nodes do not divide the 4 nodes"
            " in each 'switch' of 'slot'",
        ),
    ],
)
def test_what_a_shape_says_above_the_nodes_is_named_where_an_option_does_not_go_with_it(
    shape, options, why
):
    spec = read_jobspec(from_resources(parse_shape(shape), options=options))
    with pytest.raises(InvalidJobspec) as e:
        request_of(spec, ("numa", "socket"), "preferred", ("cell", "switch"))
    assert str(e.value) == why


def test_unified_memory_is_a_property_beside_the_jobs_own_constraint():
    unified, mine = Constraint("properties", ("unified-memory",)), Constraint("ranks", ("0",))
    both = Constraint("and", parts=(unified, mine))
    assert request("slot/core", unified_memory=True).constraint == unified
    assert request("slot/core", {"ranks": ["0"]}, unified_memory=True).constraint == both
    assert request("slot/core", {"ranks": ["0"]}, unified_memory=False).constraint == mine
