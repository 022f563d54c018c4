"""The numbers in Prometheus' text format: each has one help, one type, and valid samples."""

import re

from treepool.view import prometheus

NUMBERS = {
    "jobs": {"placed": 3, "refused": 1, "failed": 0, "held_back": 0},
    "running_jobs": 2,
    "windows": 0,
    "free": {"cores": 10, "gpus": 2, "cores_fragmented": 1, "gpus_fragmented": 0},
    "states": 4,
    "holdings": 3,
    "given_up": 0,
    "questions": 0,
    "hwloc": None,
    "passes": {"count": 9, "median": 1e-4, "p99": 0.02, "worst": 0.5, "worst_step": 0.01},
    "queues": {'b"a\\d\n': {"policy": "easy", "depth": 1, "waiting": 7, "reserved": 1}},
}
SAMPLE = re.compile(r'(treepool_[a-z0-9_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"\})? [-+.e0-9]+')


def test_every_line_is_a_comment_or_a_sample_of_the_metric_above_it():
    name = ""
    for line in prometheus.text(NUMBERS):
        if line.startswith("#"):
            _, kind, name, _ = line.split(" ", 3)
            assert kind in ("HELP", "TYPE")
        else:
            assert SAMPLE.fullmatch(line)[1] == name


def test_each_metric_is_announced_once():
    heads = [line for line in prometheus.text(NUMBERS) if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) > 15


def test_the_values_are_the_numbers():
    lines = list(prometheus.text(NUMBERS))
    assert "treepool_jobs_placed_total 3" in lines
    assert 'treepool_pass_seconds{quantile="0.99"} 0.02' in lines
    assert 'treepool_queue_waiting_jobs{queue="b\\"a\\\\d\\n"} 7' in lines


def test_what_is_not_known_is_left_out():
    assert not [line for line in prometheus.text(NUMBERS) if "discovered" in line]
    with_hwloc = {**NUMBERS, "hwloc": {"nodes": 5, "parsed": 1, "waiting": 2}}
    assert "treepool_discovered_nodes 5" in list(prometheus.text(with_hwloc))
