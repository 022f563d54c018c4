"""What the guides name is there: files, targets of make, subcommands and their options, metrics."""

import argparse
import re

import pytest

from commandline import REPOSITORY
from metrics import printed
from treepool.cli.main import whole

PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path.read_text()
    for path in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("doc/*.md"), REPOSITORY / "t/README.md"]
    if path.name != "CHANGELOG.md"  # what it tells of was there at that time
}

#: Inline code, and the lines of blocks, of each page.
CODE = {
    page: re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    + [
        line
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", text.replace("\\\n", " "), re.M | re.S)
        for line in block.splitlines()
    ]
    for page, text in PAGES.items()
}

#: The folders of the repository in which guides name files.
FOLDERS = ("doc", "packaging", "schemas", "t", "testvectors", "treepool")


def found(pattern):
    """(page, match) for each thing that a page names, in the whole of an inline code or line."""
    return sorted(
        {(page, match) for page, codes in CODE.items() for c in codes for match in pattern(c)}
    )


def paths(code):
    """A file or folder of the repository, as all of *code*."""
    path = re.fullmatch(rf"((?:{'|'.join(FOLDERS)})/[\w./-]*|[A-Z]+\.md)(?::.*)?", code)
    return [path[1]] if path and not re.search(r"FOLDER|/\.\.\.", code) else []


@pytest.mark.parametrize(("page", "path"), found(paths))
def test_a_file_that_a_page_names_is_there(page, path):
    assert (REPOSITORY / path).exists()


TARGETS = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M)


@pytest.mark.parametrize(
    ("page", "target"), found(lambda code: re.findall(r"^make ([a-z-]+)\b", code))
)
def test_a_target_that_a_page_names_is_one_of_make(page, target):
    assert target in TARGETS


SUBCOMMANDS = whole()[1]


def typed(code):
    """The subcommand and the options of a command line of treepool, without quoted words."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|[\[\]]", "", code)
    match = re.match(
        r"(?:\$ )?(?:flux |[\w./~-]*/bin/)?treepool (?![\w-]+: )([a-z][^|><;#&]*)", bare
    )
    return [match[1].partition(" -- ")[0].strip()] if match else []


def options(parser):
    """The long options of *parser* and of the parsers inside it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)


@pytest.mark.parametrize(("page", "line"), found(typed))
def test_a_command_that_a_page_names_has_these_options(page, line):
    subcommand, *words = line.split()
    assert subcommand in SUBCOMMANDS
    known = {*options(SUBCOMMANDS[subcommand]), "--help"}
    assert [w for w in words if w.startswith("--") and w.partition("=")[0] not in known] == []


METRICS = {re.split("[ {]", line)[0] for line in printed()}


@pytest.mark.parametrize(
    ("page", "metric"), found(lambda code: re.findall(r"^treepool_(\w+)", code))
)
def test_a_metric_that_a_page_names_is_printed(page, metric):
    assert f"treepool_{metric}" in METRICS


def test_the_patterns_find_something():
    assert len(found(paths)) > 60
    assert len(found(typed)) > 60
