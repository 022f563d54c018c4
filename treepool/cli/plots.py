"""Plots by matplotlib (extra ``treepool[plots]``): fonts, grid, and the error if it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treepool.cli import files
from treepool.cli.screen import Stop

#: Words in the SVG are text and never formulas, and equal plots give equal files.
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "treepool",
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}


def check(option: str, path: Path) -> None:
    """Raise Stop early, not after minutes, if *option* cannot write its plot to *path*."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Stop(f"argument {option}: needs matplotlib: pip install matplotlib") from None
    files.check_writable(option, path)


def style() -> Any:
    """The context in which a plot is drawn and written."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def write(figure: Any, target: Any) -> None:
    """Write *figure* as SVG to *target*, a path or a file."""
    figure.savefig(target, format="svg", metadata={"Date": None})
