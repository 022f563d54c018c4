"""The options of the scheduler module."""

import math

import pytest

from treepool.errors import InvalidOption
from treepool.flux import options


def test_nothing_given_is_fifo_with_estimates_for_eight():
    assert options.read([]) == options.Options("fifo", 8, {})


@pytest.mark.parametrize("policy, depth", [("easy", 1), ("conservative", 64)])
def test_each_policy_has_its_depth(policy, depth):
    assert options.read([f"policy={policy}"]).depth == depth
    assert options.read([f"policy={policy}", "reservation-depth=7"]).depth == 7
    assert options.read(["reservation-depth=unlimited", f"policy={policy}"]).depth == math.inf


def test_options_of_the_pool_go_there_by_its_names():
    given = ["locality=required", "node-policy=min-span", "discover=off"]
    assert options.read(given).pool == {"locality": "required", "policy": "min-span"}


@pytest.mark.parametrize(
    "argument",
    ["", "=", "easy", "policy=", "policy=EASY", "reservation-depth=0", "reservation-depth=-1",
     "reservation-depth=1.5", "reservation-depth=²", "reservation-depth=" + 400 * "9",
     "reservation-depth=" + 5000 * "9", "locality=x", "node-policy=", "discover=on",
     "queue-depth=3"],
)  # fmt: skip
def test_what_is_unknown_or_impossible_is_refused(argument):
    with pytest.raises(InvalidOption):
        options.read([argument])


def test_a_check_before_load_leaves_fluxs_own_alone():
    options.check(["queue-depth=3", "log-level=debug", "policy=easy"])
    with pytest.raises(InvalidOption, match="unknown argument 'queue=3'"):
        options.check(["queue=3"])
