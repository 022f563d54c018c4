"""The pages that ``make doc`` makes from the code have all of it."""

import argparse
import runpy

import pytest

import treepool
from commandline import REPOSITORY
from treepool.cli.main import UNLISTED, whole

MANUAL = runpy.run_path(str(REPOSITORY / "doc" / "manual.py"))
PAGES = {page.name: page.program for page in MANUAL["PAGES"]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    MANUAL["write"](folder)
    return {name: (folder / f"{name}.md").read_text() for name in PAGES}


def parsers(parser):
    """*parser* and all that are inside it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


@pytest.mark.parametrize("name", PAGES)
def test_a_man_page_has_every_subcommand_and_option(pages, name):
    for subcommand, parser in whole()[1].items():
        if subcommand in dict(UNLISTED):
            continue
        _, heading, part = pages[name].partition(f"### {PAGES[name]} {subcommand}\n")
        assert heading
        part = part.partition("\n### ")[0]
        for inner in parsers(parser):
            for action in inner._actions:
                hidden = "--help" in action.option_strings or action.help is argparse.SUPPRESS
                options = [] if hidden else action.option_strings
                assert [option for option in options if option not in part] == []


def test_a_command_is_shown_as_it_is_typed(pages):
    assert "\n  flux treepool validate R.json\n" in pages["flux-treepool"]
    assert "flux flux" not in pages["flux-treepool"]
    assert "sched-flux" not in pages["flux-treepool"]
    assert "\n  treepool validate R.json\n" in pages["treepool"]


def test_every_public_name_is_on_the_page_of_the_library():
    page = (REPOSITORY / "doc" / "api.md").read_text()
    assert [name for name in treepool.__all__ if f":: treepool.{name}" not in page] == []
