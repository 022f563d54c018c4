"""The environment variables that say which GPUs a program sees, as CUDA and ROCm read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepool.discovery.visible import CUDA, HIP, ORDER, ROCR, seen, settings
from treepool.errors import InvalidHardware

FOUR = 0b1111


@pytest.mark.parametrize(
    "text, gpus",
    [
        ("0,2", (0, 2)),
        ("3,1", (3, 1)),
        (" 1 , 0 ", (1, 0)),
        ("-1", ()),
        ("", ()),
        ("0,-1,2", (0,)),
        ("0,7,2", (0,)),
        ("1,1", ()),
        ("99999,0", ()),
    ],
)
def test_a_list_of_cuda(text, gpus):
    assert seen({CUDA: text}, False, FOUR) == gpus


def test_nothing_set_hides_nothing():
    assert seen({}, False, FOUR) is None
    assert seen({}, True, FOUR) is None


def test_if_the_nodes_gpus_are_not_known_any_number_may_be_one():
    assert seen({CUDA: "6,7"}, False) == (6, 7)


@pytest.mark.parametrize(
    "text", ["GPU-8932f937", "MIG-GPU-89/1/0", "0,all", "0;1", "0x1", "\u0661"]
)
def test_gpus_not_named_by_number_are_an_error(text):
    with pytest.raises(InvalidHardware, match="CUDA_VISIBLE_DEVICES does not name GPUs by number"):
        seen({CUDA: text}, False, FOUR)


def test_very_long_lists_end():
    assert len(seen({CUDA: ",".join(map(str, range(100_000)))}, False)) == 1024


def test_cuda_knows_nothing_of_amds_variables():
    assert seen({CUDA: "1", ROCR: "2", HIP: "3"}, False, FOUR) == (1,)


@pytest.mark.parametrize(
    "environment, gpus",
    [
        ({CUDA: "2,3"}, (2, 3)),
        ({HIP: "2", CUDA: "3"}, (2,)),
        ({HIP: "", CUDA: "3"}, (3,)),
        ({ROCR: "3,2"}, (3, 2)),
        ({ROCR: "3,2", CUDA: "0"}, (3,)),
        ({ROCR: "3,2", HIP: "1,0"}, (2, 3)),
        ({ROCR: "2,3", CUDA: "2,3"}, ()),
        ({ROCR: "3,2", CUDA: "-1"}, ()),
        ({ROCR: "", CUDA: "0"}, ()),
    ],
)
def test_rocm_numbers_for_the_second_filter_what_the_first_let_through(environment, gpus):
    assert seen(environment, True, FOUR) == gpus


def test_a_job_without_gpus_sees_none():
    assert settings((), False, {}) == {CUDA: "-1", ORDER: "PCI_BUS_ID"}


def test_the_order_that_someone_chose_stays():
    assert settings((1,), False, {ORDER: "FASTEST_FIRST"})[ORDER] == "FASTEST_FIRST"


@given(
    st.permutations(range(4)),
    st.integers(0, 4),
    st.booleans(),
    st.dictionaries(st.sampled_from([CUDA, HIP, ROCR]), st.sampled_from(["", "0", "3,1", "-1"])),
)
def test_what_is_set_is_what_is_seen(order, count, amd, environment):
    gpus = tuple(order[:count])
    assert seen({**environment, **settings(gpus, amd, environment)}, amd, FOUR) == gpus


# -- MIG instances

UUIDS = {0: "MIG-c6d41", 1: "MIG-0f1aa", 2: "GPU-7b9cd"}


def test_instances_are_told_by_uuid_where_flux_gives_numbers():
    assert seen({"CUDA_VISIBLE_DEVICES": "1"}, False, 0b111, UUIDS) == (1,)
    assert settings([1, 2], False, {}, UUIDS)["CUDA_VISIBLE_DEVICES"] == "MIG-0f1aa,GPU-7b9cd"


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ("MIG-0f1aa", (1,)),
        ("MIG-0f1aa, GPU-7b9cd", (1, 2)),
        ("GPU-7", (2,)),  # as much as is unique
        ("MIG-0f1aa,9", (1,)),
        ("MIG-0f1aa,MIG-0f1aa", ()),
    ],
)
def test_gpus_given_by_uuid_are_known_where_the_uuids_are(value, ids):
    assert seen({"CUDA_VISIBLE_DEVICES": value}, False, 0b111, UUIDS) == ids


@pytest.mark.parametrize("value", ["MIG-", "MIG-5", "GPU"])
def test_a_name_of_no_or_of_several_gpus_is_refused(value):
    with pytest.raises(InvalidHardware, match="does not name GPUs by number"):
        seen({"CUDA_VISIBLE_DEVICES": value}, False, 0b111, UUIDS)
