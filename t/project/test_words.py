"""doc/developer.md, "Words": the list has each word once, and the code uses all of them."""

import ast
import collections
import re

import pytest

from commandline import REPOSITORY

GUIDE = (REPOSITORY / "doc" / "developer.md").read_text()
TREES = [ast.parse(path.read_text()) for path in (REPOSITORY / "treepool").rglob("*.py")]
SOURCE = "\n".join(path.read_text() for path in (REPOSITORY / "treepool").rglob("*.py")).lower()

LISTS, _, TWICE = GUIDE.partition("\n## Words")[2].partition("\n## ")[0].partition("\n### ")

#: The words that the lists define, each row's first cell and what a definition has in italics.
WORDS = [
    word.strip().replace("to ", "", 1) if word.strip().startswith("to ") else word.strip()
    for first, definition in re.findall(r"^\| ([^|]+) \| (.*) \|$", LISTS, re.M)
    if first != "word"
    for word in [*first.split(","), *re.findall(r"(?<!\*)\*([^*]+)\*", definition)]
]


def test_the_lists_have_words():
    assert len(WORDS) > 80


def test_a_word_is_defined_once():
    # A pass is a walk over the queue, and to pass is what flux-core calls backfill.
    counts = collections.Counter(WORDS)
    assert [word for word, count in counts.items() if count > 1] == ["pass"]


@pytest.mark.parametrize("word", dict.fromkeys(WORDS))
def test_the_code_uses_the_word(word):
    stem = word.lower().rstrip("s")
    spelled = {stem, stem.replace(" ", "_"), stem.replace(" ", "")}
    assert any(re.search(rf"(?<![a-z]){re.escape(form)}", SOURCE) for form in spelled)


def test_no_other_class_name_has_two_meanings():
    names = [node.name for tree in TREES for node in tree.body if isinstance(node, ast.ClassDef)]
    counts = collections.Counter(name for name in names if not name.startswith("_"))
    listed = set(re.findall(r"^\| `(\w+)` \|", TWICE, re.M))
    assert {name for name, count in counts.items() if count > 1} == listed
