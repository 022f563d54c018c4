"""The packaged vectors: under either policy, and told apart. test_command.py plays all of them."""

import json

import pytest

from commandline import REPOSITORY
from treepool.cli import vectors
from treepool.cli.files import data_folder

DOCUMENTS = {
    path.stem: json.loads(path.read_text())
    for path in sorted(data_folder("testvectors").glob("*.json"))
}
OURS = {name: document for name, document in DOCUMENTS.items() if name.startswith("treepool-")}


@pytest.mark.parametrize("cluster", ["a", "b"])
def test_the_clusters_of_the_rfc_have_the_keys_that_it_prints(cluster):
    printed = REPOSITORY / "t" / "rfc" / "data" / f"rfc49-cluster-{cluster}.json"
    key = DOCUMENTS[f"rfc49-cluster-{cluster}"]["cluster"]["R"]["scheduling"]
    assert key == json.loads(printed.read_text())


@pytest.mark.parametrize("policy", ["packing", "best-fit"])
@pytest.mark.parametrize("name", ["rfc49-cluster-a", "rfc49-cluster-b"])
def test_the_rfcs_own_hold_under_the_default_and_under_its_own_order(name, policy):
    assert "options" not in DOCUMENTS[name]
    played = list(vectors.play({**DOCUMENTS[name], "options": {"policy": policy}}))
    assert played and all(result.passed for result in played)


def test_no_two_vectors_of_any_files_have_the_same_id():
    ids = [result.id for document in DOCUMENTS.values() for result in vectors.play(document)]
    assert len(set(ids)) == len(ids)


def test_treepools_own_say_that_they_are_not_the_rfcs():
    assert OURS
    for document in OURS.values():
        assert document["source"].startswith("treepool, not RFC 49")
