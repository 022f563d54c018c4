"""A planted bug."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """In ``path``, below treepool, ``old``, which is there once, becomes ``new``.

    Blanks and line ends in ``old`` stand for any of these. ``test`` names the tests that are to
    notice it, see tests.py.
    """

    name: str
    path: str
    old: str
    new: str
    test: str = "machine"

    def plant(self, treepool: Path) -> None:
        """Change the source in folder *treepool*; raise ValueError if it is not as expected."""
        source = treepool / self.path
        text = source.read_text()
        pattern = r"\s+".join(map(re.escape, self.old.split()))
        found = re.findall(pattern, text)
        if len(found) != 1:
            raise ValueError(f"{self.path} has this {len(found)} times: {self.old}")
        changed = text.replace(found[0], self.new)
        compile(changed, str(source), "exec")
        source.write_text(changed)
