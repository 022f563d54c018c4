"""The options of the scheduler module: as its arguments, and as a table of the configuration."""

import math
import re

import attrs
import pytest

from treepool.cli.replayarguments import rules_in
from treepool.errors import InvalidOption
from treepool.flux import options
from treepool.flux.options import InvalidSetting, Options, Rule
from treepool.placement.options import OPTIONS as POOL_OPTIONS


def table(**entries):
    """The options of a table; underscores stand for dashes."""
    return options.read(
        table={name.replace("_", "-"): value for name, value in entries.items()},
        queues=("batch", "debug"),
    )


@pytest.mark.parametrize("policy, depth", [("easy", 1), ("conservative", 64)])
def test_each_policy_has_its_depth(policy, depth):
    assert options.read([f"policy={policy}"]).rule.depth == depth
    assert options.read([f"policy={policy}", "reservation-depth=1"]).rule.depth == 1
    assert options.read(["reservation-depth=unlimited", f"policy={policy}"]).rule.depth == math.inf


@pytest.mark.parametrize("name", POOL_OPTIONS)
def test_each_option_of_a_pool_is_one_of_the_module_of_its_table_and_of_replay(name):
    option = POOL_OPTIONS[name]
    value = option.choices[-1] if option.choices else "1" if option.most else "2*slot/gpu"
    (named,) = [own for own, pools in options.OF_POOL.items() if pools == name]
    assert options.read([f"{named}={value}"]).pool == {name: value}
    assert options.read(table={named: value}).pool == {name: value}
    assert rules_in(f"{named}={value}").pool == {name: value}
    with pytest.raises(InvalidOption, match=f"known: .*{named}={re.escape(option.form)}"):
        options.read(["colour=red"])


@pytest.mark.parametrize(
    "argument",
    ["", "=", "easy", "policy=", "policy=EASY", "reservation-depth=0", "reservation-depth=-1",
     "reservation-depth=²", "reservation-depth=" + 5000 * "9", "locality=x", "discover=on",
     "queue-depth=3", "straddle=nan", "queues=1"],
)  # fmt: skip
def test_what_is_unknown_or_impossible_is_refused(argument):
    with pytest.raises(InvalidOption):
        options.read([argument])


@pytest.mark.parametrize(
    "name, form", [("locality", "preferred|required|none"), ("straddle", "GPUS")]
)
def test_an_argument_without_a_value_is_told_which_values_there_are(name, form):
    with pytest.raises(InvalidOption, match=f"^{name}: needs a value: {name}={re.escape(form)}$"):
        options.read([name])


@pytest.mark.parametrize(
    ("arguments", "entries", "keys"),
    [
        ([], {"straddle": 4, "node-policy": "best-fit"}, ("sched-treepool", "straddle")),
        (["node-policy=best-fit"], {"straddle": 4}, ("sched-treepool", "straddle")),
        (["straddle=4"], {"node-policy": "best-fit"}, ("sched-treepool", "node-policy")),
    ],
)
def test_where_the_table_has_a_part_in_that_its_key_is_named(arguments, entries, keys):
    said = f"{'.'.join(keys)}: straddle='?4'?: node policy best-fit does not weigh locality"
    with pytest.raises(InvalidSetting, match=said) as raised:
        options.read(arguments, entries)
    assert raised.value.keys == keys
    options.read(["node-policy=packing", "straddle=4"], {"node-policy": "best-fit"})


def test_a_mix_is_a_text_of_weights_and_shapes():
    mix = "7*slot/[core=12;gpu=1],2*slot/node{x}"
    assert options.read([f"mix={mix}"]).pool == table(mix=mix).pool == {"mix": mix}
    with pytest.raises(InvalidOption, match=r"^mix=3\*slot/\[core: 'slot/\[core': column"):
        options.read(["mix=3*slot/[core"])
    with pytest.raises(InvalidSetting, match="a weight is above 0"):
        table(mix="0*slot/gpu")


# -- the table


def test_an_argument_overrides_the_key_of_its_name_and_no_other():
    read = options.read(["policy=easy"], {"policy": "fifo", "locality": "none"})
    assert read == Options(Rule("easy", 1), pool={"locality": "none"})


def test_options_that_flux_reads_from_arguments_may_be_in_the_table():
    assert table(log_level="debug").log_level == "debug"
    assert table(queue_depth="unlimited").queue_depth == "unlimited"
    assert attrs.evolve(table(queue_depth=7), queue_depth="unlimited") == Options()


def test_a_queue_has_the_rule_of_all_but_for_what_its_own_table_says():
    queues = {
        "batch": {"policy": "conservative"},
        "debug": {"reservation-depth": 2},
    }
    read = table(policy="easy", reservation_depth=5, queues=queues)
    assert read.rule == Rule("easy", 5)
    assert read.queues == {"batch": Rule("conservative", 64), "debug": Rule("easy", 2)}


@pytest.mark.parametrize(
    "entries, said",
    [
        ({"polcy": "easy"}, "sched-treepool.polcy: unknown (did you mean 'policy'?), known are "),
        ({"policy": "best"}, "sched-treepool.policy: best: known are fifo, easy, conservative"),
        ({"policy": True}, "sched-treepool.policy: must be a text or a number, not true"),
        ({"node_policy": "min-span"}, "sched-treepool.node-policy: min-span: now best-fit, "),
        (
            {"alpha": 0.5},
            "sched-treepool.alpha: the weights of fitness are fixed now",
        ),
        ({"straddle": math.nan}, "sched-treepool.straddle: nan: not a number"),
        ({"reservation_depth": 10**5000}, "sched-treepool.reservation-depth: an integer of"),
        ({"queues": []}, "sched-treepool.queues: must be a table, not an array"),
        ({"queues": {"night": {}}}, "sched-treepool.queues.night: this instance has no such"),
        (
            {"queues": {"debug": {"locality": "none"}}},
            "sched-treepool.queues.debug.locality: unknown, known are policy, reservation-depth",
        ),
        ({"queues": {"debug": {"policy": "x"}}}, "sched-treepool.queues.debug.policy: x: known"),
    ],
)
def test_what_is_wrong_in_a_table_is_told_with_its_key(entries, said):
    with pytest.raises(InvalidSetting) as raised:
        table(**entries)
    assert str(raised.value).startswith(said)
    assert len(str(raised.value)) < 300
