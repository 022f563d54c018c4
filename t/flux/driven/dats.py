"""Windows, over days in a moment: chosen nodes that fail, and jobs that were submitted ahead."""

from histories import BEGIN, History
from manager import SUCCESS, Job, ranks_of
from reactor import Message

from treepool.rfc import jobspec
from treepool.rfc.shape import parse_shape

DAY = 86400.0


class Dats(History):
    """A story that goes on whenever the module rests; each ``yield`` lets it rest."""

    mixed = False

    def __init__(self, seed):
        super().__init__(seed)
        self.steps = self.story()

    def idle(self):
        if self.ending:
            self.handle.hurry()
        elif next(self.steps, self) is self:
            self.ended = True
            self.unload()

    def begun(self):
        super().begun()
        self.idle()

    # -- what happens

    def at(self, when):
        """The clock goes on, in steps in which nothing is missed, and the module rests."""
        while self.clock.now < when:
            self.clock.now = min(when, max(self.handle.next_timer, self.clock.now + 1.0))
            yield

    def ask(self, what, **payload):
        msg = self.handle.send(Message(f"sched-treepool.window-{what}", payload))
        while not msg.responses:
            yield
        assert not msg.errors, msg.errors
        return msg.answers[-1]

    def dat(self, name="dat", start=1000.0, length=100.0, **more):
        entry = {"name": name, "hosts": "", "shape": "slot=2/node{x}", "start": BEGIN + start}
        return self.ask("add", **{**entry, "end": entry["start"] + length, "users": [1], **more})

    def submit(self, user=1, duration=0, shape="slot=1/node{x}", preemptible_after=None, **options):
        self.jobid += 1
        spec = jobspec.from_resources(parse_shape(shape), duration, options=options or None)
        if preemptible_after is not None:
            spec["attributes"]["system"]["preemptible-after"] = preemptible_after
        job = Job(self.jobid, spec, 16, user, self.clock.now)
        self.manager.submit(job)
        return job

    @property
    def kept(self):
        (entry,) = self.kvs["sched-treepool.windows"]
        return entry

    # -- what must hold

    def story(self):
        yield from self.a_victim_that_is_over_already_is_no_error()
        yield from self.a_node_that_fails_is_replaced()
        yield from self.a_job_waits_for_its_window_and_ends_with_it()
        yield from self.what_comes_again_takes_its_jobs_at_its_next_time()

    def a_node_that_fails_is_replaced(self):
        busy = [self.submit(user=2, duration=0) for _ in range(2)]
        yield
        free = {f"n{rank}" for rank in self.manager.ranks} - {f"n{min(j.held)}" for j in busy}
        answer = yield from self.dat()
        before = hosts_of(answer["hosts"])
        assert len(before) == 2 and before <= free and answer["running"] == []
        failed = min(before)
        self.manager.mark(False, {int(failed[1:])})
        yield from self.at(BEGIN + 290.0)
        assert hosts_of(self.kept["hosts"]) == before  # it may come back
        yield from self.at(BEGIN + 500.0)
        after = hosts_of(self.kept["hosts"])
        assert after >= before - {failed} and failed not in after and len(after) == 2
        assert after <= free or len(free) < 3, "a busy node was taken, and others are free"
        self.manager.mark(True, {int(failed[1:])})
        yield from self.at(BEGIN + 900.0)
        assert hosts_of(self.kept["hosts"]) == after  # it stays
        for job in busy:
            self.manager.free(job)

    def a_job_waits_for_its_window_and_ends_with_it(self):
        job, wrong = self.submit(window="dat"), self.submit(user=2, window="dat")
        none = self.submit(window="tad")
        short = self.submit(duration=30, window="dat")
        yield
        assert job.waits and short.waits
        assert job.told["reason_pending"].startswith("window dat opens at ")
        assert job.told["t_estimate"] == BEGIN + 1000.0
        assert not wrong.waits and wrong.R is None
        assert not none.waits and none.R is None
        yield from self.at(BEGIN + 1000.0)
        hosts = hosts_of(self.kept["hosts"])
        for one, end in ((job, 1100.0), (short, 1030.0)):
            assert one.answer == SUCCESS and one.started == BEGIN + 1000.0
            assert {f"n{rank}" for rank in ranks_of(one.R)} < hosts
            assert one.R["execution"]["expiration"] == BEGIN + end
        late = self.submit(window="dat")
        yield from self.at(BEGIN + 1030.0)
        self.manager.free(short)
        yield
        assert late.started == BEGIN + 1030.0, "it needs no more than is left of the window"
        assert late.R["execution"]["expiration"] == BEGIN + 1100.0
        missed = self.submit(window="dat")
        yield from self.at(BEGIN + 1100.0)
        assert not missed.waits and missed.R is None  # the window is over
        for one in (job, late):
            self.manager.free(one)
        yield

    def what_comes_again_takes_its_jobs_at_its_next_time(self):
        yield from self.dat("daily", 2000.0, every=1)
        over = BEGIN + 2100.0
        yield from self.at(over)
        job, others = self.submit(window="daily"), self.submit(user=2, duration=2 * DAY)
        big = self.submit(
            user=2, duration=2 * DAY, shape=f"slot={len(self.manager.ranks)}/node{{x}}"
        )
        yield
        assert job.waits and big.waits and not others.waits
        assert not {f"n{rank}" for rank in ranks_of(others.R)} & hosts_of(self.kept["hosts"])
        yield from self.at(over + DAY - 100.0)
        assert job.started == over + DAY - 100.0
        assert job.R["execution"]["expiration"] == over + DAY

    def a_victim_that_is_over_already_is_no_error(self):
        nodes = len(self.manager.ranks)
        victim = self.submit(shape=f"slot={nodes}/node{{x}}", preemptible_after=0)
        yield
        assert victim.answer == SUCCESS
        wants = self.submit(shape=f"slot={nodes}/node{{x}}")
        yield
        assert self.manager.raised == [victim.jobid], "and was told that it is over"
        self.manager.free(victim)
        yield
        assert wants.answer == SUCCESS
        self.manager.free(wants)
        yield


def hosts_of(text):
    from treepool.rfc import hostlist

    return set(hostlist.decode(text))
