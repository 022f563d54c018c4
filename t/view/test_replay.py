"""Replays: by hand, and what always holds."""

import json
import math
import random

import attrs
import pytest

from depth import examples
from made import nodes
from rfc.test_fabric import key
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view import history, trace
from treepool.view.replay import Rules, replay
from treepool.view.synthetic import synthetic
from treepool.view.trace import InvalidTrace
from view.counting import some_R

FIFO, EASY = Rules("fifo", "fifo", 8), Rules("easy", "easy", 1)
CONSERVATIVE = Rules("conservative", "conservative", 64)


def cluster(number=1, cores=8):
    return ResourceSet.read(nodes(idset.encode((1 << number) - 1), f"0-{cores - 1}"))


def two_sockets():
    """A node of two sockets of four cores and a GPU each."""
    socket = [{"cores": "0-3", "gpus": "0"}, {"cores": "4-7", "gpus": "1"}]
    return ResourceSet.read(nodes(gpus="0-1", topo={"socket": socket}))


def jobs(*rows):
    """A trace of (submit, duration, shape) or (submit, duration, shape, limit)."""
    lines = [dict(zip(("submit", "duration", "shape", "limit"), row)) for row in rows]
    return trace.read("\n".join(json.dumps(line) for line in lines)).jobs


def starts(resource_set, traced, rules):
    """When each job of a trace starts, in the order of its lines."""
    found = {}
    outcome = replay(
        resource_set, traced, rules, watch=lambda job, start, _: found.update({job.place: start})
    )
    assert outcome.jobs == len(found)
    return [found.get(job.place) for job in sorted(traced, key=lambda j: int(j.place[5:]))]


# -- by hand


HALF, ALL = "slot=1/core=4", "slot=1/core=8"
#: The second in the queue starts at 10, the third at 20; the fourth fits beside the second now.
FOUR = ((0, 10, HALF), (1, 10, "slot=1/core=6"), (2, 10, "slot=1/core=7"), (3, 25, "slot=1/core=2"))


@pytest.mark.parametrize(
    ("rules", "traced", "when"),
    [
        (FIFO, [(0, 10, HALF), (1, 10, ALL), (2, 3, HALF)], [0, 10, 20]),  # nothing passes
        (EASY, [(0, 10, HALF), (1, 10, ALL), (2, 8, HALF)], [0, 10, 2]),  # a short job passes
        (EASY, [(0, 10, HALF), (1, 10, ALL), (2, 9, HALF)], [0, 10, 20]),  # a long one does not
        (EASY, [(0, 10, HALF), (1, 10, ALL), (2, 3, HALF, 9)], [0, 10, 20]),  # by its limit
        (CONSERVATIVE, [(0, 4, ALL, 100), (1, 1, ALL)], [0, 4]),  # it ends before its limit
        (FIFO, [(0, 50, ALL, 20), (0, 1, ALL)], [0, 20]),  # and at its limit
        (EASY, FOUR, [0, 10, 28, 3]),
        (CONSERVATIVE, FOUR, [0, 10, 20, 30]),
        (FIFO, [(5, 1, ALL), (5, 1, ALL), (0, 9, ALL)], [9, 10, 0]),  # as submitted, then by line
    ],
)
def test_jobs_start_as_their_policy_says(rules, traced, when):
    assert starts(cluster(), jobs(*traced), rules) == when


def test_slots_that_leave_their_socket_are_not_local():
    traced = jobs(
        (0, 10, "slot=1/core=3"),
        (0, 10, "slot=1/core=3"),
        (1, 5, "slot=1/core=2"),  # one core is left in each socket
    )
    outcome = replay(two_sockets(), traced, FIFO)
    assert (outcome.local, outcome.slots) == (2, 3)
    assert replay(two_sockets(), traced, Rules("", "fifo", 1, {"locality": "required"})).local == 3


def test_stranded_gpus_are_those_of_status_at_each_moment():
    resource_set = ResourceSet.read(some_R(6))
    traced = random_trace(random.Random(5), 60)
    starts = []
    outcome = replay(resource_set, traced, EASY, watch=lambda *start: starts.append(start))
    events = sorted(
        event
        for number, (job, start, _) in enumerate(starts)
        for event in ((start, 1, number), (start + job.runs, 0, number))
    )
    steps = history.picture_of(resource_set, starts).steps[1:]  # as status and show count
    area, last = 0.0, traced[0].submit + outcome.last_start
    for (time, _, _), (until, _, _), step in zip(events, events[1:], steps):
        area += step.totals.gpus_stranded * max(0, min(until, last) - min(time, last))
    assert area > 0
    assert outcome.gpus_stranded * outcome.gpus * outcome.last_start == pytest.approx(area)


def test_use_is_measured_until_the_last_start_not_while_the_last_job_runs_alone():
    traced = jobs(*((0, 10, "slot=1/core=8"),) * 3, (20, 1000, "slot=1/core=1"))
    outcome = replay(cluster(), traced, FIFO)
    assert (outcome.last_start, outcome.span) == (30, 1030)
    assert outcome.cores_used == 1
    assert replay(cluster(), jobs((0, 9, "slot=1/core=2")), FIFO).cores_used == 2 / 8


def test_the_highest_priority_is_first_in_its_queue_and_queues_do_not_hold_each_other_up():
    lines = [
        {"submit": 0, "duration": 10, "shape": "slot=1/core=6"},
        {"submit": 1, "duration": 10, "shape": "slot=1/core=8"},
        {"submit": 2, "duration": 10, "shape": "slot=1/core=8", "priority": 5},
        {"submit": 3, "duration": 4, "shape": "slot=1/core=2", "priority": 1, "queue": "debug"},
        {"submit": 3, "duration": 9, "shape": "slot=1/core=2", "priority": 1},
    ]
    traced = trace.read("\n".join(map(json.dumps, lines))).jobs
    assert starts(cluster(), traced, FIFO) == [0, 29, 10, 3, 20]


def test_a_queue_with_the_name_of_a_property_has_the_nodes_with_it():
    lines = [
        {"submit": i, "duration": 10, "shape": "slot=1/core=8", "queue": queue}
        for i, queue in enumerate(["debug", "debug", "hosts", "hosts", "batch"])
    ]
    lines[3]["constraint"] = {"ranks": ["0"]}
    traced = trace.read("\n".join(map(json.dumps, lines))).jobs
    resource_set = attrs.evolve(cluster(3), properties={"debug": 0b010, "+hosts": 0b101})
    where = {}
    replay(resource_set, traced, FIFO, watch=lambda job, t, a: where.update({job.place: a.ranks}))
    assert [where[f"line {i}"] for i in range(1, 6)] == [(1,), (1,), (0,), (0,), (2,)]


SHAPES = (
    "slot=1/core=1", "slot=3/core=2", "slot=1/[core=2;gpu=1]", "slot=2/[core=1;gpu=1]",
    "slot=1/node{x}", "slot=1/socket{x}", "slot=5/core=3", "slot=3/node/core=2",
)  # fmt: skip


def random_trace(chance, number):
    rows = []
    for _ in range(number):
        duration = chance.choice((1, 2, 5, 10, 30))
        limit = duration * chance.choice((1, 1, 2, 5))
        rows.append((chance.randint(0, 40), duration, chance.choice(SHAPES), limit))
    return jobs(*rows)


@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("rules", [FIFO, EASY, CONSERVATIVE], ids=lambda r: r.name)
def test_nothing_is_used_twice_and_everything_ends(seed, rules):
    resource_set = ResourceSet.read(some_R(6))
    traced = random_trace(random.Random(100 + seed), 80)
    used, begun = [], []

    def watch(job, start, allocation):
        begun.append(job)
        assert start >= job.submit
        for ranks, cores, gpus in allocation.parts:
            used.extend(
                (start, start + job.runs, rank, cores, gpus) for rank in idset.iterate(ranks)
            )

    outcome = replay(resource_set, traced, rules, watch=watch)
    assert sorted(j.place for j in begun) == sorted(j.place for j in traced)
    assert outcome.jobs + outcome.nrefused == len(traced)
    for i, (start, end, rank, cores, gpus) in enumerate(used):
        for other_start, other_end, other_rank, other_cores, other_gpus in used[:i]:
            if rank == other_rank and start < other_end and other_start < end:
                assert not cores & other_cores
                assert not gpus & other_gpus
    worked = sum((end - start) * idset.size(cores) for start, end, _, cores, _ in used)
    upto = traced[0].submit + outcome.last_start
    assert upto == max(start for start, *_ in used)
    by_then = sum((min(end, upto) - start) * idset.size(cores) for start, end, _, cores, _ in used)
    assert outcome.cores_used == pytest.approx(by_then / (outcome.cores * outcome.last_start))
    last = max(end for _, end, _, _, _ in used)
    assert outcome.span == pytest.approx(last - traced[0].submit)
    assert 0 < outcome.local <= outcome.slots
    area = sum(p.cores_used * (p.end - p.start) for p in outcome.curve)
    assert area == pytest.approx(worked)


def test_a_replay_that_is_stopped_has_the_numbers_up_to_then():
    traced = jobs(*[(i, 10, "slot=1/core=8") for i in range(20)])
    told = []
    outcome = replay(cluster(), traced, FIFO, told.append, stopped=lambda: told[-1].time >= 40)
    assert (outcome.jobs, outcome.unstarted, outcome.span) == (5, 15, 40)
    assert outcome.cores_used == 1
    assert outcome.wait.max == 40 - 4
    assert replay(cluster(), traced, FIFO).unstarted is None


# -- traces


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "must be an object, not an array"),
        ("{", "line 2: column 2: not JSON"),
        ('{"submit": 0, "duration": 1}', "key 'shape' is missing"),
        (
            '{"submit": 0, "duration": 1, "shape": "slot=1/core", "x": 1}',
            "/x: unknown key; known are submit, ",
        ),
        (
            '{"submit": -1, "duration": 1, "shape": "slot=1/core"}',
            "/submit: must be at least 0 and at most 100000000000.0, not -1",
        ),
        (
            '{"submit": 0, "duration": 1e11, "shape": "slot=1/core"}',
            "/duration: must be at least 0 and",
        ),
        ('{"submit": 0, "duration": 1, "shape": "s", "priority": 4294967296}', "/priority: must"),
        ('{"submit": 0, "duration": 1, "shape": "s", "queue": 3}', "/queue: must be a string"),
        (
            '{"submit": 0, "duration": 1, "shape": "s", "account": "' + "a" * 129 + '"}',
            "/account: has more than 128 characters",
        ),
        (
            '{"submit": 0, "duration": 1, "limit": 0, "shape": "slot=1/core"}',
            "/limit: must be at least 1e-06",
        ),
        ('{"submit": 0, "duration": 1, "shape": 3}', "/shape: must be a string, not 3"),
        ('{"submit": 0, "duration": 1, "shape": "slot=1/core", "id": []}', "id: "),
        ('{"submit": 0, "duration": 1, "shape": "s", "constraint": {"x": [1]}}', "constraint"),
        ('{"submit": 0, "duration": 1, "shape": "s", "locality": "some"}', "locality: "),
        ('{"submit": 0, "duration": 1, "shape": "s", "options": 3}', "/options: must be an object"),
        ('{"submit": 0, "duration": 1, "shape": "s", "options": {"wait": 0}}', "0 is not a number"),
    ],
)
def test_a_bad_line_is_named(line, words):
    good = '{"submit": 0, "duration": 1, "shape": "slot=1/core"}\n'
    with pytest.raises(InvalidTrace) as e:
        trace.read(good + line + "\n" + good)
    assert str(e.value).startswith("line 2: ")
    assert words in str(e.value)
    assert len(str(e.value)) < 400
    assert "\n" not in str(e.value)


def switches():
    """Eight nodes below two switches."""
    resource_set = cluster(8)
    fabric = {"switch": [{"ranks": "0-3"}, {"ranks": "4-7"}]}
    return attrs.evolve(resource_set, scheduling=key(fabric))


def test_domains_are_counted_over_the_fewest_that_could_hold_as_many_nodes():
    rows = [
        {"submit": 0, "duration": 9, "shape": "node=3/slot=1/core=8"},
        {"submit": 0, "duration": 9, "shape": "node=3/slot=1/core=8"},
        {"submit": 0, "duration": 9, "shape": "node=2/slot=1/core=8"},
        {"submit": 0, "duration": 9, "shape": "slot=1/core=1"},
    ]
    traced = trace.read("\n".join(map(json.dumps, rows))).jobs
    (spread,) = replay(switches(), traced, FIFO).spreads
    assert (spread.locality, spread.jobs, spread.mean, spread.p95) == ("switch", 3, 4 / 3, 2.0)
    assert replay(cluster(8), traced, FIFO).spreads == ()


# -- synthetic traces


def test_synthetic_jobs_all_run_and_make_the_load_asked_for():
    for resource_set in (ResourceSet.read(some_R()), cluster(3), two_sockets()):
        traced = synthetic(resource_set, 300, load=0.5)
        outcome = replay(resource_set, traced, EASY)
        assert outcome.nrefused == 0
        assert outcome.jobs == 300
        came = traced[-1].submit - traced[0].submit
        cores, gpus = (
            math.fsum((p.end - p.start) * getattr(p, used) for p in outcome.curve)
            for used in ("cores_used", "gpus_used")
        )
        work = max(cores / outcome.cores, gpus / outcome.gpus if outcome.gpus else 0)
        assert math.isclose(work / came, 0.5, rel_tol=0.25)
