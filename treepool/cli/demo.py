"""Start a Flux instance of 32 nodes on this machine, with a day's jobs, and a shell in it.
Each node is a broker: 8 nodes below each switch, 4 sockets in a node, each with a NUMA
domain, 24 cores and a GPU. These are in R alone; tasks run on this machine, and are not
bound. The jobs of a day come in fast motion, an hour in a minute, in two queues, and only
seem to run. sched-treepool is the scheduler, with the policy easy. It needs Flux on the
PATH, and no root; it changes nothing in that Flux, and nothing is left of it at the end.

examples:
  treepool demo
      a shell; it says what to try. "exit" ends the instance
  treepool demo -- flux treepool status --jobs
      one command in place of the shell

exit status:
  that of COMMAND, 0 after a shell; 1 it cannot be started; 2 usage
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from treepool.cli.screen import Stop, complain
from treepool.errors import SetupError
from treepool.flux import install, site

_NODES = 32


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool demo [--] [COMMAND [ARGUMENT...]]"
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    program = arguments.program[arguments.program[:1] == ["--"] :]
    with tempfile.TemporaryDirectory(prefix="treepool-demo-") as folder:
        try:
            home, _ = install.install(Path(folder))
        except SetupError as e:
            raise Stop(str(e)) from None
        data = install.PACKAGE / "flux" / "demo"
        words = ["flux", "start", f"--test-size={_NODES}", f"--test-hosts=n[0-{_NODES - 1}]"]
        words += [f"--conf={data / 'conf.toml'}", f"--conf=resource.path={data / 'R.json'}"]
        words += [f"--setattr=conf.shell_initrc={folder}/initrc.lua"]
        words += ["sh", str(data / "day.sh"), folder, *program]
        if sys.stderr.isatty():
            complain("treepool demo", f"{_NODES} brokers start, which takes up to a minute")
        return _run(words, _environment(home, Path(folder, "bin")))


def _environment(home: Path, commands: Path) -> dict[str, str]:
    """This process's environment, in which Flux finds the *home* first."""
    env = dict(os.environ)
    for name, path in site.variables(home).items():
        env[name] = ":".join(filter(None, (str(path), env.get(name))))
    env["PATH"] = f"{commands}:{env['PATH']}"
    return env


def _run(words: list[str], env: dict[str, str]) -> int:
    """The exit status of *words*, which signals to this process end, so that it can clean up."""
    process = subprocess.Popen(words, env=env)
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends it to both
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: process.terminate())
    status = process.wait()
    return status if status >= 0 else 128 - status
