"""Values of options of several commands: whole numbers."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Callable


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A function that reads a whole number from *least* to *most*."""

    def whole(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) < 20
        if not digits or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r:.60} is not a whole number from {least} to {most}")
        return int(text)

    return whole
