"""Run test vectors: RFC 49's, treepool's, or those of a file.
A file of vectors has a cluster and steps, which run in order on one pool. Without
an argument, run the vectors that come with treepool: those of RFC 49 (TVA1-11,
TVB1-9) and its own. For a step that fails, print what was expected and what came
instead.

--with plays them on another allocator: a program that answers lines of JSON, as
doc/conformance.md describes, or flux-core's own TreePool.

examples:
  treepool conformance                   the vectors that come with treepool
  treepool conformance my/vectors        every *.json in a folder of your own
  treepool conformance --json site.json | jq 'select(.passed | not)'
  treepool conformance --with 'python3 my_allocator.py'
  flux treepool conformance --with flux-core

exit status:
  0 all that were judged passed; 1 one failed, none was judged, or a file is not
  valid; 2 usage, or no such file
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

from treepool.cli import files, vectors
from treepool.cli.implementations import Implementation, started
from treepool.cli.screen import (
    DONE,
    NO,
    USAGE,
    Stop,
    complain,
    out,
    out_json,
    plain,
    shortened,
)


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool conformance [--json] [--with COMMAND] [DIR|FILE...]"
    parser.add_argument(
        "words", metavar="DIR|FILE", nargs="*", help="test vector files, or folders of them"
    )
    parser.add_argument(
        "--with",
        dest="other",
        metavar="COMMAND",
        help="play them on this allocator, a program or flux-core",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each vector")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    words = arguments.words or [str(files.data_folder("testvectors"))]
    paths = [path for word in words for path in _files(word)]
    unreadable = 0
    sources: dict[str, Counter[str]] = {}
    for path in paths:
        try:
            document = _read(path)
        except Stop as e:
            complain("treepool conformance", str(e))
            unreadable = max(unreadable, e.status)
            continue
        with started(arguments.other) as implementation:
            mine = _play(arguments, path, document, implementation)
        source = document["source"].split(",")[0].split(":")[0]
        sources.setdefault(source, Counter()).update(mine)
    total = sum(sources.values(), Counter[str]())
    if not arguments.json:
        if len(sources) > 1:
            for source, counted in sorted(sources.items()):
                out(f"{source}: {_total(counted)}")
        if sources:
            out(_total(total))
    return unreadable or (DONE if total["passed"] and not total["failed"] else NO)


def _play(
    arguments: Namespace, path: str, document: Any, implementation: Implementation
) -> Counter[str]:
    """Play a file, and print its results; how many passed, failed and were not judged."""
    counted: Counter[str] = Counter()
    lacking = sorted(set(document.get("features", ())) - implementation.features)
    title = f"{files.shown(path)}: {document['title']}"
    if not arguments.json:
        out(title, *([f"  not judged: needs {', '.join(lacking)}"] if lacking else ()))
    if lacking:
        counted["not judged"] = sum("expect" in step for step in document["vectors"])
        return counted
    broken = False
    for result in vectors.play(document, implementation):
        counted["passed" if result.passed else "failed" if result.judged else "not judged"] += 1
        got = result.got or {}
        if got.get("error") == "broken" and not broken:
            broken = True
            complain("treepool conformance", f"{files.shown(path)}: {result.id}: {got['message']}")
        if arguments.json:
            out_json({"file": path, **plain(result)})
        else:
            out(*_lines(result))
    return counted


def _total(counted: Counter[str]) -> str:
    judged = counted["passed"] + counted["failed"]
    more = f", {counted['not judged']} not judged" if counted["not judged"] else ""
    return f"{counted['passed']} of {judged}{more}"


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
        raise Stop(f"{files.shown(path)}: {problem}{_vector(document, problem.pointer)}")
    return document


def _vector(document: Any, pointer: str) -> str:
    """The id of the vector that *pointer* is about, for a message; "" if there is none."""
    words = pointer.split("/")
    try:
        name = document["vectors"][int(words[2])]["id"] if words[1] == "vectors" else ""
    except (IndexError, KeyError, TypeError, ValueError):
        name = ""
    return f" (vector {shortened(str(name))})" if name else ""


def _lines(result: vectors.Result) -> Iterator[str]:
    word = "ok  " if result.passed else "FAIL" if result.judged else "--  "
    line = f"  {word}  {result.id:<6} {result.action}"
    if not result.judged and result.got:
        why = (result.got.get("error"), result.got.get("message"))
        line += f"  ({': '.join(str(word) for word in why if word)})"
    yield line
    if result.judged and not result.passed:
        yield f"          expected {vectors.shown(result.expected)}"
        yield f"          got      {vectors.shown(result.got)}"
        yield f"          because  {result.rationale}"
