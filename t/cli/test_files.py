"""Where the data files of an installation are."""

import pytest

from treepool.cli import files


def test_data_is_found_in_the_package_before_what_is_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PACKAGE", tmp_path / "site" / "treepool")
    (tmp_path / "site" / "schemas").mkdir(parents=True)
    assert files.data_folder("schemas") == tmp_path / "site" / "schemas"
    (tmp_path / "site" / "treepool" / "schemas").mkdir(parents=True)
    assert files.data_folder("schemas") == tmp_path / "site" / "treepool" / "schemas"
    with pytest.raises(FileNotFoundError, match="testvectors"):
        files.data_folder("testvectors")
