"""Counts with a choice against Flux's own validator: how to submit them, what a site allows."""

import json
import re

import pytest

from broker import REPOSITORY, Failed
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "requests.md").read_text()

SHAPE = "slot=1-8/core=2"

#: What a job of it gets.
PLACED = [("0-1", "0-7", "")]


def the_block(language, word):
    """The only fenced block of the guide in *language* that has *word*."""
    (block,) = (block for block in blocks(GUIDE, language) if word in block)
    return block


def version_of_the_guide(instance, shape):
    """The jobspec of *shape*, with the version that the guide gives it."""
    spec = json.loads(instance.shape(shape, "--dry-run"))
    assert ".version = 2" in the_block("sh", "jq")
    return json.dumps({**spec, "version": 2})


REFUSED = "resource count must be an integer for type 'slot'"


def test_flux_refuses_a_count_with_a_choice_unless_its_validator_is_left_out(small, idle):
    small.load("sched-treepool")
    with pytest.raises(Failed, match=REFUSED) as refused:
        small.shape(SHAPE)
    _, said = the_block("", "[Errno 1]").splitlines()
    assert said in str(refused.value)
    with pytest.raises(Failed, match="version must be 1"):
        small.flux("job", "submit", stdin=version_of_the_guide(small, SHAPE))
    assert small.placed(small.shape(SHAPE, "--flags=novalidate")) == PLACED


def test_a_site_allows_it_with_another_version_of_jobspec(small):
    setting = r"\[ingest.validator\]\nargs = (.*)\n"
    found = re.fullmatch(setting, the_block("toml", "require-version"))
    validator = {"args": json.loads(found[1])}
    with small.configured(ingest={"validator": validator}):
        with pytest.raises(Failed, match=REFUSED):
            small.shape(SHAPE)
        job = small.flux("job", "submit", stdin=version_of_the_guide(small, SHAPE))
        assert small.placed(job) == PLACED


def test_without_the_plugin_jobspec_flux_submit_is_accepted(small):
    assert '`plugins = ["feasibility"]`' in GUIDE
    with small.configured(ingest={"validator": {"plugins": ["feasibility"]}}):
        assert small.placed(small.shape(SHAPE)) == PLACED


def test_with_queues_flux_wants_a_core_in_a_slot_of_several_nodes(small):
    without = "slot/node=2"
    assert f"`flux submit --resources-shape='{without}/core'`" in GUIDE
    with small.configured(queues={"batch": {"requires": []}}):
        with pytest.raises(Failed, match="Unable to determine slot size"):
            small.shape(without, "--queue=batch")
        assert small.placed(small.shape(f"{without}/core", "--queue=batch"))
