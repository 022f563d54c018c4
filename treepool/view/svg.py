"""The picture as an SVG for documents: what the terminal shows, in its colours, on white."""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from treepool.view.escaped import Escaped
from treepool.view.picture import Picture
from treepool.view.rows import Rows
from treepool.view.text import text

#: Columns of the terminal: two boxes of RFC 49's cluster A stand side by side.
COLUMNS = 160

# rich's own format draws a terminal window and loads a font from the network. This format works
# with any installed font, because each text states its width.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}">
<style>
.{unique_id}-matrix {{ font: {char_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" fill="#fff"/>
<g transform="translate({terminal_x} {terminal_x})">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def svg(picture: Picture, rows: Rows) -> str:
    """*picture*, with its nodes as *rows*, as the text of an SVG file."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=COLUMNS,
        height=1,  # with only a width given, TERM=dumb means 80 columns
        legacy_windows=False,
    )
    console.print(Escaped(text(picture, rows, COLUMNS)))
    return console.export_svg(code_format=_FORMAT, theme=DEFAULT_TERMINAL_THEME)
