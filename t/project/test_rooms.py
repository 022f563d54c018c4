"""The import rule between rooms: DESIGN, "One path through the house"."""

import ast
from pathlib import Path

import pytest

import treepool

PACKAGE = Path(__file__).parents[2] / "treepool"

#: The package's own face, which the outermost room may use like any other user.
FACE = {f"treepool.{name}" for name in [*treepool.__all__, "__version__"]} - {"treepool.errors"}

#: What each room may import of treepool, besides itself.
MAY_IMPORT = {
    "errors": set(),
    "rfc": {"errors"},
    "placement": {"rfc", "errors"},
    "discovery": {"rfc", "errors"},
    "view": {"placement", "rfc", "errors"},
    "flux": {"placement", "discovery", "view", "rfc", "errors"},
    "cli": {"placement", "discovery", "view", "flux", "rfc", "errors"},
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path):
    """Every module that *path* imports, dotted, type-checking imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module == "treepool":
                yield from (f"treepool.{alias.name}" for alias in node.names)


def room(path):
    """The room a module of the package is in; None for the package's own face."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[:2] == ("flux", "bin"):
        return "cli"  # what a site puts on its path: commands, not modules
    return None if parts[0] in ("__init__", "__main__") else parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_the_rooms_it_may(path):
    here = room(path)
    if here is None:
        return
    for name in imports(path):
        if name in FACE or name == "treepool":
            assert here == "cli" or name == "treepool", f"{here} imports {name}"
        elif name.startswith("treepool."):
            there = name.split(".")[1]
            assert there == here or there in MAY_IMPORT[here], f"{here} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_flux_room_imports_flux(path):
    if room(path) == "flux":
        return
    assert not [name for name in imports(path) if name.split(".")[0] in ("flux", "_flux")]


def test_every_room_is_in_the_rule():
    found = {room(path) for path in MODULES} - {None}
    assert found <= set(MAY_IMPORT)
