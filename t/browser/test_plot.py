"""The page of a replay: it opens at the busiest moment, below the plot of all policies."""

import json
import re

import pytest

from browser.driver import HOME
from browser.test_page import CONTRASTS, tiles, tiles_of
from treepool.rfc.rset import ResourceSet
from treepool.view.history import picture_of
from treepool.view.plot import DASHES, Plot
from treepool.view.replay import Rules, replay
from treepool.view.synthetic import synthetic
from treepool.view.trace import read
from view.conftest import cluster_R

RULES = ("policy=fifo", "policy=easy", "policy=easy,node-policy=min-span")


def run(R, jobs, rules=RULES):
    """The picture and plot of a replay."""
    resource_set, starts = ResourceSet.read(R), []
    outcomes = [
        replay(resource_set, jobs, Rules(name), watch=lambda *start: starts.append(start))
        if name == rules[0]
        else replay(resource_set, jobs, Rules(name, "easy"))
        for name in rules
    ]
    return picture_of(resource_set, starts, jobs[0].submit), Plot.of(outcomes)


@pytest.fixture(scope="module")
def busy():
    R = cluster_R("a")
    return run(R, synthetic(ResourceSet.read(R), 150, load=1.3))


def test_it_opens_at_the_busiest_step(show, busy):
    picture, plot = busy
    browser = show(picture, plot=plot)
    step = picture.busiest
    assert 0 < step < len(picture.steps) - 1
    assert tiles(browser) == tiles_of(picture.steps[step].totals)
    assert browser.texts("#label")[0].startswith(f"Step {step} of 300 (the busiest): ")


def test_each_panel_has_a_line_of_its_own_look_for_each_policy(show, busy):
    browser = show(busy[0], plot=busy[1])
    assert browser.texts(".chart h3") == [
        "cores in use, %",
        "GPUs in use, %",
        "GPUs free, but in no whole domain, %",
        "jobs waiting",
    ]
    script = """
        const look = e => [e.getAttribute("class"), e.getAttribute("stroke-dasharray")].join(" ");
        return [...document.querySelectorAll(arguments[0])].map(
          svg => [...svg.querySelectorAll("path")].map(look))"""
    panels = browser.js(script, ".chart svg")
    assert [len(set(lines)) for lines in panels] == [3, 3, 3, 3]
    legend = [lines[0] for lines in browser.js(script, "#lines svg")]
    assert all(lines == legend for lines in panels)
    assert browser.texts("#lines span")[0] == "policy=fifo (its jobs are drawn below)"
    assert browser.texts("#numbers thead th")[1:] == [name.replace(",", ", ") for name in RULES]
    assert browser.texts("#numbers tbody tr")[0].split() == ["jobs", "run", "150", "150", "150"]


def test_dashes_and_colours_together_are_different_for_as_many_lines_as_there_may_be(show, busy):
    browser = show(busy[0], plot=busy[1])
    looks = browser.js("return [...Array(12).keys()].map(i => JSON.stringify(looksOf(i)))")
    assert len(set(looks)) == 12
    assert len(set(DASHES)) == 7


def test_the_line_has_the_heights_of_the_numbers(show):
    jobs = [
        {"submit": at, "duration": 100, "shape": f"slot={nodes}/node{{x}}"}
        for at, nodes in ((0, 16), (100, 8))
    ]
    picture, plot = run(cluster_R("a"), read("\n".join(map(json.dumps, jobs))), RULES[:1])
    browser = show(picture, plot=plot)
    script = """
        const path = document.querySelector(".chart .run").getAttribute("d");
        const lines = [...document.querySelectorAll(".chart:first-child .grid")];
        return [path, ...lines.map(line => Number(line.getAttribute("y1")))]"""
    path, *levels = browser.js(script)
    zero, half, full = levels[0], levels[2], levels[4]
    heights = [float(y) for y in re.findall(r",([0-9.]+)", path)]
    assert sorted(set(heights)) == [pytest.approx(full, abs=0.1), pytest.approx(half, abs=0.1)]
    assert zero - half == pytest.approx(half - full)


def test_the_cursor_is_at_the_time_of_the_step_and_a_click_goes_there(show, busy):
    picture, plot = busy
    browser = show(picture, plot=plot)
    cursor = "return Number(document.querySelectorAll('.chart .cursor')[1].getAttribute('x1'))"
    place = browser.js(cursor)
    browser.js("document.getElementById('step').focus()")
    browser.press(HOME)
    assert browser.js(cursor) == pytest.approx(44)
    middle = """
        const box = document.querySelectorAll(".chart svg")[1];
        const { left, top } = box.getBoundingClientRect();
        const at = { clientX: left + arguments[0], clientY: top };
        box.dispatchEvent(new MouseEvent("click", at));"""
    browser.js(middle, place + 0.1)
    assert browser.js(cursor) == pytest.approx(place, abs=1)
    assert tiles(browser) == tiles_of(picture.steps[browser.js("return step")].totals)


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
@pytest.mark.parametrize("width", (320, 768, 1280, 2560))
def test_it_fits_the_window_legends_do_not_overlap_and_all_can_be_read(show, busy, width, dark):
    browser = show(busy[0], plot=busy[1], width=width, dark=dark)
    assert browser.js("return document.documentElement.scrollWidth") <= width
    overlaps = """
        const found = [...document.querySelectorAll(arguments[0])];
        const boxes = found.map(e => e.getBoundingClientRect());
        const across = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
        const down = (a, b) => a.top < b.bottom - 1 && b.top < a.bottom - 1;
        return boxes.some((a, i) => boxes.slice(i + 1).some(b => across(a, b) && down(a, b)))"""
    for things in (".chart text, .chart h3, #numbers", "#lines span", "#key span"):
        assert not browser.js(overlaps, things)
    assert browser.js(CONTRASTS) == []


def test_a_cluster_without_jobs_or_with_one_is_drawn(show):
    jobs = read('{"submit": 5, "duration": 10, "shape": "slot=1/core"}')
    picture, plot = run(cluster_R("a"), jobs)
    browser = show(picture, plot=plot)
    assert len(browser.texts(".chart")) == 4
    assert browser.texts("#label")[0].startswith("Step 1 of 2 (the busiest)")
