"""treepool(1) and flux-treepool(1) as Markdown for Sphinx, from the texts of ``--help``."""

import argparse
import os
import re
from pathlib import Path
from typing import Iterator, NamedTuple

from treepool.cli.main import SUBCOMMANDS, whole

#: The groups into which argparse puts what has no group of its own.
_ANY = ("positional arguments", "options", "optional arguments")

#: Characters that mean something in Markdown.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~])")


class Page(NamedTuple):
    """A page of man(1): its name, the program that is typed, and what it is in a few words."""

    name: str
    program: str
    summary: str


PAGES = (
    Page("treepool", "treepool", "topology-aware scheduling for Flux"),
    Page("flux-treepool", "flux treepool", "treepool in a Flux instance"),
)


def write(folder: Path) -> None:
    """Write the pages into *folder*."""
    os.environ["COLUMNS"] = "80"  # argparse breaks lines of the usage there
    folder.mkdir(exist_ok=True)
    for page in PAGES:
        text = "\n".join(_page(page)) + "\n"
        # Titles and blocks say what is typed there.
        typed = re.compile(r"^(### |  +|(?<=```\n))treepool ", re.M)
        (folder / f"{page.name}.md").write_text(typed.sub(rf"\1{page.program} ", text))


def _page(page: Page) -> Iterator[str]:
    parser, subcommands = whole()
    yield f"# {page.name}(1)\n"
    if page.name != "treepool":
        yield (
            "All subcommands of treepool are subcommands of `flux treepool`, where it is installed "
            "in Flux: Flux's own Python runs it, and the instance in which it runs is the one that "
            "it asks.\n"
        )
    yield "## Synopsis\n"
    yield f"```\n{parser.format_usage().partition(': ')[2].strip()}\n```\n"
    yield "## Description\n"
    yield _escaped(parser.description or "") + "\n"
    yield from _texts(parser)
    yield from _options(parser)
    yield "## Subcommands\n"
    for name, _, summary in SUBCOMMANDS:
        yield f"### treepool {name}\n"
        yield f"*{_escaped(summary)}*\n"
        yield from _command(subcommands[name])
    yield "## Environment\n"
    yield "`NO_COLOR`\n: no colours, whatever the terminal can do\n"
    yield "`COLUMNS`\n: the width of tables and pictures\n"
    yield "`TREEPOOL_DEBUG`\n: show where in treepool a bug is\n"


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"```\n{parser.format_usage().partition(': ')[2].strip()}\n```\n"
    yield _escaped(parser.description or "") + "\n"
    yield from _options(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield f"*{_escaped(choice.dest)}*: {_escaped(choice.help or '')}\n"
                yield from _options(action.choices[choice.dest])
    yield from _texts(parser)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if not _is_hidden(action)]
        if shown and group.title not in _ANY:
            title = group.title or ""
            yield f"{_escaped(title[:1].upper() + title[1:])}:\n"
            if group.description:
                yield _escaped(group.description) + "\n"
        for action in shown:
            name = formatter._format_action_invocation(action)
            yield f"`{name}`\n: {_escaped(formatter._expand_help(action)) if action.help else ''}\n"


def _is_hidden(action: argparse.Action) -> bool:
    kinds = (argparse._SubParsersAction, argparse._HelpAction)
    return action.help is argparse.SUPPRESS or isinstance(action, kinds)


def _texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The examples and exit statuses of *parser*, as they stand in ``--help``."""
    for part in (parser.epilog or "").strip().split("\n\n"):
        heading, _, body = part.partition("\n")
        if body:
            yield f"{heading.capitalize()}\n\n```\n{body}\n```\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text.strip())
