"""Running the command line: in this process, which is fast, or in one of its own, which is real."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import attrs

from treepool.cli.main import main

REPOSITORY = Path(__file__).parents[1]

#: Commands about a cluster: that of the instance where they run, or one that they name.
NEEDING = ("alloc", "explain", "show", "advise", "replay")
NAMING = {"-R", "--cluster", "--snapshot", "--instance", "--nodes", "--help", "--R", "--job"}


@attrs.frozen
class Result:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        """The lines of the output, each a JSON value."""
        return [json.loads(line) for line in self.out.splitlines()]

    def is_one_line_error(self, *words, status=1):
        """Whether this is a proper error: the status, one line on stderr that has all *words*."""
        lines = self.err.splitlines()
        return (
            self.status == status
            and len(lines) == 1
            and lines[0].startswith(("treepool", "bench"))
            and all(word in lines[0] for word in words)
            and well_behaved(self)
        )


def well_behaved(result):
    """Whether a result has no traceback, bug report or terminal control in it."""
    text = result.out + result.err
    return (
        "Traceback" not in text
        and "bug in treepool" not in text
        and all(c.isprintable() or c == "\n" for c in text)
    )


def on_a_cluster(*argv):
    """*argv* on example cluster a, if it is a command that needs a cluster and names none."""
    words = list(map(str, argv))
    start = words.index("treepool") + 1 if "treepool" in words else 0
    named = NAMING & set(words)
    if words[start : start + 1] and words[start] in NEEDING and not named:
        words[start + 1 : start + 1] = ["--cluster", "a"]
    return words


def run(capsys, *argv, named=False):
    """The result of the command in this process, on a cluster unless *named* says all there is."""
    status = main(list(map(str, argv)) if named else on_a_cluster(*argv))
    out, err = capsys.readouterr()
    return Result(status, out, err)


def run_process(*argv, stdin=b"", **environment):
    """The result of the command in a process of its own, with *environment* on a bare one."""
    done = subprocess.run(
        [sys.executable, "-m", "treepool", *on_a_cluster(*argv)],
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**bare_environment(), **environment},
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_a_terminal(*argv, to_a_file=False, interrupt_at=None, **environment):
    """All that Python with *argv* writes to a terminal of 100 columns, and its exit status.

    Only its stderr is the terminal if its stdout goes *to_a_file*. Once it has written
    *interrupt_at* it is sent what Ctrl-C sends.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(
        [sys.executable, *on_a_cluster(*argv)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if to_a_file else follower,
        stderr=follower,
        env={**bare_environment(), "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(follower)
        found = b""
        try:
            while data := os.read(leader, 65536):
                found += data
                if interrupt_at is not None and interrupt_at.encode() in found:
                    process.send_signal(signal.SIGINT)
                    interrupt_at = None
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return found.decode(), process.returncode


def bare_environment():
    """An environment in which nothing says how to draw, and this treepool is the one that runs."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "VIRTUAL_ENV")}
    return {**kept, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8"}
