"""The SVG: well-formed whatever names there are, with the cells and numbers of the model."""

import re
from xml.etree import ElementTree

import pytest

from bench.workload import cluster as large
from treepool.view.picture import Picture
from treepool.view.rows import rows
from treepool.view.svg import svg
from view.counting import numbers, pool_with_jobs, some_R
from view.hostile import HOSTS, LARGE, NAMES, cluster
from view.test_model import jobs_of

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture, unfold=()):
    return svg(picture, rows(picture, unfold))


def cells(picture_text):
    """How many cells of each class there are."""
    found = {}
    for path in ElementTree.fromstring(picture_text).iter(f"{SVG}path"):
        kind = path.get("class")
        found[kind] = found.get(kind, 0) + path.get("d").count("M")
    return found


@pytest.mark.parametrize("seed", range(20))
def test_there_is_a_cell_for_every_core_and_gpu(seed):
    R = some_R()
    pool, running = pool_with_jobs(R, seed)
    pool.mark_down("1")
    picture = Picture.of(pool, jobs_of(running))
    found = cells(drawn(picture, range(6)))
    wanted = numbers(R, [a.to_dict() for a in running.values()], down=[1])
    free = wanted["cores_free"] + wanted["gpus_free"] - wanted["gpus_fragmented"]
    used = wanted["cores_used"] + wanted["gpus_used"]
    away = wanted["cores"] + wanted["gpus"] - used - wanted["cores_free"] - wanted["gpus_free"]
    assert found.get("frag", 0) == wanted["gpus_fragmented"]
    assert found.get("free", 0) == free
    assert found.get("away", 0) == away
    assert sum(n for kind, n in found.items() if re.fullmatch(r"c\d+", kind)) == used


@pytest.mark.parametrize("seed", range(20))
def test_the_numbers_are_those_counted_by_sets(seed):
    R = some_R()
    pool, running = pool_with_jobs(R, seed)
    tree = ElementTree.fromstring(drawn(Picture.of(pool, jobs_of(running))))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    w = numbers(R, [a.to_dict() for a in running.values()])
    assert f"{w['cores']} cores: {w['cores_free']} free, {w['cores_used']} used" in texts
    assert (
        f"{w['gpus']} GPUs: {w['gpus_free']} free, {w['gpus_used']} used;"
        f" {w['gpus_fragmented']} fragmented"
    ) in texts


@pytest.mark.parametrize("R", [*map(cluster, NAMES), *LARGE.values()])
def test_names_are_text_and_the_file_is_small_whatever_is_in_R(picture_of, R):
    shown = drawn(picture_of(R, ["slot=1/core=3"]))
    tree = ElementTree.fromstring(shown)
    tags = {element.tag for element in tree.iter()}
    assert tags <= {f"{SVG}{t}" for t in ("svg", "title", "style", "rect", "path", "text", "g")}
    names = {name for element in tree.iter() for name in element.attrib}
    known = "class d x y width height rx transform viewBox role text-anchor"
    assert names <= set(known.split())
    assert len(shown) < 400_000


def test_hosts_are_shown_as_they_are(picture_of):
    tree = ElementTree.fromstring(drawn(picture_of(cluster("numa")), range(4)))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert set(HOSTS) <= set(texts)


def test_nothing_is_drawn_outside_the_page(picture_of):
    for R in ("a", "b", large(11_136), *LARGE.values()):
        tree = ElementTree.fromstring(drawn(picture_of(R, ["slot=1/core=3"])))
        width, height = float(tree.get("width")), float(tree.get("height"))
        for group in tree.findall(f"{SVG}g"):
            x, y = map(float, re.findall(r"[\d.]+", group.get("transform")))
            card = group.find(f"{SVG}rect")
            assert x + float(card.get("width")) <= width
            assert y + float(card.get("height")) <= height


def test_it_knows_light_and_dark_and_asks_for_nothing(picture_of):
    shown = drawn(picture_of("a"))
    assert "prefers-color-scheme: dark" in shown
    name_of_SVG = SVG.strip("{}")
    assert re.findall(r"(?:https?:|url\(|href|@import)[^\" ]*", shown) == [name_of_SVG]
