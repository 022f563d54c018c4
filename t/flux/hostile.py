"""Run by Flux's Python: checks of what must neither end the module nor tell what is hidden."""

import errno
import json
from unittest.mock import Mock, patch

import checks
from asking import few_answered

import TreePool  # noqa: F401 (makes treepool importable)
from treepool.flux import digests, hello
from treepool.flux.answers import Answers
from treepool.flux.discover import FEW
from treepool.flux.hardware import TOPO_GET
from treepool.flux.heldback import HeldBack
from treepool.flux.questions import Asker
from treepool.placement.pool import Pool
from treepool.rfc.rset import ResourceSet

#: As Flux's futures raise it for an answer in bytes that are no text.
NO_TEXT = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def asked_of_job_7(users):
    """What guest 1001 is told of job 7 in private mode; *users* are the users of the jobs.

    The job of user 1002 is told to the scheduler, and runs, once its inbox is empty.
    """
    context = Mock()
    context.configuration.get = lambda key, default: True
    context.pool.job.return_value = Mock(parts=(((0,), 1, 0),), end_time=0.0)

    def emptied():
        yield
        users[7] = 1002

    context.inbox.emptied = emptied
    submissions = Mock(user_of=users.get)
    with patch("treepool.flux.answers.request_watcher"):
        answers = Answers(context, submissions, Mock(), Mock())
    return [said for said in answers._job({"id": 7}, Asker(1001, False)) if said is not None]


def check_a_job_of_another_is_as_unknown_as_one_that_there_is_not():
    for users in ({}, {7: 1002}):  # also if it was submitted a moment ago
        assert asked_of_job_7(users) == [{"state": "unknown"}]


def check_a_node_that_comes_up_twice_while_its_program_runs_is_asked_once():
    made, brokers = few_answered(FEW + 1)
    (program,) = brokers.open(digests.EXEC)
    for _ in range(digests.TIMEOUT + 1):
        made._on_tick()
    program.tell(io={"stream": "stdout", "data": "too late"})
    program.end(OSError(errno.ENODATA, "done"))
    brokers.open(TOPO_GET)[0].end("")
    made._on_timer()  # it is flat now
    made.want(1 << FEW)  # drained and undrained
    made._on_tick()
    while brokers.open(TOPO_GET):
        brokers.open(TOPO_GET)[0].end("")
    made._on_timer()
    made.want(1 << FEW)
    while brokers.open(digests.EXEC):
        brokers.open(digests.EXEC)[0].end(OSError(errno.EHOSTUNREACH, "down"))
    assert [future.rank for future in brokers.open(TOPO_GET)] == [FEW]


def check_an_answer_of_a_broker_that_is_no_text_is_no_topology():
    made, brokers = few_answered(FEW + 1)
    (program,) = brokers.open(digests.EXEC)
    program.end(NO_TEXT)
    (question,) = brokers.open(TOPO_GET)
    question.end(NO_TEXT)
    assert list(made._failed) == [*range(FEW + 1)]


def check_a_text_of_a_user_in_the_events_of_his_job_does_not_hide_its_end():
    events = [
        {"name": "resource-update", "context": {"expiration": 50.0}},
        {"name": "memo", "context": {"resource-update": "a\u2028b\x85c"}},
    ]
    text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
    assert hello.end_in(text, 9.0) == 50.0


def check_while_it_is_not_known_what_is_allocated_nothing_is_freed_and_others_start():
    good = {"rank": "0", "children": {"core": "0"}}
    has = ResourceSet.read({
        "version": 1,
        "execution": {"R_lite": [good], "nodelist": ["n0"]},
    })  # fmt: skip
    bad = {"rank": 5, "children": []}
    for R_lite in (None, [], 7, [bad], [good]):
        handle, log, pool, inbox = (
            Mock(),
            Mock(),
            Pool(has),
            Mock(put=lambda work: all(iter(work, False))),
        )
        pool.register_alloc(7, has)
        made = HeldBack(Mock(handle=handle, log=log, pool=pool, inbox=inbox))
        made.add(7, has)
        made.ask()
        answer = R_lite if R_lite is None or R_lite == [] else {"execution": {"R_lite": R_lite}}
        future = handle.rpc.return_value
        future.get.return_value = R_lite if answer is R_lite else {"allocated": answer}
        future.then.call_args.args[0](future)
        assert pool.has_job(7)
        assert made.known
        assert ("not known" in str(log.error.call_args)) == (R_lite != [good])


if __name__ == "__main__":
    checks.run(globals())
