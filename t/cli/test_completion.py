"""``treepool completion``: each shell that is here reads the script and completes by it."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from commandline import run_process

#: What is typed, and a word that completes it.
TYPED = [
    ("treepool conf", "conformance"),
    ("treepool alloc --loc", "--locality"),
    ("treepool alloc --locality req", "required"),
    ("treepool window re", "remove"),
    ("treepool validate here/my", "here/mykey.json"),
    ("treepool flux-env --prefix here/dee", "here/deep/"),
]

#: Seconds until a shell that shows nothing is given up.
PATIENCE = 30


def in_bash(script, typed, folder):
    """The words by which bash completes *typed*."""
    code = (
        f"source {script}\nread -ra COMP_WORDS <<<'{typed}'\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        '_shtab_treepool treepool "${COMP_WORDS[COMP_CWORD]}"\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    return output(["bash", "--norc", "-c", code], folder)


def in_fish(script, typed, folder):
    """The words by which fish completes *typed*; a description stands behind a tabulator."""
    code = f"source {script}; complete -C '{typed}'"
    return [line.split("\t")[0] for line in output(["fish", "--no-config", "-c", code], folder)]


def in_zsh(script, typed, folder):
    """What a zsh in a terminal has on its command line after the key Tab."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=follower, stdout=follower, stderr=follower, cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"},
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(follower)
        shutil.copy(script, folder / "_treepool")
        setup = (
            f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; PS1=; print rea''dy\n"
        )
        os.write(leader, setup.encode())
        until(leader, lambda shown: b"ready" in shown)
        os.write(leader, typed.encode() + b"\t")
        # The letters come back one by one, then what completes them.
        shown = until(leader, lambda shown: shown.partition(typed.encode())[2].strip(b"\x07 "))
        shell.kill()
    os.close(leader)
    return shown.decode().replace("\r", " ").split()


def until(terminal, done):
    """What *terminal* shows until *done* is true of it and nothing more comes for a moment."""
    shown, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.3)[0]:
            shown += os.read(terminal, 65536)
        elif done(shown):
            break
    return shown


def output(command, folder):
    """The lines that *command* prints in *folder*."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(scope="module", params=SHELLS)
def shell(request, tmp_path_factory):
    """What completes in one shell."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not on the PATH")
    pytest.importorskip("shtab")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "here" / "deep").mkdir(parents=True)
    (folder / "here" / "mykey.json").touch()
    result = run_process("completion", request.param)
    assert (result.status, result.err) == (0, "")
    (folder / "script").write_text(result.out)
    return lambda typed: SHELLS[request.param](folder / "script", typed, folder)


@pytest.mark.depth
@pytest.mark.parametrize(("typed", "word"), TYPED, ids=[word for _, word in TYPED])
def test_what_is_typed_is_completed(shell, typed, word):
    assert word.rstrip("/") in {found.rstrip("/") for found in shell(typed)}


def test_without_shtab_one_line_says_how_to_get_it(treepool, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert treepool("completion", "bash").is_one_line_error("treepool[completion]")
