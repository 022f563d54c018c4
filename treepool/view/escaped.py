"""What rich draws, with what is not printable escaped: no name can be a command to a terminal.

Text that is too wide for its place is cut by its escaped form (``words.plain``). This is for all
text, also where nobody thought of it.
"""

from __future__ import annotations

import attrs
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from treepool.rfc.quote import printable


@attrs.frozen
class Escaped:
    """*drawn*, escaped; its own line breaks stay."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.drawn, options):
            text = "\n".join(map(printable, segment.text.split("\n")))
            yield Segment(text, segment.style)
