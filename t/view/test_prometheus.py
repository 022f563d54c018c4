"""The numbers in Prometheus' text format, by its rules: names, types, units, one help for each."""

import re

from metrics import printed

SAMPLE = re.compile(
    r'(treepool_[a-z0-9_]+)(?:\{([a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*)\})?'
    r" [-+.e0-9]+"
)


def metrics():
    """Each metric: its type and its samples, as (name, labels)."""
    found, name = {}, ""
    for line in printed():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split(" ")
            found[name] = (kind, [])
        elif not line.startswith("#"):
            found[name][1].append(SAMPLE.fullmatch(line).groups())
    return found


def test_every_line_is_a_comment_or_a_sample_of_the_metric_above_it():
    for name, (kind, samples) in metrics().items():
        names = {name, f"{name}_sum", f"{name}_count"} if kind == "summary" else {name}
        assert {sample[0] for sample in samples} <= names
        assert samples, name


def test_each_metric_is_announced_once_and_no_sample_is_there_twice():
    for word in ("HELP", "TYPE"):
        heads = [line.split()[2] for line in printed() if line.startswith(f"# {word}")]
        assert len(heads) == len(set(heads)) > 30
    samples = [line.rpartition(" ")[0] for line in printed() if not line.startswith("#")]
    assert len(samples) == len(set(samples))


def test_names_follow_prometheus():
    for name, (kind, _) in metrics().items():
        assert name.endswith("_total") == (kind == "counter"), name
        for unit in ("ms", "minutes", "percent", "kb", "mb", "gib"):
            assert unit not in name.split("_"), "base units: seconds, bytes, ratios"
        assert not re.search("free|allocated|down", name) or name.endswith("_max"), (
            "a label says it"
        )


def test_the_values_are_the_numbers():
    lines = printed()
    for line in (
        'treepool_gpus{state="allocated"} 1',
        'treepool_gpus{state="free"} 5',
        'treepool_gpus{state="down"} 2',
        'treepool_nodes{state="partial"} 1',
        'treepool_queue_cores{queue="debug",state="allocated"} 6',
        'treepool_kind_nodes{kind="8 cores, 2 GPUs",state="free"} 2',
        'treepool_domain_nodes{level="switch",domain="s0",state="free"} 1',
        'treepool_domains{level="switch",state="partial"} 2',
        'treepool_domain_free_nodes_max{level="rack"} 2',
        'treepool_waiting_jobs{queue="b\\"a\\\\d\\\\n",reason="in-use"} 1',
        'treepool_waiting_jobs{queue="debug",reason="in-use"} 0',
        'treepool_reserved_jobs{queue="b\\"a\\\\d\\\\n"} 1',
        'treepool_user_gpus{user="user7"} 1',
        'treepool_user_waiting_jobs{user="user7"} 1',
        'treepool_build_info{version="1.2.3"} 1',
        "treepool_jobs_with_resources 1",
        "treepool_pass_seconds_count 0",
    ):
        assert line in lines


def test_what_is_not_known_is_left_out():
    assert "treepool_discovered_nodes 5" in printed()
    assert not [line for line in printed(discovers=False) if "discovered" in line]
