"""Windows as JSON: which are read, and the pointers of problems."""

import json
import time
from datetime import datetime

import pytest

from treepool.errors import InvalidWindow
from treepool.rfc import windows
from treepool.rfc.times import LATEST
from treepool.rfc.windows import WindowEntry

MAINT = {"name": "maint", "hosts": "n[0-3]", "start": 1000, "end": 2000}


def test_a_window_without_users_and_queues_is_for_nobody():
    assert windows.read(MAINT) == WindowEntry("maint", "n[0-3]", 1000, 2000)


def test_users_are_names_or_ids_and_each_counts_once():
    given = {**MAINT, "users": ["alice", 7, "alice"], "queues": ["debug"]}
    assert windows.read(given).users == ("alice", 7)
    assert windows.read(given).queues == ("debug",)


@pytest.mark.parametrize(
    "time", [1798790400, "2027-01-01T08:00:00Z", "2027-01-01T10:00:00+02:00",
             {"iso-8601-ts": "2027-01-01T08:00:00Z"}],
)  # fmt: skip
def test_a_time_is_seconds_or_iso_8601_or_a_time_of_toml(time):
    assert windows.read({**MAINT, "end": time}).end == 1798790400


def test_a_window_survives_its_json():
    entry = windows.read({**MAINT, "users": ["alice", 7], "queues": ["debug"]})
    written = json.loads(json.dumps([entry.to_dict()]))
    assert windows.read_all(written) == (entry,)


def without(key):
    return {name: value for name, value in MAINT.items() if name != key}


@pytest.mark.parametrize(
    "given, said",
    [
        ([], "must be an object"),
        (without("name"), "key 'name' is missing"),
        ({**MAINT, "host": "n1"}, "/host: unknown key"),
        ({**MAINT, "name": ""}, "/name: "),
        ({**MAINT, "name": 65 * "a"}, "/name: "),
        ({**MAINT, "name": 7}, "/name: must be a string, not 7"),
        ({**MAINT, "hosts": ""}, "/hosts: must not be empty"),
        ({**MAINT, "hosts": "n[3-0]"}, "/hosts: "),
        ({**MAINT, "hosts": "n[0-99999999]"}, "/hosts: "),
        ({**MAINT, "end": 1000}, "/end: must be later than the start"),
        ({**MAINT, "start": float("nan")}, "/start: "),
        ({**MAINT, "end": 1e300}, "/end: "),
        ({**MAINT, "end": True}, "/end: must be seconds since the epoch or an ISO 8601 time"),
        ({**MAINT, "end": "tomorrow"}, "/end: 'tomorrow' is not an ISO 8601 time"),
        ({**MAINT, "users": []}, "/users: must not be empty"),
        ({**MAINT, "users": "alice"}, "/users: must be an array"),
        ({**MAINT, "users": ["mr x"]}, "at most, without blanks"),
        ({**MAINT, "users": [1 << 32]}, "/users/0: "),
        ({**MAINT, "users": [None]}, "/users/0: must be a user's name or id"),
        ({**MAINT, "users": list(range(5000))}, "/users: has more than 1024 names"),
    ],
)
def test_a_problem_is_one_line_with_its_pointer(given, said):
    with pytest.raises(InvalidWindow) as raised:
        windows.read(given)
    assert said in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_problem_of_one_of_many_windows_says_which():
    with pytest.raises(InvalidWindow, match=r"^/1/end: must be later"):
        windows.read_all([MAINT, {**MAINT, "name": "b", "end": 5}])
    with pytest.raises(InvalidWindow, match=r"^/1/name: an earlier window is called 'maint'"):
        windows.read_all([MAINT, MAINT])
    with pytest.raises(InvalidWindow, match="more than 1024 windows"):
        windows.read_all([MAINT] * 1025)
    with pytest.raises(InvalidWindow, match="must be an array"):
        windows.read_all(MAINT)


DAY = 86400


@pytest.fixture
def new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_what_comes_again_comes_at_the_same_time_of_the_day_also_in_summer(new_york):
    start = datetime(2027, 3, 15, 8).timestamp()  # on Mar 14 clocks were set forward
    week = {**MAINT, "start": start - 7 * DAY + 3600, "end": start - 7 * DAY + 7200, "every": 7}
    entry = windows.read(week)
    first, second, *more = entry.times(entry.start)
    assert [time.localtime(at.start).tm_hour for at in (first, second)] == [8, 8]
    assert second.start == start
    assert len(more) == 6
    assert entry.at(second.start + 1).start == second.start
    assert next(entry.times(entry.start + 520 * 7 * DAY)).end > entry.start + 520 * 7 * DAY


def test_what_comes_once_has_one_time_until_it_is_over():
    entry = windows.read(MAINT)
    assert list(entry.times(1999)) == [entry]
    assert list(entry.times(2000)) == []


def test_what_would_come_again_after_the_last_year_does_not():
    last = {**MAINT, "start": LATEST - 100, "end": LATEST, "every": 366}
    assert len(list(windows.read(last).times(0))) == 1


def test_only_the_scheduler_is_asked_for_a_choice_of_nodes():
    wanted = {**MAINT, "hosts": "", "shape": "slot=4/node{x}", "within": "switch"}
    assert windows.read(wanted).within == "switch"
    with pytest.raises(InvalidWindow, match="/0/shape: unknown key"):
        windows.read_all([wanted])


@pytest.mark.parametrize(
    "more, said",
    [
        ({"every": 0}, "/every: must be at least 1"),
        ({"every": 367}, "/every: "),
        ({"every": 1, "end": 1000 + DAY + 7300}, "/every: it would come again before it is over"),
        ({"banks": [""]}, "/banks/0: must not be empty"),
        ({"groups": "hpc"}, "/groups: must be an array"),
        ({"shape": 4}, "/shape: must be a string"),
    ],
)
def test_further_keys_are_checked(more, said):
    with pytest.raises(InvalidWindow, match=said):
        windows.read({**MAINT, **more})
