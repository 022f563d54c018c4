"""The page of ``treepool show --html`` as people use it, in a headless Chromium."""

import re
import time

import pytest

from bench.workload import cluster as large
from browser.driver import DOWN, END, ESCAPE, HOME, LEFT, RIGHT, TAB
from treepool.view.html import html
from treepool.view.jobs import Job, Running
from treepool.view.rows import rows
from treepool.view.totals import Totals
from view.conftest import make_picture
from view.counting import some_R
from view.hostile import HOSTS, LARGE, NAMES, cluster
from view.test_areas import cluster as fabric

SHAPES = ["slot=2/[core=8;gpu=1]", "slot=1/socket{x}", "slot=3/[core=15;gpu=1]", "slot=2/node{x}"]


def tiles(browser):
    """The numbers of the tiles by what they are called."""
    script = """
        const number = tile => Number(tile.querySelector("b").innerText.replace(/,/g, ""));
        const tiles = [...document.querySelectorAll(".tile")];
        return Object.fromEntries(tiles.map(tile => [tile.dataset.what, number(tile)]))"""
    return browser.js(script)


def tiles_of(totals):
    """What the tiles should say."""
    wanted = {
        "GPUs free": totals.gpus_free,
        "GPUs used": totals.gpus_used,
        "GPUs stranded": int(totals.gpus_stranded),
        "cores free": totals.cores_free,
        "cores used": totals.cores_used,
        "nodes idle": totals.idle,
        "nodes in use": totals.partly + totals.full,
        "nodes not up": totals.down + totals.drained,
    }
    if not wanted["nodes not up"]:
        del wanted["nodes not up"]
    return wanted


def cells(browser):
    """How many cores and GPUs of each class are drawn, each as often as its box has nodes."""
    script = """
        const found = {};
        for (const node of document.querySelectorAll(".node")) {
          const text = node.querySelector("h2").textContent.match(/^([0-9,]+) \\u00d7/);
          const nodes = text ? Number(text[1].replace(/,/g, "")) : 1;
          for (const cell of node.querySelectorAll(".cell[data-kind]")) {
            const state = [...cell.classList].find(c => /^(free|away|c[0-9]+)$/.test(c));
            const kind = `${cell.dataset.kind} ${/^c[0-9]/.test(state) ? "used" : state}`;
            found[kind] = (found[kind] || 0) + nodes;
          }
        }
        return found"""
    return browser.js(script)


def cells_of(totals):
    """How many cells there should be."""
    wanted = {
        "core free": totals.cores_free,
        "core used": totals.cores_used,
        "core away": totals.cores - totals.cores_free - totals.cores_used,
        "gpu free": totals.gpus_free,
        "gpu used": totals.gpus_used,
        "gpu away": totals.gpus - totals.gpus_free - totals.gpus_used,
    }
    return {kind: number for kind, number in wanted.items() if number}


def titles(browser):
    script = "return [...document.querySelectorAll('.node h2')].map(title => title.textContent)"
    return browser.js(script)  # innerText is empty where a box is out of view


def write(browser, name, text):
    """Type *text* into field *name*, in place of what is there."""
    browser.js("const f = document.getElementById(arguments[0]); f.value = ''; f.focus()", name)
    browser.press(*text)


def choose(browser, name, value):
    browser.js(
        "const f = document.getElementById(arguments[0]); f.value = arguments[1];"
        "f.dispatchEvent(new Event('change'))",
        name,
        value,
    )


def test_every_step_of_the_slider_has_the_numbers_and_cells_of_the_model(show):
    picture = make_picture("a", SHAPES, down="9", drained="12-13")
    browser = show(picture)
    browser.js("document.getElementById('step').focus()")
    assert tiles(browser) == tiles_of(picture.totals)
    for step in reversed(picture.steps):
        assert tiles(browser) == tiles_of(step.totals)
        assert cells(browser) == cells_of(step.totals)
        browser.press(LEFT)
    assert browser.texts("#label") == ["Step 0 of 4: before the first job"]
    browser.press(RIGHT, RIGHT)
    assert tiles(browser) == tiles_of(picture.steps[2].totals)
    browser.press(END)
    assert cells(browser) == cells_of(picture.totals)


def test_nodes_of_several_types_are_drawn_with_all_their_cells(show):
    picture = make_picture(some_R(), ["slot=3/core=2", "slot=1/[core=2;gpu=1]", "slot=1/node{x}"])
    browser = show(picture)
    assert cells(browser) == cells_of(picture.totals)
    assert Totals(*browser.js("return data.steps[step][1]")) == picture.totals


def test_equal_nodes_are_one_box_and_each_has_its_own_if_asked_for(show):
    browser = show(make_picture("a", ["slot=2/node{x}"]))
    assert titles(browser) == ["2 \u00d7 xeon[0-1]", "14 \u00d7 xeon[2-15]"]
    choose(browser, "fold", "each")
    assert titles(browser) == [f"xeon{i}" for i in range(16)]


def test_filters_by_host_rank_job_type_and_state(show):
    browser = show(make_picture("a", ["slot=2/node{x}", "slot=1/core"], down="9"))
    write(browser, "host", "xeon1")
    assert titles(browser) == ["xeon1"]
    write(browser, "host", "on1")
    assert titles(browser) == ["xeon1", "6 \u00d7 xeon[10-15]"]
    write(browser, "host", "xeon[0,9-11] xeon15")
    assert titles(browser) == ["xeon0", "xeon9", "3 \u00d7 xeon[10-11,15]"]
    write(browser, "host", "0,8-10")
    assert titles(browser) == ["xeon0", "2 \u00d7 xeon[8,10]", "xeon9"]
    browser.click("#clear")
    write(browser, "job", "1")
    assert titles(browser) == ["2 \u00d7 xeon[0-1]"]
    browser.click("#clear")
    choose(browser, "state", "down")
    assert titles(browser) == ["xeon9"]
    assert browser.texts("#found") == ["1 node in 1 box"]
    browser.click("#clear")
    choose(browser, "type", "0")
    assert sum(cells(browser).values()) == 16 * 128
    write(browser, "host", "nothing")
    assert titles(browser) == []
    assert browser.texts("#found") == ["No node is like that: nothing."]


def test_a_click_on_a_job_shows_its_nodes_and_dims_the_others_on_them(show):
    browser = show(make_picture("a", ["slot=1/core=3", "slot=1/core=4", "slot=1/node{x}"]))
    browser.click('#jobs button[data-job="2"]')
    assert titles(browser) == ["xeon0"]
    assert browser.js("return document.querySelectorAll('.cell.dim').length") == 3
    browser.click('#jobs button[data-job="2"]')
    assert len(titles(browser)) == 3


def test_the_mouse_on_a_cell_tells_ids_domain_job_and_links(show):
    from treepool.rfc.links import digest

    R = some_R(3)
    R["scheduling"]["children"] = R["scheduling"]["children"][:1]
    topo = R["scheduling"]["children"][0]["topo"]
    links = [{"type": "nvlink", "gbps": 50, "among": ["0-1", "2-3"]}]
    nics = [{"name": "mlx5_0", "gpus": "0-3", "path": "PIX"}]
    R["scheduling"]["links"] = {digest(topo): {"links": links, "nics": nics}}
    R["scheduling"]["children"][0]["ranks"] = "0"
    browser = show(make_picture(R, ["slot=1/socket/[core=5;gpu=1]"]))
    browser.point('.node .cell.gpu[data-id="0"]')
    (detail,) = browser.texts("#detail")
    for words in (
        "socket 0 \u203a numa 0 \u203a GPU 0",
        "n0, rank 0",
        "job 1",
        "slot=1/socket/[core=5;gpu=1]",
        "has 5 cores, 1 GPU, 1 node",
        "nvlink 50 GB/s to GPU 1",
        "nearest NIC mlx5_0 (PIX)",
    ):
        assert words in detail
    browser.point('.node .cell.gpu[data-id="1"]')
    assert "\nfree\n" in browser.texts("#detail")[0]
    assert "nvlink pairs 50 GB/s" in browser.js(
        "return document.getElementById('types').textContent"
    )


def test_all_can_be_done_by_keyboard(show):
    browser = show(make_picture("a", ["slot=1/[core=8;gpu=1]"]))
    browser.js("document.querySelector('.node').focus()")
    browser.press(RIGHT)
    assert "numa 0 \u203a core 0" in browser.texts("#detail")[0]
    browser.press(*[RIGHT] * 15)
    assert "GPU 0" in browser.texts("#detail")[0]
    browser.press(DOWN)
    assert "numa 1 \u203a core 15" in browser.texts("#detail")[0]
    browser.press(END)
    assert "socket 1 \u203a numa 7 \u203a GPU 7" in browser.texts("#detail")[0]
    browser.press(HOME, LEFT)
    assert "core 0" in browser.texts("#detail")[0]
    browser.press(ESCAPE)
    assert browser.js("return document.getElementById('detail').hidden")
    assert browser.js("return document.activeElement.className") == "node"


def test_tab_reaches_everything_and_no_cell_is_in_its_way(show):
    browser = show(make_picture("a", SHAPES))
    reached = []
    for _ in range(40):
        browser.press(TAB)
        reached.append(browser.js("const e = document.activeElement; return e.id || e.className"))
        if reached[-1] == "node":
            break
    assert {"step", "back", "host", "job", "type", "state", "fold", "clear"} <= set(reached)
    assert reached[-1] == "node"
    first = browser.js("return document.activeElement.dataset.ranks")
    browser.press(TAB)
    assert browser.js("return document.activeElement.className") == "node"
    assert browser.js("return document.activeElement.dataset.ranks") != first


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_and_do_nothing(show, name):
    picture = make_picture(cluster(name), ["slot=1/core=2"])
    browser = show(picture, unfold=range(4))
    assert titles(browser) == list(HOSTS)
    assert browser.js("return window.hacked") is None
    assert browser.js("return document.querySelectorAll('img, svg, iframe').length") == 0
    assert cells(browser) == cells_of(picture.totals)


@pytest.mark.parametrize("which", LARGE)
def test_what_is_too_large_to_draw_is_counted(show, which):
    browser = show(make_picture(LARGE[which], ["slot=1/core=3"]))
    assert browser.js("return document.querySelectorAll('*').length") < 5000
    assert tiles(browser)["cores used"] == 3


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
@pytest.mark.parametrize("width", (320, 390, 1280, 2560))
@pytest.mark.parametrize("R", ("a", "b", "names", "fabric", *LARGE))
def test_nothing_is_wider_than_the_window(show, width, dark, R):
    R = (
        fabric(2000, 64, 8)
        if R == "fabric"
        else LARGE.get(R, cluster(NAMES[0]) if R == "names" else R)
    )
    picture = make_picture(R, ["slot=1/core=3", "slot=1/core"])
    browser = show(picture, width=width, height=844, dark=dark, touch=width < 500)
    assert browser.js("return document.documentElement.scrollWidth") <= width
    script = """
        const wide = e => e.getClientRects().length
            && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".body");
        return [...document.querySelectorAll("body *")].filter(wide).map(e => e.className)"""
    assert browser.js(script) == []
    if R in ("a", "b"):  # others may be scrolled inside their box
        inside = "[...document.querySelectorAll('.body')]"
        assert browser.js(f"return {inside}.every(e => e.scrollWidth <= e.clientWidth)")


CONTRASTS = """
    const channel = c => { c /= 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4 };
    const rgb = text => text.match(/[0-9.]+/g).map(Number);
    const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
    const behind = e => {
      for (; e; e = e.parentElement) {
        const colour = rgb(getComputedStyle(e).backgroundColor);
        if (colour.length < 4 || colour[3] > 0) return colour;
      }
      return [255, 255, 255];
    };
    const found = [];
    for (const e of document.querySelectorAll("body *")) {
      const text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
      if (!text || !e.getClientRects().length || e.closest("button:disabled, option")) continue;
      const both = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
      const [low, high] = both.sort((a, b) => a - b);
      const contrast = (high + .05) / (low + .05);
      if (contrast < 4.5) found.push(`${e.className || e.tagName} ${contrast.toFixed(1)}`);
    }
    return [...new Set(found)]"""


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
def test_every_text_has_contrast_enough(show, dark):
    picture = make_picture("a", [*SHAPES, *["slot=1/core"] * 12], down="9", drained="12")
    browser = show(picture, dark=dark)
    assert browser.js(CONTRASTS) == []
    browser = show(make_picture(fabric(32, 8, 2)), dark=dark)
    assert browser.js(CONTRASTS) == []


def test_a_finger_on_a_cell_tells_about_it(show):
    browser = show(make_picture("a"), width=390, height=844, touch=True)
    browser.click(".node .cell.gpu")
    assert "numa 0 \u203a GPU 0" in browser.texts("#detail")[0]
    box = browser.js("const r = document.getElementById('detail').getBoundingClientRect();"
                     "return [r.left, r.right, r.bottom]")  # fmt: skip
    assert box == [0, 390, 844]


def test_ranks_asked_for_are_what_the_page_opens_on(show):
    browser = show(make_picture("b"), unfold=[3, 700])
    assert titles(browser) == ["cray3", "cray700"]
    browser.click("#clear")
    assert titles(browser) == ["1,152 \u00d7 cray[0-1151]"]


def test_11136_nodes_with_thousands_of_jobs_are_drawn_at_once_and_add_up(show):
    shapes = ["slot=1/[core=8;gpu=1]", "slot=1/[core=20;gpu=1]", "slot=3/core=5"] * 1000
    picture = make_picture(large(11_136), [*shapes, "slot=500/node{x}"])
    browser = show(picture)
    assert tiles(browser) == tiles_of(picture.totals)
    assert browser.js("const from = performance.now(); drawStep(1); drawStep(step + 100);"
                      "return performance.now() - from") < 2000  # fmt: skip
    assert tiles(browser) == tiles_of(picture.steps[101].totals)
    browser.js("drawStep(data.steps.length - 1)")
    while not browser.js("return document.getElementById('more').hidden"):
        browser.click("#more")
    counts = [re.match(r"([\d,]+) \u00d7", title) for title in titles(browser)]
    assert sum(int(c[1].replace(",", "")) if c else 1 for c in counts) == 11_136
    assert cells(browser) == cells_of(picture.totals)


def test_it_says_whose_jobs_run_what_waits_and_which_squares_are_gpus(browser, tmp_path):
    picture = make_picture("a", ["slot=1/core"])
    runs = Running(Job("1", "train", ()), "alice", "train", "RUN", 0.0)
    waits = Running(Job("2", "fold", ()), "eve", "fold", "SCHED", 0.0, note="2 of 4 nodes free")
    path = tmp_path / "page.html"
    path.write_text(html(picture, rows(picture), running=[runs], waiting=[waits], again=1))
    browser.open(path)
    assert "alice, without a limit" in browser.js("return $('jobs').innerText")
    assert "2 of 4 nodes free" in browser.js("return $('queue').innerText")
    assert "a large one is a GPU" in browser.js("return $('key').innerText")


def test_a_page_that_is_written_again_loads_itself_again_unless_something_is_picked(
    browser, tmp_path
):
    picture = make_picture("a", ["slot=1/core"])
    path = tmp_path / "page.html"
    path.write_text(html(picture, rows(picture), about=["first"], again=1))
    browser.open(path)
    write(browser, "job", "1")
    path.write_text(html(picture, rows(picture), about=["second"], again=1))
    time.sleep(1.5)
    assert "first" in browser.js("return document.body.innerText")
    browser.click("#clear")
    browser.js("document.activeElement.blur()")
    deadline = time.monotonic() + 10
    while "second" not in browser.js("return document.body.innerText"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
