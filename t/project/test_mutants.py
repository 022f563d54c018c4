"""Each bug that `make mutants` plants has a place in the source, and only one."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT / "t" / "mutants"))

from planted import ROOMS  # noqa: E402
from tests import TESTS  # noqa: E402

MUTANTS = [mutant for mutants in ROOMS.values() for mutant in mutants]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_source(mutant, tmp_path):
    source = ROOT / "treepool" / mutant.path
    (tmp_path / mutant.path).parent.mkdir(parents=True)
    shutil.copy(source, tmp_path / mutant.path)
    mutant.plant(tmp_path)
    assert (tmp_path / mutant.path).read_text() != source.read_text()


def test_no_two_planted_bugs_have_a_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_are_to_notice_it_are_there(mutant):
    for test in TESTS[mutant.test]:
        assert (ROOT / test.partition("::")[0]).exists()
