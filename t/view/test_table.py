"""Tables of many rows: nothing is lost, whatever the width."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from treepool.cli.statustable import gpu_table
from treepool.view.status import GpuLine
from treepool.view.table import lines, text_of
from work import Lines

TEXTS = st.text(st.sampled_from("ab ,é字"), max_size=30)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=6)


def texts(*words):
    return map(text_of, lines(*words))


def cells(*rows):
    return [[(text, "") for text in row] for row in rows]


def test_columns_are_as_wide_as_their_longest_text():
    assert list(texts(("a", "long"), cells(("x", "1"), ("yyy", "2")), 40)) == [
        "a    long",
        "x    1",
        "yyy  2",
    ]


def test_the_widest_column_is_folded_where_a_table_is_too_wide():
    shown = list(texts(("job", "placement"), cells(("f1", "rank0/core0,rank1/core1")), 18))
    assert shown == ["job  placement", "f1   rank0/core0,", "     rank1/core1"]


def test_the_last_cell_of_a_short_row_has_the_rest_of_the_width():
    shown = list(texts(("a", "b", "c"), [["1", "2", "3"], ["1", "a long remark"]], 10))
    assert shown == ["a  b  c", "1  2  3", "1  a long", "   remark"]


@given(ROWS, st.integers(20, 100))
def test_nothing_but_blanks_is_lost_and_lines_fit(rows, width):
    shown = list(texts(("one", "two", "three"), cells(*rows), width))
    assert all(cell_len(line) <= max(width, 3 * 8 + 4) for line in shown)
    wanted = "onetwothree" + "".join(text for row in rows for text in row)
    assert sorted("".join(shown).replace(" ", "")) == sorted(wanted.replace(" ", ""))


def test_a_row_of_many_costs_a_few_lines():
    gpus = [GpuLine(f"n{i}", i, 0, "", 0, "used", "f1", "alice", "numa 0") for i in range(1000)]
    with Lines() as work:
        assert len(list(gpu_table(gpus, 100))) == 1001
    assert work.count < 120 * len(gpus)
