"""What anyone asks of the scheduler module, answered without Flux: of it, only names are needed."""

from __future__ import annotations

import errno
import json
import sys
from itertools import islice
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock, patch

from treepool.flux.options import Options
from treepool.flux.submissions import Submission, Submissions
from treepool.placement.plan.queue import Queue
from treepool.rfc.jobspec import from_resources
from treepool.rfc.queues import Queues
from treepool.rfc.shape import parse_shape

#: Steps after which an answer is taken to hang.
MOST_STEPS = 100_000


def _imported():
    """The modules answers and questions, with stand-ins for what they import of Flux."""
    names = ("", ".job", ".constants", ".core", ".core.inner", ".util")
    stubs = {f"flux{name}": MagicMock(spec=ModuleType(name)) for name in names}
    stubs["flux.job"].JobID = lambda jobid: SimpleNamespace(f58=f"f{jobid}")
    stubs["flux.util"].parse_fsd = float
    stubs["flux.kvs"] = MagicMock()
    stubs["flux.constants"].FLUX_MSGTYPE_REQUEST = 1
    stubs["flux.constants"].FLUX_POLLIN = 1
    stubs["flux.core.inner"].ffi = MagicMock()
    stubs["flux.core.inner"].lib = SimpleNamespace(
        FLUX_ROLE_OWNER=1,
        FLUX_ROLE_USER=2,
        flux_msg_copy=lambda msg, payload: None,
        flux_msg_decref=lambda msg: None,
        flux_msg_get_payload=lambda msg, data, size: -1,
    )
    with patch.dict(sys.modules, stubs):
        from treepool.flux import answers, questions
    return answers, questions


ANSWERS, QUESTIONS = _imported()


def numbers():
    yield
    return {}


def answers_of(handle, pool):
    """Answers about a queue on *pool*, in which a job runs and another waits."""
    queue = Queue(pool, MagicMock(), lambda: 1000.0)
    configuration = SimpleNamespace(
        options=Options(), queues=Queues({}, {}), get=lambda key, default: default
    )
    context = MagicMock(handle=handle, pool=pool, queue=queue, configuration=configuration)
    context.inbox.emptied = lambda: iter(())
    topology = SimpleNamespace(starts=False, asks=False)
    windows = SimpleNamespace(admitted=lambda *_: frozenset(), listed=list)
    submissions = Submissions(context, topology, windows, MagicMock())
    for jobid, shape in ((1, "slot=3/node{x}"), (2, "slot=2/node{x}")):
        spec = from_resources(parse_shape(shape), duration=60)
        submissions.take(Submission(MagicMock(), jobid, 16, 7, 1000.0, spec))
    for _ in queue.run():
        pass
    return ANSWERS.Answers(context, submissions, windows, numbers)


def answered(pool, topic, text):
    """The answers, and the errors as (errno, reason), to a guest's request with payload *text*.

    The end of a stream is no error.
    """
    handle = MagicMock()
    # As flux-core's do, which fail for what is not valid Unicode.
    handle.respond.side_effect = lambda _msg, told: json.dumps(told, ensure_ascii=False).encode()
    handle.respond_error.side_effect = lambda _msg, _number, reason: reason.encode()
    asked = answers_of(handle, pool)
    msg = SimpleNamespace(topic=topic, userid=8, rolemask=2, payload_str=text, handle=None)
    QUESTIONS.lib.flux_msg_is_streaming = lambda _msg: topic in ("look", "jobs", "try")
    asked._questions.take(msg, getattr(asked, f"_{topic}"))
    for _ in islice(asked._questions._rounds(), MOST_STEPS):
        if not len(asked):
            break
    assert not len(asked), "no answer"
    assert not handle.log.called, handle.log.call_args
    errors = [call.args[1:] for call in handle.respond_error.call_args_list]
    answers = [call.args[1] for call in handle.respond.call_args_list]
    return answers, [error for error in errors if error[0] != errno.ENODATA]
