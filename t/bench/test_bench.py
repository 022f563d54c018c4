"""The benchmark: everything is measured and shown. How long it took is never asserted."""

from xml.etree import ElementTree

import pytest

from bench import command, peer
from bench.measure import forms
from bench.workload import LOAD, Workload, cluster
from commandline import Result
from treepool.placement.pool import Pool

pytestmark = pytest.mark.depth

QUICK = ("--samples", 3, "--steps", 60, "--seconds", 0.2)
FORMS = [form.name for form in forms(16)]
SERVED, REFUSED = FORMS[:7], FORMS[7:]
POOL_OPERATIONS = ("construct", "copy", "mark_down", "mark_up")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench(capsys, monkeypatch):
    """Runs the benchmark's command line."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*argv):
        try:
            status = command.main([str(word) for word in argv])
        except SystemExit as e:
            status = e.code
        return Result(status, *capsys.readouterr())

    return run


class TestCommand:
    def test_json_has_every_form_and_operation(self, bench):
        done = bench("--nodes", "16", "--json", *QUICK)
        assert done.status == 0, done.err
        assert done.err == ""
        lines = {line["form"]: line for line in done.json}
        assert list(lines) == ["pool", *FORMS]
        for name in SERVED:
            for operation in ("alloc", "to_dict", "free", "job", "repeated", "feasibility"):
                assert set(lines[name][operation]) == {"median", "p99", "samples"}
                assert lines[name][operation]["samples"] == 3
            assert not lines[name]["refused"]
        for name in REFUSED:
            assert "free" not in lines[name]
            assert lines[name]["alloc"]["samples"] == 3
            assert lines[name]["refused"]
        for operation in POOL_OPERATIONS:
            assert lines["pool"][operation]["samples"] == 3
        for line in lines.values():
            assert line["nodes"] == 16
            assert line["peak_memory"] > 2**20
            assert line["states"] > 1
            assert line["jobs"] > 1

    def test_a_table_for_each_size_and_a_chart(self, bench, tmp_path):
        pytest.importorskip("matplotlib")
        path = tmp_path / "bench.svg"
        done = bench("--nodes", "16,24", "--plot", path, *QUICK)
        assert done.status == 0, done.err
        assert "16 nodes: " in done.out
        assert "24 nodes: " in done.out
        for name in (*FORMS, *POOL_OPERATIONS):
            rows = [line for line in done.out.splitlines() if line.split()[:1] == [name]]
            assert len(rows) >= 2, name
        assert ElementTree.parse(path).getroot().tag == f"{SVG}svg"

    def test_a_peer_that_is_not_here_is_one_line(self, bench, monkeypatch, tmp_path):
        (tmp_path / "flux.py").write_text("raise ImportError('no flux here')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        done = bench("--nodes", "16", "--peer", *QUICK)
        assert done.is_one_line_error("flux-core", "no flux here", status=1)
        assert done.out == ""

    def test_the_peer_is_measured_where_flux_is(self, bench):
        try:
            peer.load()
        except ImportError:
            pytest.skip("no flux-core for this Python")
        done = bench("--nodes", "16", "--peer", "--json", *QUICK)
        assert done.status == 0, done.err
        lines = {line["form"]: line for line in done.json}
        assert set(lines["pool"]["peer"]) == set(POOL_OPERATIONS)
        for name in (*SERVED, *REFUSED):
            assert lines[name]["ratio"] > 0
            assert lines[name]["peer"]["job"]["samples"] >= 1


class TestWorkload:
    def aged(self, nodes=16, seed=1, steps=500):
        workload = Workload(Pool(cluster(nodes)), nodes, seed, steps)
        assert all(0 <= done < 1 for done in workload.age())
        return workload

    def test_the_same_seed_makes_the_same_history(self):
        free = [
            [(s.cores, s.gpus, ranks) for s, ranks in w.pool.situation.index.buckets.items()]
            for w in (self.aged(seed=7), self.aged(seed=7), self.aged(seed=8))
        ]
        assert free[0] == free[1] != free[2]

    @pytest.mark.parametrize(("nodes", "steps"), [(16, 2000), (200, 2000), (5000, 500)])
    def test_an_aged_cluster_is_as_full_as_said_whatever_the_steps(self, nodes, steps):
        workload = self.aged(nodes, steps=steps)
        most = 0.25 + 0.75 * LOAD
        assert max(workload.in_use()) == pytest.approx(most, abs=0.08)
        assert workload.states > 5

    def test_fillers_leave_no_socket_and_give_all_back(self):
        workload = self.aged()
        before = workload.jobs
        workload.fill_sockets()
        for state in workload.pool.situation.index.buckets:
            for socket in state.type.root.children:
                assert socket.cores & ~state.cores or socket.gpus & ~state.gpus
        workload.empty_sockets()
        assert workload.jobs == before
