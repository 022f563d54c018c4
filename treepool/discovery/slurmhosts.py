"""Lists of hosts as Slurm writes them: like RFC 29, and several brackets in a name are a product.

``rack[0-1]n[2-3]`` is ``rack0n2,rack0n3,rack1n2,rack1n3``. The leftmost changes slowest.
"""

from __future__ import annotations

import re

from treepool.errors import InvalidHostlist
from treepool.rfc import hostlist
from treepool.rfc.hostlist import MAX_HOSTS, MAX_NAME, MAX_TEXT

#: An expression between two commas, with whatever brackets.
_EXPRESSION = re.compile(r"(?:[^,[]|\[[^\]]*\]?)+")


def decode(text: str) -> list[str]:
    """The hosts in *text*, in order; raises InvalidHostlist as ``hostlist.decode`` does."""
    if text.count("[") < 2:
        return hostlist.decode(text)
    found: list[str] = []
    for expression in _EXPRESSION.findall(text):
        names = [""]
        for part in filter(None, re.split(r"(?<=\])", expression)):
            ends = hostlist.decode(part)
            number = len(names) * len(ends)
            longest = max(map(len, names)) + max(map(len, ends), default=0)
            if longest > MAX_NAME:
                raise InvalidHostlist(f"hostlist: a host name longer than {MAX_NAME} characters")
            if len(found) + number > MAX_HOSTS or number * longest > MAX_TEXT:
                raise InvalidHostlist(f"hostlist: more than {MAX_HOSTS} hosts")
            names = [name + end for name in names for end in ends]
        found += names
    return found
