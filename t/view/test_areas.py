"""The map of the domains above the nodes: each node is on it once, and it fits a screen."""

import random
import re

import pytest

from depth import examples, some
from made import nodes
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view.areas import areas, domain_lines, locality_lines
from treepool.view.html import html
from treepool.view.picture import Picture
from treepool.view.rows import rows
from treepool.view.textmap import MOST_LINES, TextMap
from view.conftest import make_picture


def cluster(nodes, per_switch, per_cell):
    """The R of some nodes below switches below cells."""
    switches = [
        {"name": f"s{i}", "ranks": f"{first}-{min(nodes, first + per_switch) - 1}"}
        for i, first in enumerate(range(0, nodes, per_switch))
    ]
    cells = [
        {"name": f"c{i}", "switch": switches[first : first + per_cell]}
        for i, first in enumerate(range(0, len(switches), per_cell))
    ]
    return with_fabric(nodes, {"cell": cells})


def with_fabric(number, fabric):
    return nodes(f"0-{number - 1}", "0-3", fabric=fabric)


def shown(picture, width=100):
    return [line.plain for line in TextMap(picture, width).lines()]


def signs(lines):
    """How often each sign is drawn; names of domains have none of these."""
    return {sign: sum(line.count(sign) for line in lines[1:]) for sign in ".+#x"}


def test_each_node_is_a_sign_in_its_domain():
    picture = make_picture(
        cluster(32, 8, 2), ["node=5/slot/core=4", "node=12/slot/core=4", "slot/core=1"], down="30"
    )
    assert shown(picture) == [
        "fabric  . idle   + partial   # full   x not up",
        "cell c0  3 of 16 nodes idle",
        "  switch s0 ########  switch s1 ####+...",
        "cell c1  10 of 16 nodes idle",
        "  switch s2 ........  switch s3 #####.x.",
    ]


def test_nodes_in_no_domain_are_beside_the_others():
    fabric = {"rack": [{"name": "r0", "switch": [{"ranks": "0-1"}], "ranks": "0-2"}]}
    picture = make_picture(with_fabric(5, fabric))
    assert shown(picture)[1:] == [
        "rack r0  3 of 3 nodes idle",
        "  switch of rank 0 ..  in none of these .",
        "in none of these  2 of 2 nodes idle",
        "  in none of these ..",
    ]


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize(
    "size", some([(32, 8, 2), (11_136, 64, 29), (2_000, 3, 40), (9_000, 18, 8)], 2)
)
def test_the_map_of_any_cluster_fits_a_screen(size, width):
    picture = make_picture(cluster(*size), ["node=10/slot/core=4", "slot=3/core=1"], down="20")
    lines = shown(picture, width)
    assert 1 < len(lines) <= MOST_LINES + 1
    assert all(len(line) <= width for line in lines[1:])


def test_a_sign_stands_for_more_nodes_only_as_far_as_it_must():
    size = (11_136, 64, 29)
    few, many = (shown(make_picture(cluster(*size)), width) for width in (100, 200))
    assert (few[0][-17:], many[0][-17:]) == ("a sign is 4 nodes", "a sign is 2 nodes")
    assert signs(few)["."] == 11_136 / 4
    assert signs(many)["."] == 11_136 / 2


@pytest.mark.depth
def test_where_even_that_is_too_much_domains_of_a_higher_level_are_drawn():
    picture = make_picture(cluster(40_000, 2, 100))  # 20,000 switches in 200 cells
    lines = shown(picture)
    assert len(lines) <= MOST_LINES + 1
    words = [word for line in lines[1:] for word in line.split()]
    assert words[::2] == [f"c{i}" for i in range(200)]
    lines = shown(make_picture(cluster(40_000, 2, 20)), 80)  # 1,000 cells
    assert "a sign is a cell" in "".join(lines[:2])
    assert sum(line.count(".") for line in lines) == 1 + 1000


@pytest.mark.depth
def test_of_more_domains_than_can_be_drawn_the_map_has_rows_and_says_why():
    fabric = {"rack": [{"ranks": f"{i}"} for i in range(20_000)]}
    lines = shown(make_picture(with_fabric(20_000, fabric), down="9"), 80)
    assert lines[0].startswith("rows    . idle")
    assert lines[-1] == "the fabric has 20,000 domains, too many to draw"
    assert MOST_LINES // 2 < len(lines) <= MOST_LINES + 3
    assert sum(line.count("!") for line in lines) == 2  # one in the legend


def test_without_a_fabric_a_large_cluster_is_rows_of_nodes():
    lines = shown(make_picture("b", ["node=70/slot/core=96"]), 80)
    assert len(lines) == 1 + 18
    assert lines[1] == "cray[0-63]      " + 64 * "#"
    assert lines[2] == "cray[64-127]    " + 6 * "#" + 58 * "."
    assert lines[18].startswith("cray[1088-1151] ")


def test_a_sign_for_several_nodes_tells_that_some_are_not_up():
    picture = make_picture(cluster(11_136, 64, 29), down="0,4-7")
    legend, _, first, *_ = shown(picture)
    assert "! some not up" in legend
    assert "!x.............." in first


@pytest.mark.parametrize("width", [40, 80])
def test_a_heading_that_is_too_long_keeps_its_end_and_its_numbers(width):
    rack = {"name": "r" * 30 + "7", "switch": [{"name": "s", "ranks": "0-3"}]}
    fabric = {"row": [{"name": "w" * 40, "rack": [rack]}]}
    heading = shown(make_picture(with_fabric(4, fabric)), width)[-2]
    assert len(heading) == width
    assert re.fullmatch(r"….*r+7  4 of 4 nodes idle", heading)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_numbers_of_domains_add_up(seed):
    chance = random.Random(seed)
    pool = Pool(cluster(60, 4, 5))
    down = idset.encode_ids(sorted(chance.sample(range(60), 7)))
    pool.mark_down(down)
    picture = Picture.of(pool, [])
    whole = areas(picture)
    lines = list(domain_lines(whole))
    for locality, number in (("cell", 3), ("switch", 15)):
        here = [line for line in lines if line.domain.startswith(f"{locality} ")]
        assert len(here) == number
        assert sum(line.nodes for line in here) == 60
        assert sum(line.idle for line in here) == 53
        assert sum(line.away for line in here) == 7
        (line,) = [one for one in locality_lines(whole) if one.locality == locality]
        assert line.domains == number
        assert line.largest == max(one.idle for one in here)
        assert line.with_idle == sum(one.idle > 0 for one in here)
    assert sorted(whole.all_ranks()) == list(range(60))


def test_where_no_node_is_idle_no_job_fits():
    cell, switch = locality_lines(areas(make_picture(cluster(4, 4, 1), down="0-3")))
    assert cell.text == "cell: 1 domain, no node in them is idle"
    assert switch.largest == 0


def test_a_small_cluster_without_a_fabric_has_no_map():
    picture = make_picture("a")
    assert areas(picture) is None
    assert shown(picture) == []
    assert '"map":null' in html(picture, rows(picture))
