"""The picture for a terminal: right numbers, as wide as it may be, plain where it must be."""

import re

import pytest
from rich.cells import cell_len

from depth import examples, some
from made import nodes
from treepool.rfc.links import Distances, Link, Links, Nic
from treepool.view.nodewords import TIMES
from treepool.view.picture import Picture
from treepool.view.rows import rows
from treepool.view.text import text
from treepool.view.words import MAX_LIST, MAX_NAME, listed, plain
from view.counting import numbers, pool_with_jobs, some_R
from view.hostile import LARGE, NAMES, cluster
from view.test_model import jobs_of

SHAPES = ["slot=2/[core=8;gpu=1]", "slot=1/socket{x}", "slot=3/[core=15;gpu=1]", "slot=2/node{x}"]


def drawn(picture, width=120, unfold=None, **options):
    return text(picture, rows(picture, unfold), width, **options).plain


def number(pattern, shown):
    found = re.search(pattern, shown)
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.parametrize("seed", range(examples(120)))
def test_every_number_is_that_counted_by_sets(seed):
    R = some_R()
    pool, running = pool_with_jobs(R, seed)
    pool.mark_down("1,4")
    shown = drawn(Picture.of(pool, jobs_of(running), drained=1 << 4))
    wanted = numbers(R, [a.to_dict() for a in running.values()], down=[1], drained=[4])
    nodes, cores, gpus = shown.splitlines()[:3]
    for name, what in (("idle", "idle"), ("partly", "partial"), ("full", "full")):
        assert number(rf"([\d,]+) {what}", nodes) == wanted[name]
    assert number(r"([\d,]+) down", nodes) == 1
    assert number(r"([\d,]+) drained", nodes) == 1
    for line, kind in ((cores, "cores"), (gpus, "gpus")):
        assert number(r"([\d,]+):", line) == wanted[kind]
        assert number(r"([\d,]+) free", line) == wanted[f"{kind}_free"]
        assert number(r"([\d,]+) used", line) == wanted[f"{kind}_used"]
        away = wanted[kind] - wanted[f"{kind}_free"] - wanted[f"{kind}_used"]
        assert number(r"([\d,]+) out of service", line) == away
    assert number(r"([\d,]+) stranded", gpus) == int(wanted["gpus_stranded"])


@pytest.mark.parametrize("seed", range(examples(40)))
def test_there_is_a_character_for_every_core_and_gpu(seed):
    pool, running = pool_with_jobs(some_R(), seed)
    pool.mark_down("1")
    picture = Picture.of(pool, jobs_of(running))
    unfolded = rows(picture, range(6))
    shown = text(picture, unfolded, 200)
    boxes = shown.plain.index("\nnodes ")
    places = {"job": set(), ".": set(), "x": set()}
    for span in shown.spans:
        letters = shown.plain[span.start : span.end]
        kind = "job" if "on #" in str(span.style) else letters[:1]
        if span.start > boxes and kind in places and len(set(letters)) == 1:
            places[kind] |= set(range(span.start, span.end))
    count = {kind: len(found) for kind, found in places.items()}
    totals = picture.totals
    used = totals.cores_used + totals.gpus_used
    free = totals.cores_free + totals.gpus_free
    named = sum(len(row.jobs) for row in unfolded.shown)  # the line below the cells
    assert count["job"] - named == used
    assert count["."] == free
    assert count["x"] == totals.cores + totals.gpus - used - free


@pytest.mark.parametrize("width", (40, 81, 200))
@pytest.mark.parametrize("which", ("a", "b"))
def test_no_line_is_wider_than_asked_for(picture_of, which, width):
    picture = picture_of(which, SHAPES, down="9", drained="12-13")
    for unfold in (None, (0, 1, 5)):
        lines = drawn(picture, width, unfold).splitlines()
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("R", some([*map(cluster, NAMES), *LARGE.values()]))
def test_no_line_is_wider_whatever_is_in_R(picture_of, R):
    shown = drawn(picture_of(R, ["slot=1/core=3"]), 40)
    assert max(map(cell_len, shown.splitlines())) <= 40
    assert len(shown) < 100_000


def test_a_name_is_cut_only_where_it_is_too_long():
    assert plain("x" * MAX_NAME) == "x" * MAX_NAME
    assert plain("x" * (MAX_NAME + 1)) == "x" * (MAX_NAME - 1) + "…"
    assert listed("x" * MAX_LIST) == "x" * MAX_LIST


def test_a_job_is_its_letter_on_its_cells(picture_of):
    shown = drawn(picture_of("a", ["slot=1/[core=8;gpu=1]"]))
    assert "numa 0  AAAAAAAA.......  gpu 0 A" in shown
    assert "A  1  slot=1/[core=8;gpu=1]  8 cores, 1 GPU on xeon0" in shown
    assert f"15 {TIMES} xeon[1-15]" in shown


@pytest.mark.parametrize("width", (40, 60, 120))
def test_a_wide_name_of_a_locality_leaves_room_for_the_cells(picture_of, width):
    shown = drawn(picture_of(cluster("数値" * 20), ["slot=1/core=1"]), width)
    assert "  A...  gpu 0 ." in shown
    assert "  ....  gpu 1 ." in shown


def test_jobs_whose_shapes_have_wide_names_are_in_columns(picture_of):
    shown = drawn(picture_of(cluster("数値"), ["slot/数値/core=2", "slot=1/core=1"]), 80)
    found = re.findall(r"  [AB]  .+ on", shown)
    assert len(found) == 2
    assert len({cell_len(line[: line.index(" core")]) for line in found}) == 1


def test_a_domain_of_one_core_keeps_its_number(picture_of):
    topo = {"l3": [{"cores": str(core)} for core in range(16)]}
    assert "l3 15  ." in drawn(picture_of(nodes("0", "0-15", topo=topo)), 80)


def test_cells_that_are_too_many_to_draw_are_counted(picture_of):
    shown = drawn(picture_of(nodes("0", "0-1999"), ["slot=1/core=8"]))
    assert "A 8  . 1,992" in shown


def test_a_gpu_in_no_whole_domain_has_a_sign_of_its_own(picture_of):
    assert "numa 0  A..............  gpu 0 ." in drawn(picture_of("a", ["slot=1/core=1"]))


def test_nodes_with_other_jobs_but_alike_are_one_box_that_says_which(picture_of):
    shown = drawn(picture_of("b", ["slot=1/node{x}"] * 60))
    assert f"60 {TIMES} cray[0-59]" in shown
    assert "1 one of 60 jobs, 1 to 60" in shown


def test_memory_storage_and_how_nodes_are_divided_are_named(picture_of):
    shown = drawn(picture_of("b"), 200)
    assert "96 cores, 4 GPUs, 503 GiB, storage 200 GiB" in shown
    assert "1 socket (24 cores, 1 GPU, 125 GiB) + 3 socket (24 cores, 1 GPU, 126 GiB)" in shown


def test_nics_that_are_equally_near_share_a_line_and_lines_left_out_are_counted(picture_of):
    near = Nic("mlx5_0", 0b11, "PIX"), Nic("mlx5_1", 0b11, "PIX"), Nic("mlx5_2", 0b100, "SYS")
    wires = tuple(Link("nvlink", 10.0 * n, (0b11 << n,)) for n in range(7))
    for links, last in (
        (wires[:4], "NIC mlx5_2 nearest to GPU 2 (SYS)"),
        (wires, "and 3 more lines"),
    ):
        R = nodes("0", "0-7", "0-7", {"cores": "0-7", "gpus": "0-7"}, Links(links, near))
        shown = [line.strip() for line in drawn(picture_of(R)).splitlines()]
        assert last in shown
        assert ("NICs mlx5_0, mlx5_1 nearest to GPUs 0-1 (PIX)" in shown) == (links != wires)


def test_of_many_distances_the_first_are_told(picture_of):
    topo = {"numa": [{"cores": str(core)} for core in range(40)]}
    values = tuple(tuple(10 + abs(a - b) for b in range(40)) for a in range(40))
    links = Links((), distances=Distances("numa", values))
    shown = drawn(picture_of(nodes("0", "0-39", topo=topo, links=links)), 200)
    assert f"each: {' '.join(map(str, range(10, 26)))} …\n" in shown


def test_an_ascii_terminal_gets_ascii(picture_of):
    assert drawn(picture_of("b", SHAPES, down="5"), ascii_only=True).isascii()
