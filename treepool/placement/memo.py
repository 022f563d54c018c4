"""Memory: answers that are worked out once, and how many of them are kept."""

from __future__ import annotations

from typing import Callable, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remembered(memo: dict[K, V], most: int, key: K, compute: Callable[[], V]) -> V:
    """The answer in *memo* for *key*, from *compute* the first time; at *most* many are kept.

    All are forgotten once there are too many: that changes only how soon an answer comes.
    """
    try:
        return memo[key]
    except KeyError:
        found = compute()
        if len(memo) >= most:
            memo.clear()
        memo[key] = found
        return found
