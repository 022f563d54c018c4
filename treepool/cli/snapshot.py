"""Write the state of the running instance to a file.
It has nodes, windows and queues, the jobs that run and until when, and the jobs that
wait and what they ask for. "treepool show", "explain", "alloc" and "replay" answer
from this file with --snapshot FILE, on any machine, without Flux.

Jobs, users and windows have numbers in place of names, unless --names is given. Names
of hosts, queues and properties stay. Environment, arguments and paths of jobs are
never in the file. A user who is not the owner of the instance can read only what his
own jobs ask for: how many others wait is told.

examples:
  flux treepool snapshot now.json
      to send with a question
  flux treepool snapshot --names now.json
      jobs have their ids and names, users and windows their names
  flux treepool snapshot - | treepool replay --snapshot - --compare policy=easy
      what would change if the policy were easy?

exit status:
  0 done; 1 the instance cannot be read; 2 usage, or there is no instance
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from treepool.cli import files, instance
from treepool.cli.screen import DONE, complain, out
from treepool.view.words import count


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("file", metavar="FILE", help='the file to write, "-" for stdout')
    parser.add_argument("--names", action="store_true", help="keep names of jobs and users")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    with instance.asking():
        from treepool.flux import client, snapshot

        taken, other = snapshot.now(arguments.names), client.other_scheduler()
    files.write_text(arguments.file, taken.text)
    if arguments.file != "-":
        out(f"{arguments.file}: {taken.summary}")
    if other:
        complain("treepool snapshot", f"note: {other}")
    if taken.unreadable:
        number = count(taken.unreadable, "job")
        missing = f"warning: {number} that you may not read wait, too: only their number is told"
        complain("treepool snapshot", missing)
    return DONE
