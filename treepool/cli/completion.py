"""Print a script with which a shell completes subcommands, options, values and files.
This needs the library shtab: pip install 'treepool[completion]'. The script itself
needs nothing and starts no program.

examples:
  treepool completion bash >~/.local/share/bash-completion/completions/treepool
  treepool completion zsh >~/.zfunc/_treepool       a folder of your fpath
  treepool completion fish >~/.config/fish/completions/treepool.fish

exit status:
  0 done; 1 shtab is not installed; 2 usage
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from treepool.cli.main import SUBCOMMANDS, whole
from treepool.cli.screen import DONE, Stop, out_document

#: What stands for a file or a folder in the help of an argument.
_FILES = ("FILE", "FILE[:NODES]", "DIR|FILE", "TRACE")
_FOLDERS = ("DIR",)


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    try:
        import shtab
    except ImportError:
        raise Stop("shtab is not installed: pip install 'treepool[completion]'") from None
    parser, subcommands = whole()
    for name, _, summary in SUBCOMMANDS:
        subcommand = subcommands[name]
        subcommand.description = summary
        for action in subcommand._actions:
            if action.metavar in _FILES or action.metavar in _FOLDERS:
                kind = shtab.FILE if action.metavar in _FILES else shtab.DIRECTORY
                action.complete = kind  # type: ignore[attr-defined]  # shtab reads it
    out_document(shtab.complete(parser, arguments.shell).rstrip("\n") + "\n")
    return DONE
