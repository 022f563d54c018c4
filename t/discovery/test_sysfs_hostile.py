"""Trees that are broken, or made to hurt: an error of one line, or something is not known."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from discovery.fakesys import H100, Cpu, FakeSys, check, read, regions, smt
from treepool.discovery.sysfs_cpu import MAX_CPUS
from treepool.errors import InvalidHardware
from treepool.rfc import idset
from work import Lines


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda fake: None, "no CPU is to be found there"),
        (lambda fake: fake.write("devices/system/cpu", "a file"), "no CPU is to be found there"),
        (lambda fake: fake.write("devices/system/cpu/cpu99999999/x", 1), "no CPU is to be found"),
        (lambda fake: fake.cpus({0: Cpu()}, online=[]), "no CPU is online"),
    ],
)
def test_a_tree_without_cpus_is_an_error_of_one_line_that_names_the_place(fake, make, message):
    make(fake)
    with pytest.raises(InvalidHardware) as error:
        read(fake)
    assert message in str(error.value)
    assert str(fake.root / "devices/system/cpu") in str(error.value)
    assert "\n" not in str(error.value)


def test_no_allowed_cpu_online_is_an_error(fake):
    fake.cpus(smt(packages=1, cores=2))
    with pytest.raises(InvalidHardware, match="no CPU that is online may be used"):
        read(fake, allowed={64})


GARBAGE = [
    b"",
    b"\n\n",
    b"\0" * 40,
    b"\xff\xfe0-3",
    b"0-99999999999999",
    b"3-1",
    b"-1",
    b"1,1",
    b"zzz",
    b"0x",
    b"9" * 5000,
    b"0," * 200000,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: repr(g[:20]))
def test_garbage_in_any_one_file_is_something_not_known(two_nodes, garbage):
    """Garbage in the list of CPUs that are online, too: each CPU then tells itself."""
    two_nodes.hmat(1, 100000)
    two_nodes.hmat(2, 200000)
    two_nodes.pci("0000:1a:00.0", H100, numa=0, cpus="0-1")
    two_nodes.nic("0000:1b:00.0", "mlx5_0", numa=0)
    for file in sorted(p for p in two_nodes.root.rglob("*") if p.is_file()):
        before = file.read_bytes()
        file.write_bytes(garbage)
        try:
            machine = read(two_nodes)
        except InvalidHardware as error:
            assert file.name == "online" and file.parent.name == "cpu", file
            assert "no CPU is online" in str(error)
        else:
            check(machine)
            assert idset.size(machine.cores) in (3, 4)
        file.write_bytes(before)


def test_loops_of_links_pipes_and_folders_for_files_do_not_stop_it(two_nodes):
    system = two_nodes.root / "devices/system"
    loop = system / "cpu/cpu0/topology/core_id"
    loop.unlink()
    loop.symlink_to(loop)
    pipe = system / "node/node0/meminfo"
    pipe.unlink()
    os.mkfifo(pipe)
    folder = system / "node/node1/cpulist"
    folder.unlink()
    folder.mkdir()
    endless = system / "node/node2/distance"
    endless.unlink()
    endless.symlink_to("/dev/zero")
    around = two_nodes.root / "bus/pci/devices/0000:01:00.0"
    around.parent.mkdir(parents=True)
    around.symlink_to(around)
    machine = read(two_nodes)
    assert idset.encode(machine.cores) == "0-3"
    assert regions(machine, "numa") == ["0-1"]
    assert machine.warnings[0] == "NUMA node 1 does not tell its CPUs: it is left out"


def test_every_cpu_sharing_with_every_other_takes_bounded_work(fake):
    """Each list names all CPUs, yet no two CPUs agree on anything else."""
    count = 2000
    everything = f"0-{count - 1}"
    for n in range(count):
        fake.write(f"devices/system/cpu/cpu{n}/topology/core_cpus_list", everything)
        fake.write(f"devices/system/cpu/cpu{n}/topology/core_id", n)
        fake.write(f"devices/system/cpu/cpu{n}/topology/physical_package_id", n)
        fake.write(f"devices/system/cpu/cpu{n}/cache/index0/level", 3)
        fake.write(f"devices/system/cpu/cpu{n}/cache/index0/shared_cpu_list", f"{n}-{count}")
    with Lines() as work:
        machine = read(fake)
    assert work.count < 1000 * count
    assert len(machine.pus) == count
    assert len(regions(machine, "socket")) == count
    assert len(machine.warnings) == 1


def test_cpus_beyond_the_limit_are_not_read(fake):
    fake.cpus({0: Cpu()})
    (fake.root / f"devices/system/cpu/cpu{MAX_CPUS}").mkdir()
    fake.write("devices/system/cpu/online", f"0-{MAX_CPUS}")
    assert read(fake).pus == {0: (0,)}


ids = st.sampled_from([None, -1, 0, 0, 1, 2])


@st.composite
def wild_trees(draw):
    """CPUs and nodes of which each says what it likes."""
    numbers = draw(st.lists(st.integers(0, 11), min_size=1, max_size=10, unique=True))
    some = st.lists(st.sampled_from(numbers), unique=True)
    cpus = {
        n: Cpu(
            package=draw(ids),
            die=draw(ids),
            core=draw(ids),
            siblings=draw(st.none() | some),
            caches=draw(st.dictionaries(st.integers(0, 4), some, max_size=3)),
            cluster=draw(st.none() | some),
        )
        for n in numbers
    }
    nodes = draw(st.dictionaries(st.integers(0, 5), some, max_size=4))
    return cpus, nodes, draw(st.none() | some)


@settings(max_examples=examples(100), deadline=None)
@given(wild_trees())
def test_regions_of_any_tree_nest_and_each_core_is_in_one_socket(tree):
    cpus, nodes, allowed = tree
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeSys(Path(folder))
        fake.cpus(cpus)
        fake.nodes(nodes)
        fake.pci("0000:01:00.0", H100, numa=1)
        try:
            machine = read(fake, allowed=None if allowed is None else set(allowed))
        except InvalidHardware:
            assert allowed == []
            return
        check(machine)
        every = {pu for pus in machine.pus.values() for pu in pus}
        assert every == set(cpus if allowed is None else allowed)
