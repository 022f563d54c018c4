"""What the charts have in common: colours, style, and how the SVG begins."""

from __future__ import annotations

from typing import Callable, Optional, Sequence
from xml.sax.saxutils import escape

#: (light, dark) of lines, in the order in which they are told apart best.
COLOURS = (
    ("#0060a8", "#5cb3ff"),
    ("#c04a00", "#ff9a57"),
    ("#00785a", "#3ddcae"),
    ("#8a3fa0", "#d79af0"),
    ("#7a6200", "#e3c84a"),
    ("#b0205f", "#ff86b4"),
    ("#333333", "#eeeeee"),
    ("#b01717", "#ff8080"),
    ("#0b7285", "#5fd4e8"),
)

_LIGHT = """\
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #222 }
.title { font-size: 18px; font-weight: 600 }
.page { fill: #fff }
.grid { stroke: #ddd; stroke-width: 1 }
.note, .tick { fill: #555 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }"""

_DARK = """\
text { fill: #eee }
.page { fill: #16181c }
.grid { stroke: #33373d }
.note, .tick { fill: #aab }"""


def head(
    size: tuple[int, int],
    title: str,
    what: str,
    rule: Callable[[int, str], str],
    light: Sequence[str] = (),
    dark: Sequence[str] = (),
) -> list[str]:
    """The first lines of a chart of *size*: what it is, its style for light and dark, its page.

    *rule* is the CSS of a line, of its number and colour; *light* and *dark* are rules of its own.
    """
    width, height = size
    lines = [
        "\n".join(rule(i, colours[theme]) for i, colours in enumerate(COLOURS)) for theme in (0, 1)
    ]
    day = "\n".join([_LIGHT, *light, lines[0]])
    night = "\n".join([_DARK, *dark, lines[1]])
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(what)}</desc>",
        f"<style>\n{day}\n@media (prefers-color-scheme: dark) {{\n{night}\n}}\n</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]


def text(x: float, y: float, content: str, kind: str, anchor: Optional[str] = None) -> str:
    """*content* in the style called *kind*; *x* is where it begins, or what *anchor* says."""
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(content)}</text>'
