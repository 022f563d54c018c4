"""The map of the page, how nodes are found, and what letters and colours mean, in a browser."""

import pytest

from browser.driver import END, LEFT, RIGHT
from browser.test_page import choose, titles, write
from made import nodes
from treepool.view.html import html
from treepool.view.palette import COLOURS
from treepool.view.rows import rows
from view.conftest import make_picture
from view.test_areas import cluster as fabric


def squares(browser):
    """How many squares of each class the map has."""
    script = """
        const found = {};
        for (const square of document.querySelectorAll("#areas .square")) {
          const state = square.className.replace("square ", "");
          found[state] = (found[state] || 0) + 1;
        }
        return found"""
    return browser.js(script)


def test_the_map_has_a_square_for_each_node_in_its_domain_at_every_step(show):
    picture = make_picture(fabric(32, 8, 2), ["slot=3/node{x}", "slot=1/core=1"], down="31")
    browser = show(picture)
    assert len(browser.texts("#areas .spot")) == 4
    assert squares(browser) == {"full": 3, "partial": 1, "idle": 27, "down": 1}
    browser.click("#back")
    assert squares(browser) == {"full": 3, "idle": 28, "down": 1}
    browser.click("#back")
    assert squares(browser) == {"idle": 31, "down": 1}
    assert browser.texts("#areas .area > button")[1] == "cell c1: 15 of 16 nodes idle"


def test_a_click_on_a_domain_shows_its_nodes_and_dims_the_others(show):
    browser = show(make_picture(fabric(32, 8, 2), ["slot=3/node{x}"]))
    browser.click("#areas .spot")
    assert browser.js("return document.getElementById('host').value") == "0-7"
    assert browser.texts("#found") == ["8 nodes in 2 boxes"]
    assert squares(browser) == {"full": 3, "idle": 5, "idle dim": 24}
    pressed = "return document.querySelector('#areas .spot').getAttribute('aria-pressed')"
    assert browser.js(pressed) == "true"
    browser.click("#areas .spot")
    assert browser.texts("#found") == ["32 nodes in 2 boxes"]
    assert browser.js(pressed) == "false"


def test_arrow_keys_go_from_domain_to_domain(show):
    browser = show(make_picture(fabric(32, 8, 2)))
    browser.js("document.querySelector('#areas button').focus()")
    label = "return document.activeElement.getAttribute('aria-label')"
    assert browser.js(label) == "cell c0: 16 of 16 nodes idle"
    browser.press(RIGHT)
    assert browser.js(label) == "switch s0: 8 of 8 nodes idle"
    browser.press(END)
    assert browser.js(label) == "switch s3: 8 of 8 nodes idle"
    browser.press(LEFT, LEFT)
    assert browser.js(label) == "cell c1: 16 of 16 nodes idle"
    stops = "return document.querySelectorAll('#areas button[tabindex=\"0\"]').length"
    assert browser.js(stops) == 1


@pytest.mark.parametrize("across", [8, 29])
def test_the_map_of_11136_nodes_fits_a_screen(show, across):
    browser = show(make_picture(fabric(11_136, 64, across)), width=1280, height=900)
    assert sum(squares(browser).values()) == 11_136
    assert browser.js("return document.getElementById('map').offsetHeight") <= 800
    assert browser.js("return document.documentElement.scrollWidth") <= 1280
    sizes = "const e = document.getElementById('areas'); return [e.scrollHeight, e.clientHeight]"
    assert len(set(browser.js(sizes))) == 1  # nothing is behind a scroll bar


def test_a_large_cluster_without_a_fabric_has_a_map_of_rows(show):
    browser = show(make_picture("b", ["slot=3/node{x}"], down="1151"))
    assert squares(browser) == {"full": 3, "idle": 1148, "down": 1}
    assert browser.texts("#areas .spot small")[:2] == ["cray[0-63]", "cray[64-127]"]
    browser.click("#areas .spot")
    assert titles(browser) == ["3 \u00d7 cray[0-2]", "61 \u00d7 cray[3-63]"]


def test_the_name_of_one_node_of_thousands_finds_it_and_brings_it_into_view(show):
    picture = make_picture(fabric(11_136, 64, 29), ["node=600/slot/core=4"], down="500")
    browser = show(picture, width=1280, height=800)
    assert browser.js("return document.querySelector('.node').getBoundingClientRect().top") > 800
    write(browser, "host", "n500")
    assert titles(browser) == ["n500"]
    assert squares(browser)["down"] == 1
    seen = browser.js(
        "const box = e => document.querySelector(e).getBoundingClientRect();"
        "const node = box('.node');"
        "return [node.top >= box('#filters').bottom, node.bottom <= innerHeight]"
    )
    assert seen == [True, True]
    assert browser.js("return document.activeElement.id") == "host"


def test_the_name_of_a_domain_finds_its_nodes(show):
    browser = show(make_picture(fabric(32, 8, 2)))
    for name in ("s1", "switch S1"):
        write(browser, "host", name)
        assert titles(browser) == ["8 \u00d7 n[8-15]"]
    write(browser, "host", "c1")
    assert titles(browser) == ["16 \u00d7 n[16-31]"]


def test_hosts_that_count_up_are_a_list_with_their_zeros(show):
    R = nodes("0-6")
    R["execution"]["nodelist"] = ["n[08-10],login,n[8-10]"]
    assert titles(show(make_picture(R))) == ["7 \u00d7 n[08-10],login,n[8-10]"]


def test_nodes_chosen_on_the_command_line_are_what_the_page_opens_on(show, tmp_path):
    picture = make_picture("b", ["slot=1/core"] * 2)
    (tmp_path / "some.html").write_text(html(picture, rows(picture, range(3))))
    browser = show(picture)
    browser.open(tmp_path / "some.html")
    assert titles(browser) == ["cray0", "cray1", "cray2"]
    browser.open(tmp_path / "page.html")


def test_a_job_has_one_letter_and_one_colour_on_the_whole_page(show):
    shapes = ["slot=4/[core=5;gpu=1]", "slot=3/[core=2;gpu=1]", *["slot=1/core=5"] * 60]
    browser = show(make_picture("a", shapes))
    choose(browser, "fold", "each")
    script = """
        const found = {};
        const add = (name, e) => {
          const colour = [...e.classList].find(c => /^c\\d/.test(c));
          (found[name] ||= new Set()).add(`${e.textContent} ${colour}`);
        };
        for (const button of document.querySelectorAll("#jobs button"))
          add(`job ${button.dataset.job}`, button.firstChild);
        for (const holder of document.querySelectorAll(".holders span:has(i)"))
          add(holder.lastChild.data, holder.firstChild);
        return Object.entries(found).map(([name, marks]) => [name, [...marks]])"""
    marks = dict(browser.js(script))
    assert len(marks) >= 60
    assert all(len(some) == 1 for some in marks.values())
    assert marks["job 1"] == ["A c0"]


def test_what_is_not_one_job_is_a_digit_on_grey(show):
    browser = show(make_picture("b", ["slot=1/node{x}"] * 60))
    grey = f".node .cell.core.c{len(COLOURS)}"
    assert set(browser.texts(grey)) == {"1"}
    assert len(browser.texts(grey)) == 96
    assert "a digit on a grey circle is a different job" in browser.texts("#key")[0]
    shape = "return getComputedStyle(document.querySelector(arguments[0])).borderRadius"
    for cell in (grey, grey.replace("core", "gpu"), ".holders i"):
        assert browser.js(shape, cell) == "50%"
