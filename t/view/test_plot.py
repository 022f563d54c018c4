"""The plot of replays: the values of the curve, lines told apart by dashes as well as colours."""

import json

import pytest

from treepool.rfc.rset import ResourceSet
from treepool.view.plot import COLOURS, DASHES, Plot
from treepool.view.replay import Rules, replay
from treepool.view.trace import read
from view.colours import contrast
from view.conftest import cluster_R
from view.test_history import history


def outcome(name, *jobs):
    trace = "\n".join(
        json.dumps({"submit": at, "duration": long, "shape": shape}) for at, long, shape in jobs
    )
    return replay(ResourceSet.read(cluster_R("a")), read(trace).jobs, Rules(name))


def test_lines_have_the_values_of_the_curve_in_the_order_of_the_names():
    found = [outcome("one", (0, 7200, "slot=8/node{x}")), outcome("two", (0, 9, "slot=1/core"))]
    plot = Plot.of(found)
    assert plot.names == ("one", "two")
    assert plot.title == "1 job replayed"
    assert plot.unit == "minutes"
    cores, gpus, lost, waiting = plot.panels
    assert set(cores.lines[0].values) == {50.0}
    assert set(gpus.lines[0].values) == {50.0}
    assert set(lost.lines[0].values) == {0.0}
    assert lost.lines[1].values[0] == pytest.approx(100 / 15 / 128, rel=0.02)
    assert cores.lines[0].edges[-1] == 120
    assert len(waiting.lines[1].edges) == len(waiting.lines[1].values) + 1


def test_a_cluster_without_gpus_has_no_panel_of_them():
    R = cluster_R("a")
    del R["scheduling"], R["execution"]["R_lite"][0]["children"]["gpu"]
    trace = '{"submit": 0, "duration": 9, "shape": "slot/core"}'
    panels = Plot.of([replay(ResourceSet.read(R), read(trace).jobs, Rules())]).panels
    assert not any("GPU" in panel.title for panel in panels)
    assert len(panels) == 2


def test_any_two_lines_next_to_each_other_differ_in_their_dashes_and_all_in_both():
    lines = [(COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]) for i in range(12)]
    assert len(set(lines)) == 12
    assert len(set(DASHES)) == len(DASHES) > len(COLOURS)


@pytest.mark.parametrize("colour", COLOURS)
def test_lines_can_be_seen_on_both_pages(colour):
    assert min(contrast(colour, page) for page in ("#f6f8fa", "#ffffff", "#171c22")) >= 3


def test_the_busiest_step_is_the_first_with_the_most_in_use():
    picture = history()
    assert picture.steps[picture.busiest].label == "00:00:10: job b: slot=1/node{x}"
