"""Fixtures of the conformance tests."""

import json

import pytest

from commandline import run
from treepool.cli.files import data_folder


@pytest.fixture
def conformance(capsys, tmp_path):
    """``conformance(*argv)`` runs the command; documents become files named after their place."""

    def conformance(*argv):
        words = []
        for i, word in enumerate(argv):
            if isinstance(word, dict):
                path = tmp_path / f"{i}.json"
                path.write_text(json.dumps(word))
                word = path
            words.append(word)
        return run(capsys, "conformance", *words)

    return conformance


@pytest.fixture
def cluster_a():
    """The document of RFC 49's cluster A."""
    return json.loads((data_folder("testvectors") / "rfc49-cluster-a.json").read_text())
