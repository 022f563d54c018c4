"""The benchmark: everything is measured and shown. How long it took is never asserted."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bench import chart, child, command, peer
from bench.measure import Plan, Progress, forms, measure
from bench.results import FormResult, SizeResult, Timing
from bench.targets import TARGETS, verdicts
from bench.workload import LOAD, Workload, cluster
from commandline import REPOSITORY, Result, bare_environment
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


def timing(median=10.0):
    return Timing(median, 2 * median, 5)


def result(nodes, scale=1.0, with_peer=False):
    """What a size's measurement might look like, every time *scale* times as long."""
    found = []
    for i, form in enumerate(forms(nodes)):
        names = ["alloc", "to_dict", "free", "job", "repeated", "feasibility"]
        timings = {name: timing(scale * (i + 1)) for name in names}
        theirs = {name: timing(100 * scale * (i + 1)) for name in names} if with_peer else None
        found.append(FormResult(form.name, form.shape, form.refused, timings, 1e5, theirs))
    pool = {name: timing(scale) for name in POOL_OPERATIONS}
    theirs = pool if with_peer else None
    return SizeResult(nodes, 1, 60, 50, 9, 0.8, 0.7, 2**25, 1.0, pool, found, theirs)


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

    @pytest.mark.parametrize(
        "argv",
        [
            ["--nodes", ""],
            ["--nodes", "16,"],
            ["--nodes", "few"],
            ["--nodes", "15"],
            ["--nodes", "16,1000001"],
            ["--nodes", "-16"],
            ["--samples", "0"],
            ["--samples", "1.5"],
            ["--steps", "0"],
            ["--seed", "-1"],
            ["--seconds", "0"],
            ["--seconds", "nan"],
            ["--seconds", "inf"],
            ["--plot", "-"],
            ["--plot", ""],
            ["--nonsense"],
            ["16"],
        ],
    )
    def test_a_wrong_argument_is_one_line_and_status_2(self, bench, argv):
        assert bench(*argv).is_one_line_error("--help", status=2)

    def test_a_chart_that_cannot_be_written_is_said_before_anything_is_measured(
        self, bench, tmp_path
    ):
        pytest.importorskip("matplotlib")
        done = bench("--plot", tmp_path / "no" / "such.svg")
        assert done.is_one_line_error("such.svg", "cannot be written", status=2)

    def test_help_has_examples(self, bench):
        assert "examples:\n  make bench" in bench("--help").out

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

    def test_a_process_that_dies_is_one_line(self, bench, monkeypatch):
        monkeypatch.setattr(child, "_MODULE", "bench.no_such_module")
        done = bench("--nodes", "16", *QUICK)
        assert done.is_one_line_error("16 nodes", "no_such_module", status=1)

    def test_nothing_but_the_answer_goes_to_a_pipe(self):
        argv = ["--nodes", "16", "--json", *map(str, QUICK)]
        done = subprocess.run(
            [sys.executable, str(REPOSITORY / "t/bench"), *argv],
            capture_output=True,
            timeout=60,
            env=bare_environment(),
        )
        assert done.stderr == b""
        assert [json.loads(line) for line in done.stdout.splitlines()]


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

    def test_churn_changes_the_pool_and_keeps_it_as_full(self):
        workload = self.aged(64, steps=2000)
        before = workload.in_use()
        generation = workload.pool.generation
        workload.churn(200)
        assert workload.pool.generation >= generation + 200
        assert workload.in_use() == pytest.approx(before, abs=0.1)

    def test_fillers_leave_no_socket_and_give_all_back(self):
        workload = self.aged()
        before = workload.jobs
        workload.fill_sockets()
        for state in workload.pool.situation.index.buckets:
            for socket in state.type.root.children:
                assert socket.cores & ~state.cores or socket.gpus & ~state.gpus
        workload.empty_sockets()
        assert workload.jobs == before

    def test_a_mirror_sees_every_job_start_and_end(self):
        live = set()

        class Mirror:
            def register(self, jobid, R):
                assert R["execution"]["R_lite"]
                assert jobid not in live
                live.add(jobid)

            def free(self, jobid):
                live.remove(jobid)

        workload = self.aged()
        workload.attach(Mirror())
        workload.churn(50)
        workload.fill_sockets()
        workload.end_large()
        assert len(live) == workload.jobs == len(workload.pool.job_end_times())
        workload.empty_sockets()
        workload.start_large()
        assert len(live) == workload.jobs == len(workload.pool.job_end_times())


class TestResults:
    def test_median_and_p99(self):
        assert Timing.of([3000, 1000, 2000]) == Timing(2.0, 3.0, 3)
        assert Timing.of([1000 * i for i in range(1, 201)]) == Timing(100.0, 198.0, 200)
        assert Timing.of([5]) == Timing(0.005, 0.005, 1)

    def test_progress_grows_and_the_result_comes_last(self):
        *steps, last = measure(Plan(16, 1, 60, 3, 0.2, False))
        assert all(isinstance(step, Progress) for step in steps)
        done = [step.done for step in steps]
        assert done == sorted(done)
        assert (done[0], done[-1]) == (0, 1)
        assert isinstance(last, SizeResult)

    def test_targets_speak_only_of_sizes_that_were_measured(self):
        assert verdicts([result(16)]) == []
        every = [result(nodes) for nodes in (1152, 11_136, 100_000)]
        assert [verdict.target for verdict in verdicts(every)] == list(TARGETS)
        slow = [result(nodes, scale=1e9) for nodes in (11_136,)]
        assert not any(v.kept for v in verdicts(slow) if v.target.unit != "times")


class TestChart:
    @pytest.mark.parametrize("sizes", [(16,), (16, 1152), (1_000_000, 16, 11_136)])
    @pytest.mark.parametrize("with_peer", [False, True])
    def test_it_has_a_label_for_each_form_and_size_and_the_note(self, tmp_path, sizes, with_peer):
        pytest.importorskip("matplotlib")
        path = tmp_path / "bench.svg"
        results = [result(n, scale=n / 16, with_peer=with_peer) for n in sizes]
        chart.write(results, "a <machine> & $b$", path)
        texts = ["".join(text.itertext()) for text in ElementTree.parse(path).iter(f"{SVG}text")]
        assert {*FORMS, chart.TITLE, "a <machine> & $b$"} <= set(texts)
        assert {f"{n:,}" for n in sizes} <= set(texts)
        assert any("flux-core" in text for text in texts) == with_peer


def test_a_peer_of_another_python_is_told_so(monkeypatch):
    def other(*args, **kwargs):
        return subprocess.CompletedProcess(args, 0, stdout=b'[[2, 7], ["/nowhere"]]')

    def missing():
        raise ImportError("No module named 'flux'")

    monkeypatch.setattr(peer.subprocess, "run", other)
    monkeypatch.setattr(peer, "_pool_class", missing)
    with pytest.raises(ImportError, match=r"for Python 2\.7, this is 3\."):
        peer.load()
