"""Inputs that once made a parser misbehave, and good ones: each gets an answer."""

from pathlib import Path

import pytest

from fuzz.targets import TARGETS, attempt

CORPUS = Path(__file__).parent / "corpus"
CASES = [path for path in sorted(CORPUS.glob("*/*")) if path.is_file()]


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_case_found_by_fuzzing_stays_fixed(path):
    attempt(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_reads_good_input(name):
    """Else the fuzzers would only ever see the first error."""
    outcomes = [attempt(name, seed) for seed in TARGETS[name].seeds]
    assert "read" in outcomes


def test_every_folder_of_the_corpus_is_a_target():
    assert {path.parent.name for path in CASES} <= TARGETS.keys()
