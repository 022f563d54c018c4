"""How deep the JSON may be nested that Flux passes on from users: jobspecs, memos.

Flux reads it with jansson, which allows 2,048 levels. Python reads it recursively, and its limit of
recursion is 1,000.
"""

from __future__ import annotations

import sys

#: Levels of recursion; more than jansson's, because the reader is called from somewhere.
_DEEPEST = 4096


def allow() -> None:
    """Let this process read all that Flux lets through."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
