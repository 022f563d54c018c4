"""Who may be ended for whom: what jobs, queues and the configuration say, also after a reload."""

import json
import math

import pytest

from treepool.errors import InvalidJobspec, InvalidOption
from treepool.flux import options
from treepool.flux.preemption import Preemption, Started
from treepool.placement.plan.jobs import Terms

STANDBY = Preemption({"standby": 600.0}, frozenset({"batch"}))


def spec(queue, **system):
    return {"attributes": {"system": {"queue": queue, **system}}}


def test_what_a_job_says_counts_more_than_its_queue():
    assert STANDBY.terms(spec("standby"), ("standby",)) == Terms(600.0, False)
    own = spec("standby", **{"preemptible-after": 5})
    assert STANDBY.terms(own, ("standby",)) == Terms(5.0, False)
    assert STANDBY.terms(spec("batch"), ("batch",)) == Terms(math.inf, True)
    assert STANDBY.terms(spec("debug"), ("debug",)) == Terms(math.inf, False)
    assert STANDBY.terms(spec("night"), ("batch", "night")) == Terms(math.inf, True)


@pytest.mark.parametrize("value", [True, None, "soon", -1, [], 1e999])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(InvalidJobspec, match=r"^/attributes/system/preemptible-after: "):
        STANDBY.terms(spec("batch", **{"preemptible-after": value}), ("batch",))


def events(*more):
    alloc = {"timestamp": 3.0, "name": "alloc", "context": {}}
    return "\n".join(map(json.dumps, [*more, alloc])) + "\n"


def update(**context):
    return {"timestamp": 2.0, "name": "jobspec-update", "context": context}


def taken_over(jobspec, events):
    job = Started.read(jobspec, events)
    return STANDBY.of_running(job, (job.queue,))


def test_a_running_job_is_what_its_jobspec_became():
    def of(queue, *more):
        return taken_over(json.dumps(spec(queue)), events(*more))

    assert of("standby") == (3.0, 600.0)
    assert of("standby", update(**{"attributes.system.queue": "batch"})) == (3.0, math.inf)
    assert of("batch", update(**{"attributes.system.preemptible-after": 7})) == (3.0, 7.0)
    assert taken_over("{", events())[1] == math.inf
    assert taken_over(json.dumps(spec("standby")), "x")[1] == math.inf
    assert taken_over(json.dumps(spec(["standby"])), events())[1] == math.inf
    assert (
        taken_over(json.dumps(spec("batch", **{"preemptible-after": []})), events())[1] == math.inf
    )


def test_a_queue_that_is_not_there_is_refused():
    with pytest.raises(InvalidOption, match="this instance has no queue trail"):
        options.read([], {"preempt-by": ["trail"]}, {"trial": {}})
    read = options.read([], {"preempt-by": []}, {"trial": {}})
    assert read.preemption.by == frozenset()
