"""What is legal in the key of an instance, but probably not meant, stands in the log at load."""

import pytest

from broker import Instance
from made import nodes

#: A key of one of two ranks, with ids that R lacks and a table of links for no topo.
KEY = {
    "writer": "TreePool",
    "children": [{"ranks": "0", "topo": {"numa": [{"cores": "0-3"}, {"cores": "4-9"}]}}],
    "links": {"0" * 64: {"links": []}},
}


def instance(key):
    """Two nodes with this *key*, one broker for both."""
    return Instance(R={**nodes("0-1", nodelist=["fake[0-1]"]), "scheduling": key})


def log(instance, *words):
    """The log of a scheduler that is loaded by *words*."""
    instance.flux("module", "remove", instance.scheduler)
    instance.flux("dmesg", "-C")
    instance.load(*words)
    instance.wait(instance.submit("-n1"), "alloc")
    return instance.log().splitlines()


@pytest.fixture(scope="module")
def keyed():
    with instance(KEY) as keyed:
        keyed.scheduler = "sched-simple"
        yield keyed


@pytest.mark.parametrize("words", [("sched-treepool",), ("sched-simple", "pool-class=TreePool")])
def test_a_key_that_says_less_or_more_than_R_is_warned_of_once_each(keyed, words):
    for _ in range(2):  # the second time there is a job, which is told without another word
        told = [line.partition(": ")[2] for line in log(keyed, *words) if ".warning[" in line]
        assert len(told) == 3
        assert told[0].startswith("R: /scheduling/children: rank 1 has no entry")
        assert "no topo of the key has this digest" in told[1]
        assert told[2].startswith("R: /scheduling/children/0/topo: cores 8-9 are not in R_lite")
    keyed.cancel_all()


def test_sched_treepool_says_whose_key_it_does_not_read():
    with instance({**KEY, "writer": "graph:x"}) as other:
        other.scheduler = "sched-simple"
        said = log(other, "sched-treepool")
    assert not [line for line in said if ".warning[" in line]
    told = {line.partition("]: ")[2] for line in said if "topology: " in line}
    assert told == {"topology: the key in R is that of 'graph:x', nodes are flat"}
