"""The page of a replay: it opens at the busiest moment, below the plot of all policies."""

import pytest

from browser.test_page import CONTRASTS, tiles, tiles_of
from treepool.cli import replayplot
from treepool.rfc.rset import ResourceSet
from treepool.view.history import picture_of
from treepool.view.plot import Plot
from treepool.view.replay import Rules, replay
from treepool.view.synthetic import synthetic
from view.conftest import cluster_R

RULES = ("policy=fifo", "policy=easy", "policy=easy,node-policy=worst-fit")


def run(R, jobs, rules=RULES):
    """The picture of a replay, and how the page draws it."""
    resource_set, starts = ResourceSet.read(R), []
    outcomes = [
        replay(resource_set, jobs, Rules(name), watch=lambda *start: starts.append(start))
        if name == rules[0]
        else replay(resource_set, jobs, Rules(name, "easy"))
        for name in rules
    ]
    drawn = {"plot": Plot.of(outcomes), "image": replayplot.text(outcomes)}
    return picture_of(resource_set, starts), drawn


@pytest.fixture(scope="module")
def busy():
    R = cluster_R("a")
    return run(R, synthetic(ResourceSet.read(R), 150, load=1.3))


def test_it_opens_at_the_busiest_step(show, busy):
    picture, drawn = busy
    browser = show(picture, **drawn)
    step = picture.busiest
    assert 0 < step < len(picture.steps) - 1
    assert tiles(browser) == tiles_of(picture.steps[step].totals)
    assert browser.texts("#label")[0].startswith(f"Step {step} of 300 (the busiest): ")


def test_the_plot_is_a_picture_in_the_page_and_the_numbers_stand_beside_it(show, busy):
    pytest.importorskip("matplotlib")
    browser = show(busy[0], **busy[1])
    drawn = "const e = document.querySelector('#charts img'); return [e.complete, e.naturalWidth]"
    complete, wide = browser.js(drawn)
    assert complete and wide > 500
    heads = browser.texts("#numbers thead th")[1:]
    assert heads == ["policy=fifo (drawn below)", *(name.replace(",", ", ") for name in RULES[1:])]
    assert browser.texts("#numbers tbody tr")[0].split() == ["jobs", "run", "150", "150", "150"]


def test_without_matplotlib_the_page_says_what_is_needed(show, busy):
    browser = show(busy[0], plot=busy[1]["plot"])
    assert "pip install matplotlib" in browser.texts("#charts")[0]
    assert browser.texts("#numbers tbody tr")


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
@pytest.mark.parametrize("width", (320, 1280))
def test_it_fits_the_window_and_all_can_be_read(show, busy, width, dark):
    browser = show(busy[0], **busy[1], width=width, dark=dark)
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.js(CONTRASTS) == []
