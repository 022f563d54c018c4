"""``treepool`` itself: help, version, usage errors, and what happens when things break."""

import builtins
import io
import re
import subprocess
import sys

import pytest
from rich.text import Text

import treepool as package
from commandline import bare_environment, run_process, well_behaved
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


def test_help_lists_the_subcommands(treepool):
    lines = treepool("--help").out.splitlines()
    for name in SUBCOMMANDS:
        assert [line for line in lines if line.startswith(f"  {name} ")]


def test_version(treepool):
    assert treepool("--version").out == f"treepool {package.__version__}\n"


def test_python_dash_m():
    result = run_process("alloc", "--json", "slot=1/core")
    assert result.status == 0
    assert result.json[0]["nslots"] == 1


def test_an_interrupt_is_no_traceback(treepool, monkeypatch):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(alloc, "run", interrupted)
    assert treepool("alloc", "slot=1/core").is_one_line_error("interrupted", status=130)


def test_a_bug_is_one_line_that_says_so(treepool, monkeypatch):
    def broken(arguments):
        return {}["key\n"]

    monkeypatch.setattr(alloc, "run", broken)
    result = treepool("alloc", "slot=1/core")
    assert result.status == 70
    assert result.err.count("\n") == 1
    assert "KeyError" in result.err
    assert "test_main.py" in result.err


def test_no_memory_is_no_traceback(treepool, monkeypatch):
    def greedy(arguments):
        raise MemoryError

    monkeypatch.setattr(alloc, "run", greedy)
    assert treepool("alloc", "slot=1/core").is_one_line_error("memory")


@pytest.mark.parametrize(
    "argv", [["--help"], ["alloc", "--cluster=a", "--json", *["slot=1/core"] * 2000]]
)
def test_a_reader_that_goes_away_is_no_error(argv):
    with subprocess.Popen(
        [sys.executable, "-m", "treepool", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bare_environment(),
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("argv", [["--help"], ["alloc", "--cluster=a", "slot=1/core"]])
def test_a_full_disk_is_one_line(argv):
    try:
        full = open("/dev/full", "wb")  # noqa: SIM115
    except OSError:
        pytest.skip("no /dev/full here")
    with full:
        done = subprocess.run(
            [sys.executable, "-m", "treepool", *argv],
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
        "encode --xml - --dry-run",
        "encode --local -R -",
        "verify --R {R} --rank 3 --xml -",
        "bind --R {R} --rank 3 --xml - true",
        "bind --R - true",
        "validate -",
        "alloc -R - --subinstance",
        "alloc -R - slot/core",
        "show -R -",
        "explain -R - slot/core",
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


def test_stdin_with_bytes_that_are_no_text(treepool, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe{")))
    assert treepool("validate", "-").is_one_line_error("<stdin>", "UTF-8")


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["alloc", "--json", "--option", "locality=requird", "slot/core"], "'required'"),
        (["alloc", "--json", "--option", "level=soket", "slot/core"], "'socket'"),
        (["alloc", "--constraint", '{"propertis": ["a"]}', "slot/core"], "'properties'"),
        (["encode", "--xml", "doc/node.xml", "--levels", "soket"], "'socket'"),
    ],
)
def test_a_misspelled_value_gets_the_right_one(treepool, argv, meant):
    result = treepool(*argv)
    assert result.status in (1, 2)
    assert f"did you mean {meant}?" in result.out + result.err


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


def test_a_misspelled_option_without_a_subcommand_is_named(treepool):
    refused = treepool("--versoin")
    assert refused.status == 2
    assert "unrecognized arguments: --versoin (did you mean '--version'?)" in refused.err


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
