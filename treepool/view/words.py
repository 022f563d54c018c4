"""Words for people: how long names and lists may be, counts, sizes.

Names come from R, which may come from anyone. ``plain`` removes characters from them that a
terminal would interpret. The views for browsers escape them as well.
"""

from __future__ import annotations

from treepool.rfc.quote import printable

#: Longest name shown, and longest list of ids or hosts.
MAX_NAME, MAX_LIST = 64, 400


def plain(text: str, longest: int = MAX_NAME) -> str:
    """*text* without control and invisible characters, cut to *longest* characters."""
    return printable(text if len(text) <= longest else text[: longest - 1] + "…")


def listed(text: str, longest: int = MAX_LIST) -> str:
    """A list of hosts or ids in at most *longest* characters, cut between two of them: n[0-3,…]."""
    if len(text) <= longest:
        return plain(text, longest)
    end = "…]" if text.rfind("[", 0, longest) > text.rfind("]", 0, longest) else "…"
    head = text[: max(0, longest - len(end))]
    return plain(head[: head.rfind(",") + 1] or head, longest) + end


def count(number: int, what: str) -> str:
    """A number of things: "1 core", "1,024 cores"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def size(number: int) -> str:
    """An amount of memory in the largest unit that keeps it whole or above ten: "125 GiB"."""
    for unit, power in (("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if number >= 10 << power or (number and number % (1 << power) == 0):
            return f"{number / (1 << power):,.4g} {unit}"
    return f"{number:,} B"
