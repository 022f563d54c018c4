"""How jobs are told apart: each has a colour and a letter, the same in every view.

The colours are equally bright. Black letters on them have enough contrast, and so do the colours
themselves on a white page and on a dark one (WCAG 2: 4.5 to 1 for text, 3 to 1 for shapes).
Neighbours in the list are far apart in hue. Letters distinguish jobs with the same colour.
"""

from __future__ import annotations

import string
from typing import Sequence

import attrs

from treepool.view.model import OTHER
from treepool.view.picture import Picture
from treepool.view.rows import Row

#: Colours of jobs, used in order, then again from the first.
COLOURS = (
    *("#3395ee", "#e17328", "#2aa654", "#b577e0", "#b18d0d", "#e86881"),
    *("#0ea1a8", "#8d84f2", "#789e0b", "#db6bae", "#08a489", "#cb8101"),
)

#: Letters of jobs, used in order, then again from the first.
LETTERS = string.ascii_uppercase + string.ascii_lowercase

#: Letters in a row of several nodes for a holder that is a different job on each node.
SEVERAL = "123456789"

#: Signs for cores and GPUs that no job holds: on nodes that are up, fragmented GPUs there, and on
#: other nodes.
FREE, FRAGMENTED, AWAY = ".", "~", "x"


@attrs.frozen
class Mark:
    """How a holder is shown: its letter, and the index of its colour in COLOURS; -1 is grey."""

    letter: str
    colour: int


def mark(picture: Picture, job: int) -> Mark:
    """The mark of job number *job*."""
    if picture.jobs[job].name == OTHER:
        return Mark("?", -1)
    return Mark(LETTERS[job % len(LETTERS)], job % len(COLOURS))


def marks(picture: Picture, row: Row) -> list[Mark]:
    """The marks of the holders in *row*, in order; they differ as long as there are letters."""
    found: list[Mark] = []
    taken: set[str] = set()
    for i, jobs in enumerate(row.jobs):
        if len(jobs) > 1:
            new = Mark(SEVERAL[i] if i < len(SEVERAL) else "#", i % len(COLOURS))
        else:
            new = mark(picture, jobs[0])
            if new.letter in taken and new.colour >= 0:
                new = Mark(_free_letter(new.letter, taken), new.colour)
        taken.add(new.letter)
        found.append(new)
    return found


def _free_letter(wanted: str, taken: set[str]) -> str:
    start = LETTERS.index(wanted)
    turned: Sequence[str] = LETTERS[start:] + LETTERS[:start]
    return next((letter for letter in turned if letter not in taken), wanted)
