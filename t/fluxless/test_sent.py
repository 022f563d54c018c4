"""What a scheduler of another version sends is read as far as this version knows it."""

import pytest

from made import nodes
from treepool.errors import InvalidWindow
from treepool.flux import sent, sentpool
from treepool.placement.options import OPTIONS
from treepool.rfc import windows

WINDOW = {"name": "w", "hosts": "n0", "start": 1.0, "end": 2.0, "source": "kvs"}


def test_options_and_values_that_a_newer_version_has_are_left_out():
    options = {
        **{name: option.default for name, option in OPTIONS.items()},
        "straddle": "0.5",
        "policy": "newer",
        "newer": "1",
        "mix": "1*newer{",
        "gpu_cores": ["2"],
    }
    pool = sentpool.pool_of({"R": {**nodes(), "newer": 1}, "options": options, "newer": 1})
    assert pool.options["straddle"] == "0.5"
    assert pool.options["policy"] == OPTIONS["policy"].default
    assert pool.options["gpu_cores"] == "0"
    assert "newer" not in pool.options


def test_options_that_an_older_version_lacks_have_their_defaults():
    pool = sentpool.pool_of({"R": nodes(), "options": {"policy": "best-fit"}})
    assert pool.options["policy"] == "best-fit"
    assert pool.options["locality"] == OPTIONS["locality"].default


def test_rules_of_policies_that_a_newer_version_has_are_left_out():
    rules = {"": {"policy": "easy", "depth": 2, "newer": 1}, "a": {"policy": "newer"}, "b": {}}
    assert sentpool.rules_of({"rules": rules}) == {"": {"policy": "easy", "depth": 2}}
    assert sentpool.rules_of({}) == {}


def test_windows_of_another_version_are_read_without_what_is_unknown():
    (entry,) = sent.windows_in([{**WINDOW, "newer": {"x": [1]}}])
    assert entry == windows.WindowEntry("w", "n0", 1.0, 2.0)
    with pytest.raises(InvalidWindow, match="/0/end"):
        sent.windows_in([{**WINDOW, "end": "soon"}])


def test_a_window_that_somebody_writes_must_be_known_whole():
    with pytest.raises(InvalidWindow, match="/source: unknown key"):
        windows.read(WINDOW)
