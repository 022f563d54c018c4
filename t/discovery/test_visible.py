"""The environment variables that say which GPUs a program sees, as CUDA and ROCm read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treepool.discovery.machine import Gpu, Machine
from treepool.discovery.task import Task, task_of
from treepool.discovery.visible import (
    CONTAINED,
    CUDA,
    HIP,
    ORDER,
    ROCR,
    Library,
    given_to,
    is_contained,
    seen_by,
    settings_of,
)
from treepool.errors import InvalidHardware
from treepool.rfc.rset import ResourceSet

FOUR = 0b1111


def seen(environment, vendor, *known):
    return Library(vendor, *known).seen(environment)


def settings(gpus, vendor, environment, *known):
    return Library(vendor, 0, *known).settings(gpus, environment)


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
def test_cuda_reads_a_list_up_to_the_first_invalid_id(text, gpus):
    assert seen({CUDA: text}, "nvidia", FOUR) == gpus


def test_all_gpus_are_visible_if_no_variable_is_set():
    assert seen({}, "nvidia", FOUR) is None
    assert seen({}, "amd", FOUR) is None


def test_any_number_may_be_a_gpu_if_the_gpus_of_the_node_are_not_known():
    assert seen({CUDA: "6,7"}, "nvidia") == (6, 7)


@pytest.mark.parametrize(
    "text", ["GPU-8932f937", "MIG-GPU-89/1/0", "0,all", "0;1", "0x1", "\u0661"]
)
def test_gpus_not_named_by_number_are_an_error(text):
    with pytest.raises(InvalidHardware, match="CUDA_VISIBLE_DEVICES does not name GPUs by number"):
        seen({CUDA: text}, "nvidia", FOUR)


def test_very_long_lists_are_cut():
    assert len(seen({CUDA: ",".join(map(str, range(100_000)))}, "nvidia")) == 1024


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
def test_the_second_filter_of_rocm_numbers_the_gpus_that_pass_the_first(environment, gpus):
    assert seen(environment, "amd", FOUR) == gpus


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({}, (2, 5, 7)),
        ({CUDA: "0,1,2"}, (2, 5, 7)),
        ({CUDA: "2,0"}, (7, 2)),
        ({CUDA: "7"}, ()),
        ({CUDA: "1,3"}, (5,)),
        ({CUDA: "MIG-b"}, (5,)),
    ],
)
def test_a_job_that_is_contained_numbers_its_own_gpus_from_zero(environment, gpus):
    names = {2: "MIG-a", 5: "MIG-b", 7: "MIG-c"}
    assert seen(environment, "nvidia", 0xFF, names, (2, 5, 7)) == gpus


def test_of_amds_gpus_both_filters_number_those_of_a_contained_job():
    assert seen({ROCR: "2,1", CUDA: "1"}, "amd", 0xFF, {}, (2, 5, 7)) == (5,)
    assert settings((7, 5), "amd", {}, {}, (2, 5, 7)) == {
        ROCR: "2,1",
        CUDA: "0,1",
        ORDER: "PCI_BUS_ID",
    }


def test_a_contained_job_without_gpus_sees_none():
    assert seen({}, "nvidia", 0xFF, {}, ()) == seen({CUDA: "0"}, "nvidia", 0xFF, {}, ()) == ()


@pytest.mark.parametrize(
    ("value", "contained"), [(None, False), ("", False), ("0", False), ("1", True)]
)
def test_flux_says_whether_a_job_is_contained(value, contained):
    assert is_contained({} if value is None else {CONTAINED: value}) is contained


def test_an_order_that_is_set_stays():
    assert settings((1,), "nvidia", {ORDER: "FASTEST_FIRST"})[ORDER] == "FASTEST_FIRST"


@given(
    st.permutations(range(4)),
    st.integers(0, 4),
    st.sampled_from(["nvidia", "amd"]),
    st.dictionaries(st.sampled_from([CUDA, HIP, ROCR]), st.sampled_from(["", "0", "3,1", "-1"])),
)
def test_what_is_set_is_what_is_seen(order, count, vendor, environment):
    gpus = tuple(order[:count])
    assert seen({**environment, **settings(gpus, vendor, environment)}, vendor, FOUR) == gpus


# -- GPUs of several vendors


@pytest.mark.parametrize(
    "before",
    [[Gpu(0, "nvidia"), Gpu(1, "nvidia")], [Gpu(1, "nvidia")], [Gpu(0), Gpu(1, "nvidia")]],
)
def test_gpus_are_not_counted_where_some_before_them_are_not_known(before):
    """As in a job in a job, whose broker may know only the GPUs near its cores."""
    gpus = (*before, Gpu(2, "amd"), Gpu(3, "amd"))
    task = Task(Machine("n0", 1, gpus=gpus), 1, 0b1100, node_gpus=sum(1 << g.id for g in gpus))
    if all(gpu.vendor for gpu in gpus) and len(gpus) == 4:
        made = settings_of(task, (2, 3), {})
        assert (made[CUDA], made[ROCR], made[HIP]) == ("-1", "0,1", "0,1")
    else:
        with pytest.raises(InvalidHardware, match="are of several vendors, and some are not known"):
            settings_of(task, (2, 3), {})


def test_what_flux_lists_in_cudas_variable_is_no_division_on_a_node_of_several_vendors():
    gpus = (Gpu(0, "nvidia"), Gpu(1, "nvidia"), Gpu(2, "amd"), Gpu(3, "amd"))
    task = Task(Machine("n0", 1, gpus=gpus), 1, 0b110, node_gpus=0b1111)
    assert given_to(task, {CUDA: "1,2"}) is None
    assert given_to(task, {CUDA: "1", ROCR: "0", HIP: "0"}) == (1, 2)
    assert given_to(task, {CUDA: "1", ROCR: "-1"}) == (1,)


def test_any_number_may_be_a_gpu_if_R_has_some_that_the_machine_lacks():
    children = {"core": "0", "gpu": "2"}
    execution = {"R_lite": [{"rank": "0", "children": children}], "nodelist": ["n0"]}
    R = ResourceSet.read({"version": 1, "execution": execution})
    task = task_of(R, 0, Machine("n0", 1, gpus=(Gpu(0, "nvidia"),)))
    assert seen_by(task, {CUDA: "2"}) == (2,)


# -- MIG instances

UUIDS = {0: "MIG-c6d41", 1: "MIG-0f1aa", 2: "GPU-7b9cd"}


def test_instances_are_set_by_uuid_and_read_by_number():
    assert seen({"CUDA_VISIBLE_DEVICES": "1"}, "nvidia", 0b111, UUIDS) == (1,)
    assert settings([1, 2], "nvidia", {}, UUIDS)["CUDA_VISIBLE_DEVICES"] == "MIG-0f1aa,GPU-7b9cd"


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
def test_gpus_may_be_given_by_uuid_if_the_uuids_are_known(value, ids):
    assert seen({"CUDA_VISIBLE_DEVICES": value}, "nvidia", 0b111, UUIDS) == ids


@pytest.mark.parametrize("value", ["MIG-", "MIG-5", "GPU"])
def test_a_uuid_of_none_or_several_gpus_is_refused(value):
    with pytest.raises(InvalidHardware, match="does not name GPUs by number"):
        seen({"CUDA_VISIBLE_DEVICES": value}, "nvidia", 0b111, UUIDS)
