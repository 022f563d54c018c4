"""sched-treepool: who starts when."""

import json
import re
import time

import pytest

from broker import REPOSITORY, Instance


def load(instance, *words):
    instance.load("sched-treepool", *words)


def running(instance, job):
    """Whether *job* has its resources once the scheduler has nothing left to do."""
    instance.settle()
    return instance.state(job) == "R"


def test_an_infeasible_job_is_refused_with_the_reason(cluster, idle):
    load(cluster)
    job = cluster.shape("slot=1/numa/core=16")
    assert "numa domain has 16 cores" in cluster.wait(job, "exception")["note"]


def test_an_infeasible_job_is_refused_although_others_wait_before_it(cluster, idle):
    load(cluster)
    cluster.wait(cluster.submit("-N16", "-n16", "--exclusive"), "alloc")
    waiting = cluster.submit("-N16", "-n16", "--exclusive")
    job = cluster.submit("-n1", "-g9")
    assert "GPU" in cluster.wait(job, "exception")["note"]
    assert cluster.state(waiting) == "S"


def test_the_feasibility_service_answers_with_the_reason(cluster, idle):
    load(cluster)
    jobspec = json.loads(cluster.flux("submit", "--dry-run", "-n1", "-c121", "true"))
    script = (
        "import flux, json, sys\n"
        "try:\n"
        "    flux.Flux().rpc('feasibility.check', {'jobspec': json.load(sys.stdin)}).get()\n"
        "except OSError as e:\n"
        "    print(e.strerror)\n"
    )
    said = cluster.flux("python", "-c", script, stdin=json.dumps(jobspec))
    assert said == "no node has 121 cores: the largest has 120"


def test_where_the_site_turned_it_on_the_reason_is_told_at_the_prompt_and_there_is_no_job():
    plugins = 'ingest.validator.plugins=["jobspec","feasibility"]'
    with Instance(2, 8, 2, conf=[plugins]) as instance:
        load(instance)
        instance.wait(instance.submit("-N2", "-n2", "--exclusive"), "alloc")
        before = instance.flux("jobs", "-ano", "{id}")
        done = instance.run("submit", "-n1", "-c97", "true")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no node has 97 cores: the largest has 8" in done.stderr
        assert instance.flux("jobs", "-ano", "{id}") == before
        assert instance.state(instance.submit("-n1", "-c8")) == "S", "it waits as before"
        checked = instance.run("treepool", "flux-env", "--check").stdout.splitlines()
        assert "feasibility check  on in this instance" in checked


def test_a_jobspec_of_an_unknown_kind_is_refused_and_the_scheduler_lives(cluster, idle):
    load(cluster)
    job = cluster.shape("slot=1/chassis/core=1")
    assert "chassis" in cluster.wait(job, "exception")["note"]
    assert cluster.placed(cluster.submit("-n1")) == [("0", "0", "")]


def test_higher_priority_first_then_the_order_of_submission(small, idle):
    load(small)
    small.wait(first := small.submit("-N2", "-n2", "--exclusive"), "alloc")
    low, low_later = (small.submit("-N2", "-n2", "--exclusive", "--urgency=10") for _ in "12")
    high = small.submit("-N2", "-n2", "--exclusive", "--urgency=20")
    for job, following in [(first, high), (high, low), (low, low_later)]:
        small.flux("cancel", job)
        small.wait(following, "alloc")


def test_a_new_priority_counts(small, idle):
    load(small)
    small.wait(first := small.submit("-N2", "-n2", "--exclusive"), "alloc")
    one, other = (small.submit("-N2", "-n2", "--exclusive") for _ in "12")
    small.flux("job", "urgency", other, "31")
    small.settle()  # the job manager tells the scheduler a moment later
    small.flux("cancel", first)
    small.wait(other, "alloc")
    assert small.state(one) == "S"


def test_with_fifo_nothing_passes_the_first_that_waits(small, idle):
    load(small, "policy=fifo")
    small.wait(small.submit("-t1h", "-n1", "-c1"), "alloc")
    small.submit("-t1h", "-N2", "-n2", "--exclusive")
    assert not running(small, small.submit("-t1m", "-n1"))


@pytest.fixture(params=["easy", "conservative"])
def backfill(small, request):
    """An instance whose one node is taken for an hour, while the next job needs both."""
    load(small, f"policy={request.param}")
    small.wait(small.submit("-t1h", "-N1", "-n1", "--exclusive"), "alloc")
    small.head = small.submit("-t1h", "-N2", "-n2", "--exclusive")
    small.settle()
    yield small
    small.cancel_all()


def test_a_job_that_ends_in_time_passes(backfill):
    job = backfill.submit("-t30m", "-n1", "-c2")
    assert running(backfill, job)
    assert backfill.annotation(job, "backfill") == backfill.head


@pytest.mark.parametrize("limit", ["-t61m", "-t0"])
def test_a_job_that_would_delay_the_reserved_one_waits(backfill, limit):
    assert not running(backfill, backfill.submit(limit, "-n1", "-c2"))


def test_the_reserved_job_tells_when_it_will_start(backfill):
    start = float(backfill.annotation(backfill.head, "t_estimate"))
    assert start == pytest.approx(time.time() + 3600, abs=60)


def test_the_estimate_goes_when_the_job_starts_and_a_new_end_moves_it(backfill):
    first = backfill.flux("jobs", "-no", "{id.f58}", "--filter=running")
    backfill.flux("update", first, "duration=+30m")
    later = time.time() + 5400
    assert backfill.soon(
        lambda: abs(float(backfill.annotation(backfill.head, "t_estimate")) - later) < 60
    )
    backfill.flux("cancel", first)
    backfill.wait(backfill.head, "alloc")
    assert backfill.annotation(backfill.head, "t_estimate") == ""


def test_a_job_is_told_how_it_was_selected_also_in_its_eventlog(backfill):
    first = backfill.flux("jobs", "-no", "{id.f58}", "--filter=running")
    passing = backfill.submit("-t30m", "-n1", "-c2")
    backfill.wait(passing, "alloc")
    for job in (first, passing):
        backfill.flux("cancel", job)
    expected = {first: "immediate", passing: "backfilled", backfill.head: "reserved"}
    for job, how in expected.items():
        told = backfill.wait(job, "alloc")["annotations"]["sched"]["selection_type"]
        assert told == backfill.annotation(job, "selection_type") == how


def test_a_job_passes_when_what_it_gets_is_not_reserved(small, idle):
    load(small, "policy=easy")
    small.wait(small.submit("-t1h", "-n1", "-c5"), "alloc")  # 3 cores are left on node 0
    small.wait(small.submit("-t1h", "-n1", "-c5", "--requires=rank:1"), "alloc")
    head = small.submit("-t1h", "-n1", "-c7", "--requires=rank:0")
    job = small.submit("-t10h", "-n1", "-c2")
    assert small.placed(job)[0][0] == "1", "node 0 is reserved, node 1 is not"
    assert small.state(head) == "S"


def test_conservative_protects_the_second_that_waits_too(small, idle):
    for policy, passes in [("easy", True), ("conservative", False)]:
        load(small, f"policy={policy}")
        small.wait(small.submit("-t1h", "-n1", "-c8", "--requires=rank:0"), "alloc")
        small.wait(small.submit("-t1h", "-n1", "-c4", "--requires=rank:1"), "alloc")
        small.submit("-t1h", "-n1", "-c8", "--requires=rank:0")
        second = small.submit("-t1h", "-n1", "-c8", "--requires=rank:1")
        job = small.submit("-t10h", "-n1", "-c2", "--requires=rank:1")
        assert running(small, job) is passes
        late = small.soon(lambda: small.annotation(second, "t_estimate"))  # noqa: B023
        assert (float(late) > time.time() + 7200) is passes, "it is planned after the other one"
        small.cancel_all()


def test_a_job_that_waits_for_one_without_limit_does_not_stop_short_ones(small, idle):
    load(small, "policy=easy")
    small.wait(small.submit("-N1", "-n1", "--exclusive"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    assert running(small, small.submit("-t1h", "-n1"))
    assert not running(small, small.submit("-n1"))
    assert small.annotation(head, "t_estimate") == ""


def test_a_start_after_all_calendars_is_no_estimate_and_flux_jobs_can_list_the_job(small, idle):
    load(small, "policy=easy")
    small.wait(small.submit("-t10000000d", "-N1", "-n1", "--exclusive"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    small.settle()
    shown = "{annotations.sched.t_estimate!d:%H:%M}|{annotations.sched.reason_pending}"
    said = "|1 of 2 nodes free now, the rest is held by jobs without a time limit"
    assert small.soon(lambda: small.flux("jobs", "-no", shown, head) == said)


def test_the_command_of_the_guide_prints_the_day_of_an_expected_start(small, idle):
    load(small, "policy=easy")
    small.wait(small.submit("-t30h", "-N2", "-n2", "--exclusive"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    day = time.strftime("%b%d", time.localtime(time.time() + 30 * 3600))
    text = (REPOSITORY / "doc" / "user.md").read_text()
    (shown,) = re.findall("flux jobs -f pending -o '(.*t_estimate.*)'", text)
    assert small.soon(lambda: f" {day} " in small.flux("jobs", "-no", shown, head))


def test_fifo_estimates_the_first_that_wait_in_order(small, idle):
    load(small)
    small.wait(small.submit("-t1h", "-N2", "-n2", "--exclusive"), "alloc")
    jobs = [small.submit("-t1h", "-N2", "-n2", "--exclusive") for _ in "123"]
    small.settle()
    now = time.time()
    for hours, job in enumerate(jobs, start=1):
        start = float(small.annotation(job, "t_estimate"))
        assert start == pytest.approx(now + 3600 * hours, abs=60)


def test_a_cancelled_head_lets_the_others_go(small, idle):
    load(small)
    small.wait(small.submit("-n1", "-c1"), "alloc")
    head = small.submit("-N2", "-n2", "--exclusive")
    job = small.submit("-n1")
    assert not running(small, job)
    small.flux("cancel", head)
    small.wait(job, "alloc")


def test_pool_options_reach_the_pool(small, idle):
    load(small, "node-policy=worst-fit", "locality=none")
    small.R(small.submit("-n1", "-c3"))
    assert small.placed(small.submit("-n1", "-c3")) == [("1", "0-2", "")]
    load(small, "locality=required")
    small.cancel_all()
    small.R(small.submit("-n1", "-c8"))
    small.R(small.submit("-n2", "-c2", "-g1"))
    assert not running(small, small.submit("-n1", "-c4")), "no numa has 4 cores free, a node has"


def test_a_job_tells_how_well_it_sits(cluster, idle):
    load(cluster)
    near = cluster.submit("-n1", "-c15", "-g1")
    cluster.wait(near, "alloc")
    assert cluster.annotation(near, "locality") == "1.00"
    across = cluster.submit("-n1", "-c30", "-g2")  # two NUMA domains, as on an idle node
    whole = cluster.submit("-N1", "-n1", "--exclusive")
    for job in (across, whole):
        cluster.wait(job, "alloc")
        assert cluster.annotation(job, "locality") == "1.00"
    for rank in range(2, 16):
        cluster.submit("-N1", "-n1", "--exclusive", f"--requires=rank:{rank}")
    scattered = cluster.submit("-n8", "-c8", "-g1", "--requires=rank:0")  # five domains are left
    cluster.flux("cancel", scattered)
    last = [cluster.submit("-n1", "-c9", "--requires=rank:0") for _ in range(5)]
    cluster.wait(last[-1], "alloc")
    apart = cluster.submit("-n1", "-c12", "--requires=rank:0")  # six cores are left of each
    cluster.wait(apart, "alloc")
    assert cluster.annotation(apart, "locality") == "0.50"


def test_a_job_option_reaches_the_pool(cluster, idle):
    load(cluster)
    system = "attributes.system.treepool"
    job = cluster.submit(f"--setattr={system}.topology_policy=single-numa-node", "-n1", "-c16")
    assert "no numa domain has 16 cores" in cluster.wait(job, "exception")["note"]
