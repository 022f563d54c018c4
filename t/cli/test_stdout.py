"""What goes to a file may go to standard output: the same bytes, whatever the locale."""

import io
import sys

import pytest

from commandline import REPOSITORY, run
from fuzz import instance
from treepool.cli.main import main


@pytest.fixture
def printed(monkeypatch):
    """``printed(*argv)``: what a command writes to a stdout that lacks some signs."""

    def call(*argv):
        stream = io.TextIOWrapper(io.BytesIO(), "latin-1")
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(argv) == 0
        stream.flush()
        return stream.buffer.getvalue()

    return call


@pytest.mark.parametrize("form", ["--html", "--svg"])
def test_a_picture_on_stdout_is_the_file(printed, tmp_path, monkeypatch, form):
    monkeypatch.chdir(REPOSITORY)
    words = ("show", "-R", "doc/fabric.json", "--jobs", "slot=2/core=2", form)
    assert main([*words, str(tmp_path / "picture")]) == 0
    file = (tmp_path / "picture").read_bytes()
    assert not file.isascii(), "so that the encoding matters"
    assert printed(*words, "-") == file


def test_the_numbers_for_prometheus_are_utf_8(printed, monkeypatch):
    instance.pretend(monkeypatch, "müller数")
    assert 'queue="müller数"' in printed("status", "--prometheus").decode()


def test_a_snapshot_on_stdout_is_the_file(printed, capsys, tmp_path, monkeypatch):
    instance.pretend(monkeypatch, "name")
    assert run(capsys, "snapshot", tmp_path / "now.json").status == 0
    assert printed("snapshot", "-") == (tmp_path / "now.json").read_bytes()
