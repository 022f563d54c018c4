"""A preemptible job in a real broker ends for another, also after a reload, and both are told."""

#: Jobs of queue standby may be ended at once, for those of batch alone.
CONF = {
    "queues": {name: {"requires": []} for name in ("batch", "standby", "trial")},
    "sched-treepool": {"queues": {"standby": {"preemptible-after": "0s"}}, "preempt-by": ["batch"]},
}


def test_the_younger_of_two_ends_and_both_are_told(small):
    with small.configured("policy=easy", **CONF) as instance:

        def submit(queue, *words):
            return instance.submit(f"--queue={queue}", "-n1", "-c8", *words)

        def ends(job, wants):
            """*job* ends for *wants*, as both are told."""
            instance.wait(job, "clean")
            said = instance.wait(job, "exception")
            assert (said["type"], said["severity"]) == ("preempt", 0)
            assert said["note"] == f"preempted by {wants} of queue batch"
            instance.wait(wants, "alloc")
            assert instance.annotation(wants, "preempts") == job
            assert instance.stats()["jobs"]["preempted"] == 1

        first, second = (submit("standby") for _ in range(2))
        instance.wait(second, "alloc")
        waits = submit("trial")  # which ends nobody
        wants = submit("batch")
        ends(second, wants)
        assert [instance.state(job) for job in (first, waits)] == ["R", "S"]
        instance.flux("cancel", waits, wants)
        third = submit("standby")
        instance.wait(third, "alloc")
        instance.flux("module", "reload", "sched-treepool", "policy=easy")
        instance.flux("queue", "start", "--all", "--quiet")
        ends(third, submit("batch"))
        assert instance.state(first) == "R"
