"""An answer is what is true when it is given, though jobs start and end while it is made."""

import json
import subprocess

from broker import PATIENCE, environment

#: Job 1 has a node, job 2 waits for it. In each trial one more step of the answer to "where is job
#: 2?" is made before job 1 ends. Prints the answers.
SCRIPT = """
import json
from itertools import islice
import TreePool  # makes treepool importable
from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.flux.answers import Answers
from treepool.flux.outlook import Outlook
from treepool.flux.questions import Asker
from treepool.placement.plan.jobs import Rule, finish
from treepool.placement.plan.queue import Queue
from treepool.rfc.jobspec import from_resources

R = {"version": 1, "execution": {
    "R_lite": [{"rank": "0", "children": {"core": "0-7"}}], "nodelist": ["n0"]}}

class Source:
    def __init__(self):
        self.pool = Pool(R)
        spec = from_resources(parse_shape("slot=1/core=8"), 60)
        request = self.pool.parse_resource_request(spec)
        self.pool.alloc(1, request)
        self.queue = Queue(self.pool, self, lambda: 1000.0, Rule("easy", 8))
        self.queue.add(self.queue.waiting(2, 16, request, frozenset(), "", 1000.0, 1000.0))
        finish(self.queue.run())

    def started(self, job, allocation, how):
        pass

    def up_to_date(self):
        return ()

    def is_deferred(self, jobid):
        return False

def trial(steps):
    source = Source()
    answers = object.__new__(Answers)
    answers._source, answers.outlook = source, Outlook(source.queue)
    work = answers._job({"id": 2}, Asker(0, True))
    said = list(islice(work, steps))
    if not any(said):
        source.pool.free(1)
        finish(source.queue.run())
    said += work
    return [answer for answer in said if answer is not None]

print(json.dumps([trial(steps) for steps in range(1, 4)]))
"""


def test_a_job_that_starts_while_its_user_asks_is_not_said_to_wait():
    done = subprocess.run(
        ["flux", "python", "-c", SCRIPT],
        env=environment(),
        cwd="/",  # not the checkout, which Python would look in first
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    states = [[answer["state"] for answer in trial] for trial in json.loads(done.stdout)]
    told_before = states.count(["waiting"])
    assert 0 < told_before < len(states), "job 1 ends amid some answers"
    assert states == [["running"]] * (len(states) - told_before) + [["waiting"]] * told_before
