"""Marks: one for each job in all views, different where jobs meet, for whatever eyes."""

import random
from itertools import combinations

import pytest

from depth import examples
from treepool.rfc import idset
from treepool.view import palette
from treepool.view.palette import COLOURS, GREYS
from treepool.view.picture import Picture
from treepool.view.rows import marks, rows
from view.colours import SIGHTS, contrast, distance
from view.counting import pool_with_jobs, some_R
from view.test_model import jobs_of

#: The least distance of two colours, and of two greys. The twelve colours of equal brightness that
#: treepool had before had 1.0 here, and those of Okabe and Ito have 7.6.
LEAST = 12.0


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("which", (COLOURS, GREYS), ids=("colours", "greys"))
def test_any_two_colours_look_different_to_people_without_some_cones(which, sight):
    assert min(distance(a, b, sight) for (a, _), (b, _) in combinations(which, 2)) > LEAST


@pytest.mark.parametrize(("colour", "letter"), [*COLOURS, *GREYS])
def test_letters_can_be_read_on_their_colours(colour, letter):
    assert contrast(colour, letter) >= 4.5


def test_the_simulation_sees_what_is_known():
    assert distance("#ff0000", "#00ff00", "all cones") > 50
    assert distance("#8a7500", "#b04d00", "protanopia") < distance(
        "#8a7500", "#b04d00", "all cones"
    )
    assert contrast("#000000", "#ffffff") == 21


@pytest.mark.parametrize("seed", range(examples(120)))
def test_jobs_on_one_node_have_different_letters_and_touching_ones_different_colours(seed):
    pool, running = pool_with_jobs(some_R(12), seed, 40)
    picture = Picture.of(pool, jobs_of(running))
    for row in rows(picture, picture.cluster.ranks).shown:
        shown = marks(picture, row)
        assert len({mark.letter for mark in shown}) == len(shown)
        for a, b in combinations(range(len(shown)), 2):
            if adjacent(row.layout.held[a], row.layout.held[b]):
                assert shown[a].colour != shown[b].colour


@pytest.mark.parametrize("seed", range(examples(120)))
def test_holders_of_several_jobs_are_grey_and_those_that_touch_differ(seed):
    chance = random.Random(seed)
    owner = [chance.randrange(6) for _ in range(24)]
    held = [(idset.from_ids(i for i, who in enumerate(owner) if who == job), 0) for job in range(6)]
    touching = palette.touching(held)
    greys = palette.greys(touching)
    for a, b in combinations(range(6), 2):
        assert (a in touching[b]) == adjacent(held[a], held[b])
    assert set(greys) <= set(range(len(COLOURS), len(COLOURS) + len(GREYS)))
    runs = [(1 << 0, 0), (1 << 1, 0), (1 << 2, 0), (1 << 3, 0)]
    row = palette.greys(palette.touching(runs))
    assert all(a != b for a, b in zip(row, row[1:]))


def adjacent(one, other):
    """Whether two holders have ids next to each other, by sets."""
    return any(
        abs(a - b) == 1
        for mine, theirs in zip(one, other)
        for a in idset.iterate(mine)
        for b in idset.iterate(theirs)
    )


def test_what_no_job_holds_is_a_question_mark_in_grey(picture_of):
    pool, running = pool_with_jobs(some_R(), 3)
    picture = Picture.of(pool, jobs_of(running)[1:])
    assert picture.marks[-1] == palette.Mark("?", len(COLOURS))


def test_where_letters_run_out_jobs_that_touch_still_differ():
    looks = [(list(range(96)), palette.touching([(1 << i, 0) for i in range(96)]))]
    found = palette.marks(96, looks)
    assert len({mark.letter for mark in found[:52]}) == 52
    assert all(a.letter != b.letter for a, b in zip(found, found[1:]))
    assert all(a.colour != b.colour for a, b in zip(found, found[1:]))
