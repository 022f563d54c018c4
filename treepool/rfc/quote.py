"""Text from a document, as a message quotes it: short, and safe to show on a terminal."""

from __future__ import annotations

#: Longest piece of a document quoted in a message, in characters.
MAX_SHOWN = 60


def shortened(text: str, longest: int = MAX_SHOWN) -> str:
    """At most *longest* characters of *text*; the rest becomes three dots."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def quoted(text: str) -> str:
    """*text*, shortened, in quotes, with backslash escapes for what is not printable."""
    return repr(shortened(text))


def printable(text: str) -> str:
    """*text* with backslash escapes for control characters and invisible characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
