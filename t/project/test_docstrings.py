"""Everything public says what it means."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "treepool"
MODULES = sorted(PACKAGE.rglob("*.py"))


def public(node, prefix=""):
    """(name, docstring) of the public functions, classes and methods in *node*."""
    for child in node.body:
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if child.name.startswith("_"):
                continue
            yield prefix + child.name, ast.get_docstring(child)
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_public_name_has_a_docstring(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module itself"
    assert [name for name, doc in public(tree) if not doc] == []
