"""Run test vectors. A file of vectors has a cluster and steps, which run in order on
one pool. Without an argument, run the vectors that come with treepool: those of
RFC 49 (TVA1-11, TVB1-9) and its own. For a step that fails, print what was
expected and what came instead.

examples:
  treepool conformance                   the vectors that come with treepool
  treepool conformance my/vectors        every *.json in a folder of your own
  treepool conformance --json site.json | jq 'select(.passed | not)'

exit status:
  0 all passed; 1 not all, or a file is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Iterator

from treepool.cli import files, vectors
from treepool.cli.screen import DONE, NO, USAGE, Stop, complain, out, out_json, plain, printable


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool conformance [--json] [DIR|FILE...]"
    parser.add_argument(
        "words", metavar="DIR|FILE", nargs="*", help="test vector files, or folders of them"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each vector")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    words = arguments.words or [str(files.data_folder("testvectors"))]
    played = passed = unreadable = 0
    for path in [path for word in words for path in _files(word)]:
        try:
            document = _read(path)
        except Stop as e:
            complain("treepool conformance", str(e))
            unreadable = max(unreadable, e.status)
            continue
        if not arguments.json:
            out(f"{printable(files.shown(path))}: {printable(document['title'])}")
        for result in vectors.play(document):
            played, passed = played + 1, passed + result.passed
            if arguments.json:
                out_json({"file": path, **plain(result)})
            else:
                out(_text(result))
    if played and not arguments.json:
        out(f"{passed} of {played}")
    return unreadable or (DONE if passed == played else NO)


def _files(path: str) -> Iterator[str]:
    """The vector files in *path*, a file or a folder."""
    try:
        if path == "-" or not os.path.isdir(path):
            yield path
            return
        found = sorted(str(file) for file in Path(path).glob("*.json"))
    except (OSError, ValueError) as e:
        raise Stop(f"{path}: cannot be read: {e}", USAGE) from None
    if not found:
        raise Stop(f"{path}: a folder without *.json", USAGE)
    yield from found


def _read(path: str) -> Any:
    """The vectors in a file; raises Stop with the first problem."""
    document = files.read_json(path)
    for problem in vectors.problems(document)[:1]:
        raise Stop(f"{files.shown(path)}: {problem}")
    return document


def _text(result: vectors.Result) -> str:
    line = f"  {'ok  ' if result.passed else 'FAIL'}  {result.id:<6} {printable(result.action)}"
    if result.passed:
        return line
    return "\n".join(
        (
            line,
            f"          expected {vectors.shown(result.expected)}",
            f"          got      {vectors.shown(result.got)}",
            f"          because  {printable(result.rationale)}",
        )
    )
