"""What is legal in the key of an instance, but probably not meant, stands in the log at load."""

import json

import pytest

from broker import Instance

NUMA = [{"cores": "0-3"}, {"cores": "4-9"}]


def key(**more):
    """A key of one of two ranks, with ids that R lacks and a table of links for no topo."""
    return {
        "writer": "TreePool",
        "children": [{"ranks": "0", "topo": {"numa": NUMA}}],
        "links": {"0" * 64: {"links": []}},
        **more,
    }


@pytest.fixture
def log(request, tmp_path):
    """The log of a scheduler module that is loaded where R has this key."""
    scheduling, words = request.param
    path = tmp_path / "R.json"
    execution = {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-7"}}],
        "nodelist": ["fake[0-1]"],
        "starttime": 0,
        "expiration": 0,
    }
    R = {"version": 1, "execution": execution, "scheduling": scheduling}
    path.write_text(json.dumps(R))
    with Instance(0, conf=[f"resource.path={path}", "resource.noverify=true"]) as instance:
        instance.flux("module", "remove", "sched-simple")  # that of the start, which warns too
        instance.flux("dmesg", "-C")
        instance.load(*words)
        instance.wait(instance.submit("-n1"), "alloc")  # a job is hello'd without another word
        instance.load(*words)
        instance.wait(instance.submit("-n1"), "alloc")
        yield instance.log().splitlines()


@pytest.fixture
def loaded(log):
    """Its warnings."""
    return [line for line in log if ".warning[" in line]


ANY_POOL = [("sched-treepool",), ("sched-simple", "pool-class=TreePool")]


@pytest.mark.parametrize("log", [(key(), words) for words in ANY_POOL], indirect=True)
def test_a_key_that_says_less_or_more_than_R_is_warned_of_once_each(loaded):
    told = [line.partition(": ")[2] for line in loaded]
    first = told[: len(told) // 2]
    assert told == first * 2  # once at each load
    assert len(first) == 3
    assert first[0].startswith("R: /scheduling/children: rank 1 has no entry")
    assert "no topo of the key has this digest" in first[1]
    assert first[2].startswith("R: /scheduling/children/0/topo: cores 8-9 are not in R_lite")


@pytest.mark.parametrize("log", [(key(writer="graph:x"), ("sched-treepool",))], indirect=True)
def test_sched_treepool_says_whose_key_it_does_not_read(log):
    assert not [line for line in log if ".warning[" in line]
    told = {line.partition("]: ")[2] for line in log if "topology: " in line}
    assert told == {"topology: the key in R is that of 'graph:x', nodes are flat"}
