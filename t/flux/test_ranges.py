"""Counts with a choice against Flux's own validator: how to submit them, what a site allows."""

import json

import pytest

from broker import REPOSITORY, Failed, Instance
from documents import blocks

GUIDE = (REPOSITORY / "doc" / "requests.md").read_text()

SHAPE = "slot=1-8/core=2"


def the_block(language, word):
    """The only fenced block of the guide in *language* that has *word*."""
    (block,) = (block for block in blocks(GUIDE, language) if word in block)
    return block


@pytest.fixture(scope="module")
def plain():
    """One node of 8 cores, with Flux's validator as it comes."""
    with Instance(1, 8, 0) as instance:
        instance.load("sched-treepool")
        yield instance


@pytest.fixture(scope="module")
def allowing():
    """The same where the site has what the guide says."""
    table, setting = the_block("toml", "require-version").splitlines()
    conf = f"{table.strip('[]')}.{setting.replace(' ', '')}"
    with Instance(1, 8, 0, conf=[conf]) as instance:
        instance.load("sched-treepool")
        yield instance


def version_of_the_guide(instance, shape):
    """The jobspec of *shape*, with the version that the guide gives it."""
    spec = json.loads(instance.shape(shape, "--dry-run"))
    assert ".version = 2" in the_block("sh", "jq")
    return json.dumps({**spec, "version": 2})


REFUSED = "resource count must be an integer for type 'slot'"


def test_flux_refuses_a_count_with_a_choice_unless_the_owner_does_without_the_validator(plain):
    with pytest.raises(Failed, match=REFUSED) as refused:
        plain.shape(SHAPE)
    _, said = the_block("", "[Errno 1]").splitlines()
    assert said in str(refused.value)
    with pytest.raises(Failed, match="version must be 1"):
        plain.flux("job", "submit", stdin=version_of_the_guide(plain, SHAPE))
    job = plain.shape(SHAPE, "--flags=novalidate")
    assert plain.placed(job) == [("0", "0-7", "")]
    plain.cancel_all()


def test_a_site_allows_it_with_another_version_of_jobspec(allowing):
    with pytest.raises(Failed, match=REFUSED):
        allowing.shape(SHAPE)
    job = allowing.flux("job", "submit", stdin=version_of_the_guide(allowing, SHAPE))
    assert allowing.placed(job) == [("0", "0-7", "")]
    allowing.cancel_all()


def test_without_the_plugin_jobspec_flux_submit_is_accepted():
    setting = 'plugins = ["feasibility"]'
    assert f"`{setting}`" in GUIDE
    with Instance(1, 8, 0, conf=[f"ingest.validator.{setting.replace(' ', '')}"]) as instance:
        instance.load("sched-treepool")
        assert instance.placed(instance.shape(SHAPE)) == [("0", "0-7", "")]
        instance.cancel_all()


def test_with_queues_flux_wants_a_core_in_a_slot_of_several_nodes():
    without = "slot/node=2"
    assert f"`flux submit --resources-shape='{without}/core'`" in GUIDE
    with Instance(2, 8, 0, conf=["queues.batch.requires=[]"]) as instance:
        instance.load("sched-treepool")
        instance.flux("queue", "start", "--all", "--quiet")
        with pytest.raises(Failed, match="Unable to determine slot size"):
            instance.shape(without, "--queue=batch")
        assert instance.placed(instance.shape(f"{without}/core", "--queue=batch"))
        instance.cancel_all()
