"""``treepool`` itself: help, version, usage errors, and what happens when things break."""

import builtins
import re
import subprocess
import sys

import pytest
from rich.text import Text

import treepool as package
from commandline import bare_environment, well_behaved
from treepool.__main__ import run
from treepool.cli import alloc, screen
from treepool.view import table

SUBCOMMANDS = ("alloc", "validate", "explain", "conformance")


@pytest.mark.parametrize("argv", [["--help"], *([name, "--help"] for name in SUBCOMMANDS)])
def test_every_help_has_an_example_and_the_exit_statuses(treepool, argv):
    result = treepool(*argv)
    assert result.status == 0
    assert "examples:\n  treepool" in result.out
    assert "exit status:" in result.out
    assert result.err == ""


def test_version(treepool):
    assert treepool("--version").out == f"treepool {package.__version__}\n"


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "memory"),
        (KeyError("key\n"), 70, "test_main.py"),
    ],
    ids=repr,
)
def test_an_interrupt_a_full_memory_and_a_bug_are_one_line(
    treepool, monkeypatch, raised, status, said
):
    def run(arguments):
        raise raised

    monkeypatch.setattr(alloc, "run", run)
    result = treepool("alloc", "slot=1/core")
    assert result.status == status
    assert result.err.count("\n") == 1 and said in result.err


def test_a_reader_that_goes_away_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "treepool", "alloc", "--cluster=a", *["slot=1/core"] * 2000],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bare_environment(),
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_full_disk_is_one_line():
    try:
        full = open("/dev/full", "wb")  # noqa: SIM115
    except OSError:
        pytest.skip("no /dev/full here")
    with full:
        done = subprocess.run(
            [sys.executable, "-m", "treepool", "alloc", "--cluster=a", "slot=1/core"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=bare_environment(),
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"cannot write the output" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_are_no_traceback(closed):
    command = f'"{sys.executable}" -m treepool alloc --cluster a slot=1/core slot=1/rack {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=bare_environment())
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize(
    "words",
    [
        "encode --xml -",
        "encode --local -R -",
        "bind --R {R} --rank 3 --xml - true",
        "bind --R - true",
        "validate -",
        "alloc -R - --subinstance",
        "alloc -R - slot/core",
        "replay -",
    ],
)
def test_a_file_that_is_stdin_when_there_is_none_is_a_usage_error(
    treepool, monkeypatch, words, write, R
):
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after <&-
    result = treepool(*words.format(R=write(R)).split())
    if "--local" not in words:
        assert result.is_one_line_error("stdin", status=2)
    assert well_behaved(result)


#: What a terminal would act on, and how it is shown.
ODD, SHOWN = "a\x1b[31m\n\u202e\udcff\x7f é漢", r"a\x1b[31m\n\u202e\udcff\x7f é漢"


@pytest.mark.parametrize(
    "way",
    [
        lambda: screen.out(ODD),
        lambda: screen.out([ODD, (ODD, "bold")]),
        lambda: screen.out(*table.lines((ODD, ODD), [[ODD, (ODD, "red")]], 99)),
        lambda: screen.again([ODD]),
        lambda: screen.draw(lambda width: Text(ODD.replace("\n", r"\n"), "bold")),
        lambda: screen.complain("treepool", ODD),
    ],
    ids=["text", "cells", "table", "again", "rich", "error"],
)
def test_whatever_is_printed_is_escaped_and_only_colours_are_not(capsys, monkeypatch, way):
    monkeypatch.setattr(screen, "has_colour", lambda: True)
    way()
    out, err = capsys.readouterr()
    bare = re.sub(r"\x1b\[(?:0|1|31)m", "", out) + err
    assert SHOWN in bare
    assert all(c.isprintable() or c == "\n" for c in bare)
    assert "漢" not in bare.replace(SHOWN, "")


def test_a_file_where_a_shape_should_be_is_told_where_files_go(treepool):
    told = "it is a file: -R, --jobspec and --jobs @FILE read files"
    assert told in treepool("alloc", "--json", "doc/fabric.json").json[0]["message"]
    assert treepool("explain", "doc/fabric.json").is_one_line_error(told)


@pytest.mark.parametrize("job", ["ƒ2pcsqRq", "f2pcsqRq"])
def test_a_job_where_no_job_can_be_is_told(treepool, job):
    refused = treepool("explain", job)
    assert refused.err.count("\n") == 1 and refused.status in (1, 2)
    assert "only a running instance has jobs" in refused.err


@pytest.mark.parametrize("told", ["alloc", "explain"])
def test_what_the_shell_left_of_a_shape_without_quotes_is_told(treepool, told):
    result = treepool(told, "slot=2/[core=8")
    assert "put the shape in quotes" in " ".join((result.out + result.err).split())


def test_an_interrupt_while_the_command_line_is_imported_is_one_line(monkeypatch, capsys):
    def interrupted(name, *rest):
        if name == "treepool.cli.main":
            raise KeyboardInterrupt
        return real(name, *rest)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    status = run()
    monkeypatch.undo()
    assert (status, capsys.readouterr().err) == (130, "treepool: interrupted\n")
