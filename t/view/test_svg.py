"""The SVG: what the terminal shows, as text, whatever names there are."""

import re
from itertools import zip_longest
from xml.etree import ElementTree

import pytest

from bench.workload import cluster as large
from depth import examples
from treepool.view.palette import COLOURS
from treepool.view.picture import Picture
from treepool.view.rows import rows
from treepool.view.svg import COLUMNS, svg
from treepool.view.text import text
from view.counting import pool_with_jobs, some_R
from view.hostile import LARGE
from view.test_model import jobs_of

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture, unfold=None):
    return svg(picture, rows(picture, unfold))


def lines(shown):
    """The lines of an SVG, without blanks and without those that are empty."""
    found = {}
    for element in ElementTree.fromstring(shown).iter(f"{SVG}text"):
        place = float(element.get("y"))
        found[place] = found.get(place, "") + "".join(element.text.split())
    return [found[place] for place in sorted(found) if found[place]]


def lines_of_text(picture, unfold=None):
    """The lines of the terminal, without blanks and without those that are empty."""
    shown = text(picture, rows(picture, unfold), COLUMNS).plain
    return [line for line in ("".join(line.split()) for line in shown.splitlines()) if line]


def differences(one, other):
    """The first pairs of lines that differ: pytest takes minutes to compare long lists."""
    return [pair for pair in zip_longest(one, other, fillvalue="") if len(set(pair)) > 1][:3]


@pytest.mark.parametrize("seed", range(examples(80)))
def test_it_says_what_the_terminal_says(seed):
    pool, running = pool_with_jobs(some_R(), seed)
    pool.mark_down("1")
    picture = Picture.of(pool, jobs_of(running))
    assert differences(lines(drawn(picture, range(6))), lines_of_text(picture, range(6))) == []


def test_a_job_has_its_colour(picture_of):
    shown = drawn(picture_of("a", ["slot=1/core=3"]))
    colours = [rect.get("fill") for rect in ElementTree.fromstring(shown).iter(f"{SVG}rect")]
    assert COLOURS[0][0] in colours


@pytest.mark.depth
def test_nothing_is_drawn_outside_the_page(picture_of):
    for R in ("a", "b", large(11_136), *LARGE.values()):
        tree = ElementTree.fromstring(drawn(picture_of(R, ["slot=1/core=3"])))
        _, _, width, height = map(float, tree.get("viewBox").split())
        for element in tree.iter(f"{SVG}text"):
            assert float(element.get("x")) + float(element.get("textLength")) <= width
            assert float(element.get("y")) < height


def test_it_asks_for_nothing(picture_of):
    asked = re.findall(r"(?:https?:|url\((?!#)|href|@import)[^\" ]*", drawn(picture_of("a")))
    assert asked == [SVG.strip("{}")]
