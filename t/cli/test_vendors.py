"""``treepool bind`` and ``verify`` on nodes of AMD's, Intel's and several vendors' GPUs."""

import itertools
import os

import pytest

from hwlocfile import Device, Made
from made import nodes

CORES = max(os.sched_getaffinity(0)) + 1
ALL = f"0-{CORES - 1}" if CORES > 1 else "0"

#: The PCI types of GPUs, and the prefix of their names in hwloc with its backend.
KINDS = {
    "nvidia": ("0302 [10de:20b5] [10de:1533] a1", "nvml", "NVML"),
    "amd": ("0380 [1002:740f] [1002:0c34] 02", "rsmi", "RSMI"),
    "intel": ("0380 [8086:0bd5] [8086:0000] 2f", "ze", "LevelZero"),
    "other": ("0302 [1e36:0001] [1e36:0001] 01", "opencl0d", "OpenCL"),
}


def gpus(vendor, count, parts=0):
    """Whole GPUs on buses in the order of the vendors; *parts* are tiles of Intel, CPX of AMD."""
    kind, name, backend = KINDS[vendor]
    bus = 0x10 + 0x20 * list(KINDS).index(vendor)
    for i in range(count):
        names = [f"{name}{i}", *(f"{name}{i}.{part}" for part in range(parts))]
        if vendor == "amd" and parts:
            names = [f"{name}{i * parts + part}" for part in range(parts)]
        yield Device(f"0000:{bus + i:02x}:00.0", 0, kind, [(one, backend) for one in names])


NVIDIA_AND_AMD = [*gpus("nvidia", 2), *gpus("amd", 2)]
ALL_THREE = [*gpus("nvidia", 2), *gpus("amd", 1, 2), *gpus("intel", 2, 2)]
TILES = list(gpus("intel", 4, 2))
CARDS = list(gpus("intel", 4))


@pytest.fixture
def node(treepool, write, monkeypatch):
    """``node(devices, "2-3", "bind", {...})``: a command about a job with these GPUs there."""

    def node(devices, mine, command, environment, *options, topo=None):
        for name in list(os.environ):
            if name.startswith(("FLUX_", "CUDA_", "ROCR_", "HIP_", "ZE_")):
                monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        xml = Made(packages=1, numas=1, cores=CORES, smt=1, devices=devices).xml()
        files = [
            "--R",
            write(nodes("0", ALL, mine, topo), "R.json"),
            "--xml",
            write(xml, "node.xml"),
        ]
        return treepool(*command.split(), *files, *options)

    return node


@pytest.fixture
def bound(node):
    """``bound(devices, "2-3")``: the variables that ``bind`` sets, and its notes."""

    def bound(devices, mine, **environment):
        (told,) = node(devices, mine, "bind --print --json", environment).json
        return told["environment"], told["notes"]

    return bound


@pytest.fixture
def verified(node):
    """``verified(devices, "2-3", NAME=...)``: the reasons and notes of ``verify``."""

    def verified(devices, mine, **environment):
        (told,) = node(devices, mine, "verify --json", environment).json
        return [reason["message"] for reason in told["reasons"]], told["notes"]

    return verified


LEVEL_ZERO = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}
CUDA_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("devices", "mine", "told"),
    [
        (TILES, "4-5", "ZE_AFFINITY_MASK=4,5"),
        (NVIDIA_AND_AMD, "0-1", "CUDA_VISIBLE_DEVICES=0,1 HIP_VISIBLE_DEVICES=-1"),
        (
            NVIDIA_AND_AMD,
            "3",
            "ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=-1",
        ),
        (
            NVIDIA_AND_AMD,
            "1-3",
            "CUDA_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=0,1 HIP_VISIBLE_DEVICES=0,1",
        ),
        (NVIDIA_AND_AMD, "", "CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1"),
        (
            ALL_THREE,
            "0,3,5-6",
            "CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0"
            " ZE_AFFINITY_MASK=1,2",
        ),
        (list(gpus("amd", 2, 6)), "7-8", "ROCR_VISIBLE_DEVICES=7,8 CUDA_VISIBLE_DEVICES=0,1"),
    ],
)
def test_each_vendors_library_is_told_by_its_own_variables_and_numbers(
    bound, verified, devices, mine, told
):
    variables = dict(pair.split("=") for pair in told.split())
    orders = {**(CUDA_ORDER if "CUDA" in told else {}), **(LEVEL_ZERO if "ZE_" in told else {})}
    assert bound(devices, mine) == ({**variables, **orders}, [])
    assert verified(devices, mine, **variables, **orders) == ([], [])


def test_in_a_job_that_is_kept_from_gpus_of_others_each_library_numbers_the_jobs(bound, verified):
    contained = {"FLUX_EXEC_CONSTRAINED_RESOURCES": "1"}
    variables, notes = bound(ALL_THREE, "1,3,6-7", **contained)
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["ROCR_VISIBLE_DEVICES"]) == ("0", "0")
    assert (variables["ZE_AFFINITY_MASK"], notes) == ("0,1", [])
    assert verified(ALL_THREE, "1,3,6-7", **contained, **variables) == ([], [])
    variables, notes = bound(ALL_THREE, "0-3", **contained)
    assert (variables["CUDA_VISIBLE_DEVICES"], notes) == ("0,1", [])


@pytest.mark.parametrize("devices", [TILES, CARDS, NVIDIA_AND_AMD, ALL_THREE])
def test_what_bind_sets_verifies_and_is_wrong_for_another_job(bound, verified, devices):
    for mine, other in itertools.permutations(("0", "1", "2"), 2):
        variables, _ = bound(devices, mine)
        assert verified(devices, mine, **variables)[0] == []
        assert verified(devices, other, **variables)[0] != []


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        ("4,5", []),
        (" 5 ,4", []),
        ("77,5,5,4,4", []),
        ("4,6", ["sees GPUs 6; the job has GPUs 4-5"]),
        ("77", ["sees none of the job's GPUs 4-5"]),
        ("", ["sees GPUs 0-3,6-7; the job has GPUs 4-5"]),
    ],
)
def test_a_mask_of_level_zero_is_a_set_of_numbers_and_empty_if_it_hides_nothing(
    verified, mask, reasons
):
    assert verified(TILES, "4-5", ZE_AFFINITY_MASK=mask, **LEVEL_ZERO) == (reasons, [])


def test_the_variables_of_cuda_bind_nothing_on_intels_gpus(verified):
    (reason,), notes = verified(TILES, "4-5", CUDA_VISIBLE_DEVICES="4,5", **CUDA_ORDER)
    assert reason == "sees GPUs 0-3,6-7; the job has GPUs 4-5"
    assert notes == [
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER is not 1: GPU numbers may mean other GPUs",
        "ZE_FLAT_DEVICE_HIERARCHY is not FLAT: GPU numbers may mean other GPUs",
    ]


def test_where_someone_chose_devices_of_tiles_gpus_are_left_as_they_are(bound, verified):
    chosen = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
    why = "ZE_FLAT_DEVICE_HIERARCHY is not FLAT, by which R counts GPUs"
    assert bound(TILES, "3-5", **chosen) == ({}, [f"{why}: GPUs are left as they are"])
    assert verified(TILES, "3-5", **chosen) == ([], [f"{why}: GPUs were not compared"])


def test_gpus_without_tiles_are_devices_however_many_tiles_they_may_have(bound):
    variables, _ = bound(CARDS, "2")
    assert variables["ZE_AFFINITY_MASK"] == "2"
    assert variables["ZE_FLAT_DEVICE_HIERARCHY"] == "COMPOSITE"


# -- what nobody can set is told


@pytest.mark.parametrize(
    ("devices", "mine", "note"),
    [
        (TILES, "", "GPUs 0-7 stay visible: ZE_AFFINITY_MASK cannot hide all GPUs"),
        (ALL_THREE, "0-3", "GPUs 4-7 stay visible: ZE_AFFINITY_MASK cannot hide all GPUs"),
    ],
)
def test_gpus_that_no_variable_hides_or_selects_are_noted(bound, verified, devices, mine, note):
    variables, notes = bound(devices, mine)
    assert notes == [note]
    assert "ZE_AFFINITY_MASK" not in variables
    assert verified(devices, mine, **variables) == ([], [note])


def test_notes_are_lines_of_print_and_warnings_of_a_command(node):
    note = "GPUs 0-7 stay visible: ZE_AFFINITY_MASK cannot hide all GPUs"
    lines = node(TILES, "", "bind --print", {}).out.splitlines()
    assert "GPUs: none of the job's none" in lines
    assert f"note: {note}" in lines
    missing = node(TILES, "", "bind", {}, "no-such-command")
    assert f"warning: {note}" in missing.err


def test_gpus_that_only_the_key_knows_are_taken_to_be_like_those_of_the_node(node):
    topo = {"cores": ALL, "gpus": "0-3", "socket": [{"cores": ALL, "gpus": "0-3"}]}
    told = node(list(gpus("amd", 2)), "2-3", "bind --print --json", {}, topo=topo)
    (fact,) = told.json
    assert fact["environment"]["ROCR_VISIBLE_DEVICES"] == "2,3"
    assert fact["notes"] == []
