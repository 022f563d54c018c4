"""How jobs are told apart: each job of a picture has one mark, a letter on a colour, in every view.

People who see no red, no green or no blue can tell any two of the colours, and any two of the
greys, apart: t/view/test_palette.py simulates this. Letters tell jobs of one colour apart.
"""

from __future__ import annotations

import string
from typing import Sequence

import attrs

from treepool.rfc import idset

#: Colours of jobs, and the colour of the letters on each.
COLOURS = (
    ("#3d70c8", "#ffffff"),
    ("#e78f1c", "#111111"),
    ("#4abd96", "#111111"),
    ("#ac4477", "#ffffff"),
    ("#e4d35f", "#111111"),
    ("#9ed6f2", "#111111"),
    ("#724011", "#ffffff"),
    ("#b196ef", "#111111"),
)

#: Greys, and their letters: of what is not one job. They follow the colours in numbering. A grey
#: may look like a colour to some, so these letters are digits and "?", and the page's cells round.
GREYS = (("#d4d8dc", "#111111"), ("#5d646b", "#ffffff"), ("#9aa1a8", "#111111"))

#: Letters of jobs, used in order, then again from the first.
LETTERS = string.ascii_uppercase + string.ascii_lowercase

#: Letters in a row of several nodes for a holder that is a different job on each node; the last
#: stands for all further ones.
SEVERAL = "123456789#"

#: The letter of what is held by no job shown.
UNKNOWN = "?"

#: Signs for cores and GPUs that no job holds: on nodes that are up, and on other nodes.
FREE, AWAY = ".", "x"

#: Most holders of a node of which each is compared with all others. Of more, each is compared with
#: as many before it: holders are in the order of their ids.
_MOST_COMPARED = 24


@attrs.frozen
class Mark:
    """How a holder is shown: its letter, and the index of its colour in COLOURS and then GREYS."""

    letter: str
    colour: int


#: The ids of a holder on one node, cores and GPUs (bitmasks).
_Ids = tuple[int, int]


def touching(held: Sequence[_Ids]) -> tuple[tuple[int, ...], ...]:
    """For each of the holders *held*, the earlier ones that have an id next to one of its own."""
    found = []
    for i, (cores, gpus) in enumerate(held):
        cores, gpus = cores << 1 | cores >> 1, gpus << 1 | gpus >> 1
        earlier = range(max(0, i - _MOST_COMPARED), i)
        found.append(tuple(j for j in earlier if held[j][0] & cores or held[j][1] & gpus))
    return tuple(found)


def greys(beside: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """A colour of GREYS for each holder, another than those of the earlier ones *beside* it."""
    found: list[int] = []
    for place, others in enumerate(beside):
        near = idset.union(1 << found[other] for other in others)
        found.append(_free(place, len(GREYS), near, near))
    return tuple(len(COLOURS) + grey for grey in found)


def several(place: int, grey: int) -> Mark:
    """The mark of holder number *place* of a row, which is a different job on each node."""
    return Mark(SEVERAL[min(place, len(SEVERAL) - 1)], grey)


#: How a node looks: the jobs on it (by number), and which earlier ones of them touch each.
_Look = tuple[Sequence[int], Sequence[Sequence[int]]]


def marks(jobs: int, looks: Sequence[_Look]) -> list[Mark]:
    """The marks of so many *jobs*, which are together on nodes that look like *looks*.

    Jobs on one node have different letters, and different colours, as long as these last. After
    that, jobs that touch still have.
    """
    on: list[list[int]] = [[] for _ in range(jobs)]
    beside: list[set[int]] = [set() for _ in range(jobs)]
    for number, (there, touch) in enumerate(looks):
        for place, job in enumerate(there):
            on[job].append(number)
            for other in touch[place]:
                beside[max(job, there[other])].add(min(job, there[other]))
    #: Bitmasks of what the jobs so far have: on each look, and of each job alone.
    letters, colours = [0] * len(looks), [0] * len(looks)
    letter_of, colour_of = [0] * jobs, [0] * jobs
    found: list[Mark] = []
    for job in range(jobs):
        here = on[job]
        near = idset.union(letter_of[other] for other in beside[job])
        letter = _free(job, len(LETTERS), idset.union(letters[look] for look in here), near)
        near = idset.union(colour_of[other] for other in beside[job])
        colour = _free(job, len(COLOURS), idset.union(colours[look] for look in here), near)
        letter_of[job], colour_of[job] = 1 << letter, 1 << colour
        for look in here:
            letters[look] |= 1 << letter
            colours[look] |= 1 << colour
        found.append(Mark(LETTERS[letter], colour))
    return found


def _free(wanted: int, number: int, taken: int, near: int) -> int:
    """The first of *number* things from *wanted* on that is not in bitmask *taken*.

    If all are, the first that is not in *near*; if all are in that, too, *wanted*.
    """
    for mask in (taken, near):
        for thing in range(wanted, wanted + number):
            if not mask >> thing % number & 1:
                return thing % number
    return wanted % number
