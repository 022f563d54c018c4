"""Each bug that `make mutants` plants has a place in the source, and only one."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT / "t" / "mutants"))

from planted import MUTANTS  # noqa: E402


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_fits_the_source(mutant, tmp_path):
    source = ROOT / "treepool" / "placement" / mutant.path
    (tmp_path / mutant.path).parent.mkdir(exist_ok=True)
    shutil.copy(source, tmp_path / mutant.path)
    mutant.plant(tmp_path)
    assert (tmp_path / mutant.path).read_text() != source.read_text()
