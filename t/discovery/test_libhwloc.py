"""This machine read by hwloc's library, if that is installed, and by a made-up library."""

import ast
import ctypes
import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commandline import REPOSITORY
from discovery.nodes import CONNECTX, MI300A
from hwlocfile import Device, Made, has_library
from treepool.discovery import libhwloc
from treepool.discovery.hwloc import read_hwloc
from treepool.discovery.levels import topo_of
from treepool.errors import InvalidHardware
from treepool.rfc import idset

HERE = sorted(os.sched_getaffinity(0))
CPU = Path("/sys/devices/system/cpu")


real = pytest.mark.skipif(not has_library(), reason="hwloc's library is not installed")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No variable of hwloc or Flux."""
    for name in list(os.environ):
        if name.startswith(("HWLOC_", "FLUX_")):
            monkeypatch.delenv(name)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """``saved(made, variable)`` makes hwloc take a made-up machine for this one."""

    def saved(made, variable="FLUX_HWLOC_XMLFILE"):
        path = tmp_path / "node.xml"
        path.write_text(made.xml())
        monkeypatch.setenv(variable, str(path))
        monkeypatch.setenv("FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM", "1")

    return saved


def machine(**how):
    return read_hwloc(libhwloc.local_xml(**how))


def sockets(found):
    return [region.cores for region in found.regions if region.kind == "socket"]


# -- the real library


def by_linux(name):
    """The sets of PUs that have the same value of a file of /sys, among those allowed here."""
    files = {pu: (CPU / f"cpu{pu}/topology/{name}").read_text() for pu in HERE}
    return {tuple(pu for pu in HERE if files[pu] == value) for value in files.values()}


@real
def test_plugins_find_the_symbols_of_the_library():
    """Distributions package what asks NVIDIA or OpenCL as plugins, which are not linked to it."""
    code = (
        "import ctypes\n"
        "from treepool.discovery.libhwloc import local_xml\n"
        "local_xml()\n"
        "ctypes.CDLL(None).hwloc_get_obj_by_depth"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HWLOC_PLUGINS_VERBOSE": "1"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to load plugin" not in done.stderr


@real
@pytest.mark.skipif(not (CPU / f"cpu{HERE[0]}/topology").is_dir(), reason="there is no /sys")
def test_cores_and_sockets_are_those_of_linux():
    found = machine()
    assert set(found.pus.values()) == by_linux("core_cpus_list")
    by_pus = {
        tuple(sorted(pu for core in idset.iterate(socket) for pu in found.pus[core]))
        for socket in sockets(found)
    }
    assert by_pus == by_linux("physical_package_id")


@real
@pytest.mark.skipif(len(HERE) < 2, reason="needs two CPUs")
def test_a_bound_process_sees_its_own_cpus_and_the_whole_machine_if_asked():
    """This runs in a process of its own, because hwloc asks how each thread is bound."""
    code = (
        f"import os; os.sched_setaffinity(0, [{HERE[-1]}])\n"
        "from treepool.discovery.hwloc import read_hwloc\n"
        "from treepool.discovery.libhwloc import local_xml\n"
        "print([list(read_hwloc(local_xml(whole)).pus.values()) for whole in (False, True)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    own, whole = ast.literal_eval(done.stdout)
    assert own == [(HERE[-1],)]
    assert {pu for pus in whole for pu in pus} >= set(HERE)


@real
def test_a_bound_process_knows_where_gpus_and_nics_are_and_no_memory_of_other_cpus(
    saved, monkeypatch
):
    """Of each NUMA node without CPUs that are left, hwloc keeps the memory and the devices."""
    chips = [
        Device(
            f"000{i}:01:00.0",
            i,
            MI300A,
            [(f"rsmi{i}", "RSMI")],
            {"GPUModel": "AMD Instinct MI300A"},
        )
        for i in range(4)
    ]
    nics = [Device("0009:01:00.0", 3, CONNECTX, [("mlx5_0", "")], switch="a")]
    made = Made(cores=HERE[0] + 1, smt=1, devices=chips + nics)
    saved(made)
    monkeypatch.delenv("FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM")
    code = (
        f"import os, sys; os.sched_setaffinity(0, [{HERE[0]}])\n"
        "from treepool.discovery.libhwloc import local_xml\n"
        "sys.stdout.buffer.write(local_xml())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, check=True
    )
    bound, whole = read_hwloc(done.stdout), read_hwloc(made.xml())
    assert bound.links == whole.links
    assert topo_of(bound).topo == {"cores": "0", "gpus": "0-3", "memory": 16}
    assert "left out: NUMA 1-3, none of whose CPUs is online and allowed" in bound.notes
    assert bound.warnings == ()


@real
@pytest.mark.parametrize("variable", ["FLUX_HWLOC_XMLFILE", "HWLOC_XMLFILE"])
def test_a_saved_machine_is_read_instead_of_this_one(saved, variable):
    saved(Made(packages=2, numas=2, cores=4), variable)
    found = machine()
    assert found.hostname == "made1"
    assert [idset.encode(socket) for socket in sockets(found)] == ["0-7", "8-15"]
    assert found.numa_nodes == {n: 0xF << 4 * n for n in range(4)}


@real
def test_cpus_that_are_not_allowed_are_only_in_the_whole_machine(saved):
    saved(Made(packages=1, numas=1, cores=4, smt=1, allowed=[1, 3]))
    assert list(machine().pus.values()) == [(1,), (3,)]
    assert list(machine(whole=True).pus.values()) == [(0,), (1,), (2,), (3,)]


@real
@pytest.mark.parametrize("variable", ["FLUX_HWLOC_XMLFILE", "HWLOC_XMLFILE"])
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/nowhere", "topology_set_xml: No such file or directory"),
        ("/tmp", "topology_set_xml: Is a directory"),
        ("/dev/zero", "more than 32 MiB of XML"),
        ("/dev/null", "topology_"),
        ("/etc/pass\x1b[31mwd", "topology_set_xml: No such file or directory"),
    ],
)
def test_a_saved_machine_that_cannot_be_read_is_named_with_its_variable(
    monkeypatch, variable, path, problem
):
    monkeypatch.setenv(variable, path)
    with pytest.raises(InvalidHardware) as raised:
        libhwloc.local_xml()
    text = str(raised.value)
    assert text.startswith(f"hwloc cannot read this machine: {problem}")
    assert f"({variable}=" in text and text.isprintable()


# -- a made-up library


class Fake:
    """A library that counts calls; *failing* is the name of the function that fails."""

    def __init__(self, version=0x20900, failing=""):
        self.version, self.failing = version, failing
        self.calls = []
        self.text = ctypes.create_string_buffer(b"<topology/>")
        # ctypes sets the type of its result, so it is an object with attributes.
        self.hwloc_bitmap_alloc = lambda: 4096

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name.replace("hwloc_", ""))
            if name == "hwloc_topology_export_xmlbuffer":
                arguments[1]._obj.value = ctypes.addressof(self.text)
                arguments[2]._obj.value = len(self.text)
            return -1 if name == f"hwloc_{self.failing}" else 0

        return call

    def hwloc_get_api_version(self):
        return self.version


@pytest.fixture
def installed(monkeypatch):
    """``installed(name=library)`` has these libraries on the machine, and no other."""

    def installed(**libraries):
        found = {name.replace("_", "."): library for name, library in libraries.items()}

        def load(name, **_):
            if name not in found:
                raise OSError(f"{name}: cannot open shared object file")
            return found[name]

        other = next((name for name in found if name != "libhwloc.so.15"), None)
        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(ctypes.util, "find_library", lambda _: other)

    return installed


def test_the_whole_machine_is_read_without_the_libraries_of_vendors(installed):
    fake = Fake(failing="topology_set_components")  # hwloc may lack a component
    installed(libhwloc_so_15=fake)
    assert libhwloc.local_xml(whole=True) == b"<topology/>"
    assert fake.calls.count("topology_set_components") == 6
    assert "topology_allow" in fake.calls
    assert "topology_restrict" not in fake.calls


def test_a_library_of_another_name_is_looked_up(installed):
    newer = Fake(version=0x30000)
    installed(libhwloc_so_16=newer)
    assert libhwloc.local_xml() == b"<topology/>"
    assert newer.calls[-1] == "topology_destroy"


@pytest.mark.parametrize(
    "libraries",
    [{}, {"libhwloc_so_5": Fake(0x10B00)}, {"libhwloc_so_15": Fake(0x20000)}],
    ids=["none", "1.11", "2.0"],
)
def test_no_library_or_one_too_old_says_what_to_install(installed, libraries):
    installed(**libraries)
    with pytest.raises(InvalidHardware, match=r"^hwloc 2\.1 or newer is needed: install "):
        libhwloc.local_xml()


def test_a_library_that_cannot_be_loaded_says_what_it_lacks(monkeypatch):
    def load(*_, **__):
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)
    with pytest.raises(InvalidHardware, match=r"hwloc\): 'libnvidia-ml.so.1: cannot open"):
        libhwloc.local_xml()


def test_a_library_that_is_not_hwloc_is_not_used(installed):
    installed(libhwloc_so_15=ctypes.CDLL(ctypes.util.find_library("c")))
    with pytest.raises(InvalidHardware, match=r"hwloc 2\.1 or newer is needed"):
        libhwloc.local_xml()


@pytest.mark.parametrize(
    "failing", ["topology_load", "get_cpubind", "topology_restrict", "topology_export_xmlbuffer"]
)
def test_a_failed_call_of_hwloc_is_an_error_of_one_line_and_nothing_stays_allocated(
    installed, failing
):
    fake = Fake(failing=failing)
    installed(libhwloc_so_15=fake)
    with pytest.raises(InvalidHardware, match=f"^hwloc cannot read this machine: {failing}: "):
        libhwloc.local_xml()
    assert fake.calls[-1] == "topology_destroy"
    if "get_cpubind" in fake.calls:
        assert fake.calls.count("bitmap_free") == 1
