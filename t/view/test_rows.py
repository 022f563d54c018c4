"""Folding: equal nodes are one row, none is lost, and who is unfolded stands alone."""

import pytest

from depth import examples
from treepool.view.picture import Picture
from treepool.view.rows import MANY_ROWS, rows
from view.counting import pool_with_jobs, some_R
from view.test_model import jobs_of


def test_nodes_of_one_job_are_one_row_and_of_another_job_another(picture_of):
    found = rows(picture_of("a", ["slot=3/node{x}", "slot=2/node{x}"])).shown
    assert [row.ranks for row in found] == [(0, 1, 2), (3, 4), tuple(range(5, 16))]
    assert [row.jobs for row in found] == [((0,),), ((1,),), ()]


@pytest.mark.parametrize("seed", range(examples(80)))
@pytest.mark.parametrize("most", (1, 3, 100))
def test_every_node_is_in_one_row_or_counted_as_left_out(seed, most):
    pool, running = pool_with_jobs(some_R(12), seed, 20)
    found = rows(Picture.of(pool, jobs_of(running)), most=most)
    ranks = [rank for row in found.shown for rank in row.ranks]
    assert len(ranks) == len(set(ranks))
    assert len(ranks) + found.nodes_left_out == 12
    assert len(found.shown) <= most


def test_many_nodes_that_differ_only_in_their_jobs_are_one_row(picture_of):
    shapes = ["slot=1/node{x}"] * (MANY_ROWS + 5)
    busy, idle = sorted(rows(picture_of("b", shapes)).shown, key=lambda row: len(row.ranks))
    assert busy.jobs == (tuple(range(MANY_ROWS + 5)),)
    assert len(idle.ranks) == 1152 - MANY_ROWS - 5
