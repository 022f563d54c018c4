"""GPU ids of a whole node from the PCI devices that Linux knows."""

import pytest

from treepool.discovery.gpus import bus_ids

NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
VGA, CONTROLLER_3D, DISPLAY, ACCELERATOR = "0x030000", "0x030200", "0x038000", "0x120000"


@pytest.fixture
def pci(tmp_path):
    """``pci(address, vendor, kind, driver)`` adds a device; ``pci.folder`` is where they are."""

    def pci(address, vendor, kind, driver="nvidia"):
        folder = tmp_path / "devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
        return folder

    pci.folder = tmp_path / "devices"
    return pci


def test_gpus_are_in_the_order_of_their_vendors_and_then_of_the_bus(pci):
    pci("0000:05:00.0", INTEL, DISPLAY)
    pci("10000:01:00.0", NVIDIA, CONTROLLER_3D)
    pci("0000:c1:00.0", NVIDIA, CONTROLLER_3D)
    pci("0000:1a:00.0", NVIDIA, VGA)
    pci("0000:02:00.1", AMD, ACCELERATOR)
    pci("0000:02:00.0", AMD, DISPLAY)
    assert bus_ids(pci.folder) == [
        *["0000:1a:00.0", "0000:c1:00.0", "10000:01:00.0"],
        *["0000:02:00.0", "0000:02:00.1", "0000:05:00.0"],
    ]


@pytest.mark.parametrize(
    "vendor, kind",
    [(AMD, VGA), (INTEL, VGA), (INTEL, ACCELERATOR), ("0x1a03", VGA), ("0x15b3", "0x020700")],
    ids=["amd-console", "intel-console", "intel-accelerator", "bmc", "nic"],
)
def test_other_devices_than_compute_gpus_are_left_out(pci, vendor, kind):
    pci("0000:01:00.0", vendor, kind)
    assert bus_ids(pci.folder) == []


def test_gpus_for_virtual_machines_or_consoles_and_virtual_functions_are_left_out(pci):
    pci("0000:01:00.0", NVIDIA, CONTROLLER_3D, driver="vfio-pci")
    pci("0000:01:00.1", NVIDIA, VGA, driver="nouveau")
    virtual = pci("0000:02:00.0", NVIDIA, CONTROLLER_3D)
    (virtual / "physfn").symlink_to("../0000:01:00.0")
    pci("0000:03:00.0", NVIDIA, CONTROLLER_3D)
    assert bus_ids(pci.folder) == ["0000:03:00.0"]


def test_a_machine_without_a_bus_has_no_gpu(pci):
    assert bus_ids(pci.folder) == []
    (pci("0000:01:00.0", NVIDIA, VGA) / "class").unlink()
    assert bus_ids(pci.folder) == []
