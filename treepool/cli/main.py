"""``treepool``: the list of subcommands, usage errors and their spelling hints, exit statuses.

Exit statuses: 0 done; 1 the answer is no; 2 usage, which includes files that cannot be read. As
with other Unix tools, 130 after an interrupt and 141 if the reader of a pipe went away. A bug in
treepool prints one line and exits with 70 (EX_SOFTWARE); TREEPOOL_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn, Optional, Sequence, TextIO

from treepool import __version__
from treepool.cli import progressbar
from treepool.cli.screen import INTERRUPTED, NO, USAGE, Stop, complain

#: The subcommands, by what one does: name, module in ``treepool.cli``, and what ``--help`` says.
GROUPS = {
    "ask what a job gets": (
        ("alloc", "alloc", "allocate jobs on an idle cluster"),
        ("explain", "explain", "say why a job gets what it gets, or why it waits"),
    ),
    "look": (
        ("status", "status", "show what is free and used in the running instance"),
        ("show", "show", "draw a cluster and its jobs"),
        ("where", "where", "show where a job's nodes and tasks are"),
        ("snapshot", "snapshot", "write the state of the running instance to a file"),
        ("demo", "demo", "start an instance of 32 nodes with jobs, to try things on"),
    ),
    "plan": (
        ("advise", "advise", "list the shapes that fill a node completely"),
        ("replay", "replay", "run a trace of jobs under one policy or several"),
        ("window", "window", "reservations (DATs): nodes taken out or kept for some, for a time"),
    ),
    "write keys, install": (
        ("encode", "encode", "write a scheduling key from hardware"),
        ("flux-env", "fluxenv", "install treepool into a Flux, or remove it"),
        ("completion", "completion", "print a completion script for a shell"),
    ),
    "check": (
        ("validate", "validate", "check an R, a scheduling key, a jobspec or a configuration"),
        ("conformance", "conformance", "run test vectors: RFC 49's, treepool's, or your own"),
    ),
    "inside a job": (
        ("bind", "bind", "run a program bound to what the job has"),
        ("verify", "verify", "check that a task is bound"),
    ),
}
SUBCOMMANDS = tuple(subcommand for group in GROUPS.values() for subcommand in group)

#: Those that ``--help`` does not list: brokers run the first one, the second is an old name.
UNLISTED = (("digest", "digest"), ("subinstance", "subinstance"))

#: Exit statuses beyond those of ``screen``.
BUG, BROKEN_PIPE = 70, 141

_DESCRIPTION = "Topology-aware scheduling for Flux: what would a job get, and from which sockets?"

_EXAMPLES = """\
examples:
  treepool alloc --cluster a 'slot=1/core'    allocate a job on an example cluster
  treepool alloc -R R.json 'slot=1/node{x}'   the same on your cluster
  treepool validate R.json                    check R and its scheduling key
  treepool SUBCOMMAND --help                  help on a subcommand

exit status:
  0 done; 1 the answer is no (refused, invalid, not conformant); 2 usage, or no such file
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line *argv* (default: the process's own) and return its exit status."""
    _prepare_streams()
    command = "treepool"
    try:
        try:
            arguments = _parse(argv)
        except SystemExit as e:  # argparse: after --help and --version, or a usage error
            status = e.code if isinstance(e.code, int) else USAGE
        else:
            command = f"treepool {arguments.command}"
            try:
                status = arguments.run(arguments)
            finally:
                progressbar.clear()
        sys.stdout.flush()
        return status
    except Stop as e:
        complain(command, str(e))
        return e.status
    except KeyboardInterrupt:
        complain(command, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _drop(sys.stdout)
        return BROKEN_PIPE
    except MemoryError:
        complain(command, "out of memory")
        return NO
    except OSError as e:  # this is an error of the output; files are handled where they are read
        _drop(sys.stdout)
        complain(command, f"cannot write the output: {e.strerror or e}")
        return NO
    except Exception as e:
        return _bug(command, e)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose help keeps its line breaks."""

    def __init__(self, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(**kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """End with usage error *message*."""
        complain(self.prog, f"{message} (see {self.prog} --help)")
        sys.exit(USAGE)

    def unrecognized(self, words: Sequence[str]) -> NoReturn:
        """End with the usage error that *words* are no arguments, and the first one's spelling."""
        from treepool.cli.files import is_file
        from treepool.cli.instance import meant_job
        from treepool.rfc.quote import did_you_mean

        known = [option for action in self._actions for option in action.option_strings]
        word = words[0].partition("=")[0]
        same = [option for option in known if _bare(option) == _bare(word)]
        meant = f" (did you mean {same[0]!r}?)" if same else did_you_mean(word, known)
        if not meant and "-R" in known and is_file(words[0]):
            meant = f" (did you mean '-R {words[0]}'?)"
        if not meant and "--job" in known:
            meant = meant_job(words[0])
        self.error(f"unrecognized arguments: {' '.join(words)}{meant}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse's, with the choice that *value* is probably a misspelling of."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as e:
            from treepool.rfc.quote import did_you_mean

            meant = did_you_mean(str(value), list(action.choices or ()))
            raise argparse.ArgumentError(action, f"{e.message}{meant}") from None


def _bare(option: str) -> str:
    """*option* without what people mix up: its hyphens, and upper case."""
    return option.replace("-", "").lower()


class Subcommand(Parser):
    """The parser of a subcommand. It imports the subcommand's module when it is used.

    A command therefore loads only its own module. This matters for ``treepool bind``, which runs
    once for each task.
    """

    def __init__(self, *, module: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self._module = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words after the subcommand; argparse calls this only for the one given."""
        self.load()
        return super().parse_known_args(args, namespace)

    def load(self) -> None:
        """Import the subcommand's module and take its arguments from there.

        The docstring of the module is the text of ``--help``: what it does, then examples.
        """
        module = import_module(f"treepool.cli.{self._module}")
        self.description, heading, examples = (module.__doc__ or "").partition("examples:\n")
        self.epilog = heading + examples
        self.set_defaults(run=module.run)
        module.define(self)


def whole() -> tuple[Parser, dict[str, Subcommand]]:
    """The parser of the whole command line, and those of all subcommands, with their arguments."""
    parser, subcommands = _parsers(listed=True)
    for subcommand in subcommands.values():
        subcommand.load()
    return parser, subcommands


def _parsers(listed: bool = False) -> tuple[Parser, dict[str, Subcommand]]:
    parser = Parser(
        prog="treepool",
        usage="treepool [-h] [--version] SUBCOMMAND ...",
        description=_DESCRIPTION,
        epilog=f"{_list()}\n{_EXAMPLES}",
    )
    parser.add_argument("--version", action="version", version=f"treepool {__version__}")
    subcommands = parser.add_subparsers(
        dest="command", prog="treepool", metavar="SUBCOMMAND", parser_class=Subcommand
    )
    for name, module, summary in SUBCOMMANDS:
        # --help has a list in groups; completion scripts find the subcommands that have a help.
        if listed:
            subcommands.add_parser(name, module=module, help=summary)
        else:
            subcommands.add_parser(name, module=module)
    for name, module in UNLISTED:
        subcommands.add_parser(name, module=module)
    return parser, subcommands.choices


def _list() -> str:
    """The subcommands in groups, a line for each."""
    return "\n".join(
        f"{title}:\n" + "".join(f"  {name:<13}{summary}\n" for name, _, summary in group)
        for title, group in GROUPS.items()
    )


def _parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser, subcommands = _parsers()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command is None:
        if rest:
            parser.unrecognized(rest)
        parser.error(f"a subcommand is needed: {', '.join(name for name, _, _ in SUBCOMMANDS)}")
    # argparse takes the words before the next option and reports those after it as unknown.
    after = rest.index("--") if "--" in rest else len(rest)
    options = [word for word in rest[:after] if word.startswith("-")]
    rest[after : after + 1] = []
    more = getattr(arguments, "words", None)
    if options or (rest and more is None):
        subcommands[arguments.command].unrecognized(options or rest)
    if more is not None:
        more.extend(rest)
    return arguments


def _prepare_streams() -> None:
    """Make output safe for closed streams, and for characters that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop(stream: TextIO) -> None:
    """Discard what *stream* still holds; otherwise the interpreter reports an error at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bug(command: str, error: Exception) -> int:
    import traceback

    if os.environ.get("TREEPOOL_DEBUG"):
        traceback.print_exception(type(error), error, error.__traceback__)
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    complain(
        command,
        f"this is a bug in treepool: {type(error).__name__} at {place}: {str(error)[:200]}"
        " (TREEPOOL_DEBUG=1 shows more)",
    )
    return BUG
