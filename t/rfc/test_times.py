"""Times in words."""

import time

import pytest

from treepool.rfc import times


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ((2026, 11, 22, 23, 5), "23:05"),
        ((2026, 11, 23, 0, 5), "Nov 23 00:05"),
        ((2026, 11, 21, 12, 0), "Nov 21 12:00"),
        ((2027, 1, 2, 3, 4), "2027-01-02 03:04"),
    ],
)
def test_a_time_has_its_date_unless_it_is_today_and_its_year_unless_it_is_this_year(when, said):
    now = time.mktime((2026, 11, 22, 12, 0, 0, 0, 0, -1))
    assert times.clock(time.mktime((*when, 0, 0, 0, -1)), now) == said


def test_a_time_after_the_last_year_is_shown_as_the_last_time():
    assert times.clock(5e17, 0) == times.clock(times.LATEST, 0)
