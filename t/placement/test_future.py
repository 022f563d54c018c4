"""Futures and courses, against what they stand for."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from generators import outcome
from treepool import Pool, parse_shape
from treepool.placement.plan.course import _MAX_PARTS, Course, Use
from treepool.placement.plan.future import PRESENT
from treepool.placement.plan.gains import Gain
from treepool.placement.plan.timeline import Change, Timeline
from treepool.rfc.jobspec import from_resources

TIMES = st.integers(0, 12).map(float)
SPANS = st.lists(st.tuples(TIMES | st.just(PRESENT), TIMES, st.integers(1, 15)), max_size=6)

#: Spans, holders to leave out, and the cores and seconds that a job asks for.
ASKED = SPANS, st.frozensets(st.integers(0, 3), max_size=2), st.integers(1, 4), st.integers(1, 6)


def timeline_of(spans):
    """A timeline of one node with 4 cores; spans are (start, end, cores)."""
    timeline = Timeline(
        Pool({
            "version": 1,
            "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-3"}}],
                          "nodelist": ["n0"]},
        })
    )  # fmt: skip
    for number, (start, end, cores) in enumerate(spans):
        timeline.add(number, start, end, (((0,), cores, 0),))
    return timeline


def ask_of(timeline, cores):
    spec = from_resources(parse_shape(f"slot/core={cores}"))
    return timeline.pool.parse_resource_request(spec).ask


@given(SPANS, TIMES | st.just(PRESENT), st.integers(1, 9))
def test_what_is_free_throughout_a_time_is_what_no_span_in_it_holds(spans, start, length):
    spans = [(s, e, cores) for s, e, cores in spans if s < e]
    end = start + length if start > PRESENT else float(length)
    timeline = timeline_of(spans)
    free = 15
    for begins, ends, cores in spans:
        if begins < end and ends > start:
            free &= ~cores
    for _ in range(3):  # the first answer is made without a future
        assert timeline.state(0, start, end).cores == free


@given(*ASKED, TIMES, TIMES, st.integers(1, 9))
@example([(0.0, 9.0, 15)], frozenset({0}), 1, 1, 0.0, 0.0, 9)
def test_a_gain_that_may_not_serve_a_request_cannot(spans, leave, cores, length, now, start, lasts):
    spans = [(s, e, held) for s, e, held in spans if s < e]
    timeline, gain = timeline_of(spans), Gain(Change(start, start + lasts, (0,)))
    ask = ask_of(timeline, cores)
    if not outcome(gain.serving(timeline, ask, length, leave, now, math.inf)):
        for time in range(int(now), 30):
            if time < start + lasts and time + length > start:
                state = timeline.state(0, float(time), float(time + length), leave)
                assert state.ncores < cores


@given(*ASKED, TIMES, st.integers(1, 9))
@example([(2.0, 3.0, 1)], frozenset(), 1, 2, 0.0, 2)
def test_a_job_may_start_at_the_times_with_enough_throughout(
    spans, leave, cores, length, first, lasts
):
    timeline = timeline_of([(s, e, held) for s, e, held in spans if s < e])
    ask, future = ask_of(timeline, cores), timeline.future(0, leave)
    parts = list(future.starts(ask, length, first, first + lasts))
    assert parts == sorted(parts)
    for time in range(int(first), int(first) + lasts):
        state = timeline.state(0, float(time), float(time + length), leave)
        here = [part for part in parts if part[0] <= time < part[1]]
        assert len(here) == (state.ncores >= cores)
        for begin, _ in here:
            assert future.state(begin, begin + length) is state


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.lists(st.tuples(TIMES, st.integers(1, 5), st.integers(1, 4)), max_size=5),
    st.integers(1, 12),
)
def test_there_is_a_chance_at_the_first_time_with_enough(free, uses, need):
    course = Course(need)
    for time, units in enumerate(free):
        course.note(float(time), units)
    for start, lasts, units in uses:
        course.add(Use(start, start + lasts, units))
    at = [min(free[min(t, len(free) - 1)], need - 1) for t in range(18)]
    for start, lasts, units in uses:
        for time in range(int(start), int(start) + lasts):
            at[time] += units
    first = next((time for time in range(18) if at[time] >= need), None)
    chance = course.chance(PRESENT)
    assert (chance and chance[0]) == first


@pytest.mark.parametrize("parts", [_MAX_PARTS + 1, 5 * _MAX_PARTS])
def test_a_course_of_many_parts_only_becomes_more_hopeful(parts):
    course = Course(100)
    for time in range(parts):
        course.note(float(time), time * 7 % 50)
    assert len(course._starts) <= _MAX_PARTS
    course.add(Use(parts - 3.0, parts - 2.0, 100 - (parts - 3) * 7 % 50))
    assert course.chance(PRESENT)[0] <= parts - 3
