"""Core ids from sysfs against hwloc's own, read by ``lstopo`` from the same tree."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from discovery.fakesys import Cpu, FakeSys, check, hwloc_cores, read, smt
from treepool.discovery.sysfs import read_sysfs
from treepool.rfc import idset

pytestmark = pytest.mark.skipif(
    shutil.which("lstopo-no-graphics") is None, reason="hwloc's lstopo is not installed"
)


@st.composite
def sane_trees(draw):
    """Machines whose sets nest, but whose PUs may be numbered in any order, and their PUs."""
    counts = [draw(st.integers(1, 3)) for _ in range(5)]
    packages, nodes, caches, cores, threads = counts
    total = packages * nodes * caches * cores * threads
    if total > 48:
        threads, caches = 1, 1
        total = packages * nodes * cores
    numbers = draw(st.permutations(range(total)))
    width = [nodes * caches * cores * threads, caches * cores * threads, cores * threads, threads]

    def around(place, size):
        return numbers[place // size * size : place // size * size + size]

    cpus = {
        number: Cpu(
            package=place // width[0],
            core=place // threads,
            siblings=around(place, width[3]),
            caches={1: around(place, width[3]), 3: around(place, width[2])},
        )
        for place, number in enumerate(numbers)
    }
    numa = {n: numbers[n * width[1] : (n + 1) * width[1]] for n in range(packages * nodes)}
    online = set(numbers) - draw(st.sets(st.sampled_from(numbers), max_size=total - 1))
    allowed = draw(st.none() | st.sets(st.sampled_from(sorted(online)), min_size=1))
    return cpus, numa, online, allowed


@settings(max_examples=examples(100), deadline=None)
@given(sane_trees())
def test_core_ids_are_hwlocs_logical_indexes(tree):
    cpus, nodes, online, allowed = tree
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeSys(Path(folder))
        fake.cpus(cpus, online)
        fake.nodes({n: set(numbers) & online for n, numbers in nodes.items()})
        machine = read(fake, allowed=allowed)
        check(machine)
        restrict = None if allowed is None else idset.from_ids(allowed)
        assert [machine.pus[i] for i in sorted(machine.pus)] == hwloc_cores(fake.folder, restrict)


@pytest.mark.parametrize(
    "cpus",
    [
        smt(packages=2, cores=8, l3=4, dies=2),
        smt(packages=2, cores=8, l3=4, interleaved=True),
        smt(packages=4, cores=3, threads=4),
        {n: Cpu(core=n, siblings=[n], cluster=[n % 2, n % 2 + 2]) for n in range(4)},
        {n: Cpu(core=n, siblings=[n], caches={2: [n % 2, n % 2 + 2]}) for n in range(4)},
    ],
    ids=["dies", "interleaved", "smt4", "clusters", "l2"],
)
def test_usual_machines_have_hwlocs_core_ids(fake, cpus):
    fake.cpus(cpus)
    machine = read(fake)
    assert [machine.pus[i] for i in sorted(machine.pus)] == hwloc_cores(fake.folder)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu").is_dir(), reason="there is no sysfs")
def test_this_machine_has_hwlocs_core_ids():
    machine = read_sysfs()
    check(machine)
    assert [machine.pus[i] for i in sorted(machine.pus)] == hwloc_cores(Path("/"))
