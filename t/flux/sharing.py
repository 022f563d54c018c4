"""Run by Flux's Python: checks of how questions share the time, with a clock that stands still."""

import errno
from unittest.mock import Mock, patch

import checks
from flux.message import Message
from running import Alone

from treepool.flux import questions
from treepool.flux.callbacks import refuse
from treepool.flux.questions import _LATER, _MOST_OF_ONE, _SAVED, _SHARE, Questions
from treepool.flux.runner import Runner

OWNER, GUEST = 1, 2


class Case(Alone):
    """Questions whose answers take so many seconds, in steps of one each."""

    def __init__(self):
        super().__init__()
        self.told = []
        self.questions = Questions(self, Runner(self, Mock()))

    def respond(self, msg, payload):
        self.told.append((msg.userid, payload["said"]))

    def respond_error(self, msg, number, text):
        self.told.append((msg.userid, number))

    def ask(self, user, role=GUEST, steps=1, seconds=0.001, payload="{}", parts=1):
        msg = Message()
        msg.topic, msg.userid, msg.rolemask, msg.payload_str = "sched", user, role, payload
        self.questions.take(msg, lambda *_: self.answer(steps, seconds, parts))

    def answer(self, steps, seconds, parts):
        for left in reversed(range(steps)):
            self.now += seconds
            yield {"said": "done"} if left < parts else None

    def until(self, seconds):
        """Let time pass, and timers go off."""
        end = self.now + seconds
        self.run(end)
        self.now = max(self.now, end)

    def answered(self, user):
        return self.told.count((user, "done"))


def case():
    """A case whose clock is the one that questions look at."""
    made = Case()
    patch.object(questions.time, "monotonic", lambda: made.now).start()
    return made


def check_a_guest_gets_his_share_and_what_he_saved():
    made = case()
    for _ in range(20 * 60):
        while made.questions._count[7] < _MOST_OF_ONE:
            made.ask(7, seconds=0.01)
        made.until(0.05)
    expected = 60 * _SHARE + _SAVED * _SHARE
    assert expected <= 0.01 * made.answered(7) <= expected + 0.1


def check_a_guest_who_has_used_up_his_share_does_not_hold_up_others():
    made = case()
    for _ in range(_MOST_OF_ONE):
        made.ask(7, steps=1000, seconds=0.004)
    made.until(60)
    assert made.questions._shares.wait(7, made.now) > 0
    made.ask(8)
    made.until(0.05)
    assert made.answered(8) == 1


def check_a_question_that_is_one_too_many_is_refused_later_and_keeps_no_payload():
    made = case()
    for _ in range(_MOST_OF_ONE):
        made.ask(7, steps=10**6, seconds=0.004)
    made.ask(7, payload='"' + 50000 * "x" + '"')
    ((_, kept),) = made.questions._refused
    assert not kept.payload_str
    made.until(0.9 * _LATER)
    assert made.told == []
    made.until(0.2 * _LATER)
    assert made.told == [(7, errno.EAGAIN)]


def check_the_owner_is_not_limited():
    made = case()
    for _ in range(10 * _MOST_OF_ONE):
        made.ask(0, OWNER, seconds=0.1)
    made.until(4 * 0.1 * 10 * _MOST_OF_ONE + 1)
    assert made.answered(0) == 10 * _MOST_OF_ONE


def check_what_is_malformed_is_refused_in_its_turn_and_counts():
    made = case()
    made.ask(7, payload="[]")
    assert made.told == [] and len(made.questions) == 1
    made.until(0.1)
    assert made.told == [(7, errno.EPROTO)]
    assert (len(made.questions), made.questions._count[7]) == (0, 0)


def check_an_answer_that_cannot_be_sent_is_an_error_to_who_asked_and_nobody_else():
    made = case()
    respond = made.respond

    def failing(msg, payload):
        if msg.userid == 7:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        respond(msg, payload)

    made.respond = failing
    made.ask(7)
    made.ask(8)
    made.until(0.1)
    assert made.told == [(7, errno.EINVAL), (8, "done")]
    assert (len(made.questions), made.questions._count[7]) == (0, 0)


def check_a_reason_that_is_no_text_for_flux_is_told_with_escapes():
    told = []
    handle = Mock(respond_error=lambda _msg, _number, text: told.append(text))
    for error in (OSError(errno.EPERM, "a\ud800"), ValueError("b\n\udcff"), KeyError("c")):
        refuse(handle, Mock(topic="ask"), error)
    assert told == ["a\\ud800", "b\\n\\udcff", "'c'"]


def check_questions_to_be_refused_are_refused_at_unload():
    made = case()
    for _ in range(_MOST_OF_ONE + 3):
        made.ask(7, steps=10**6)
    made.questions.end()
    numbers = [number for _, number in made.told]
    assert sorted(numbers) == sorted(_MOST_OF_ONE * [errno.ENOSYS] + 3 * [errno.EAGAIN])
    assert not made.questions._refused and not len(made.questions)


def check_a_question_that_is_answered_is_not_refused_at_unload_as_well():
    """A second response would be taken for that to another request of the same program."""
    made = case()
    made.ask(7, seconds=0.1)  # all that one step may take
    made.until(0.01)
    made.questions.end()
    assert made.told == [(7, "done")]


def check_an_answer_in_parts_is_for_those_only_who_ask_for_a_stream():
    made = case()
    made.ask(7, steps=3, parts=2)
    made.until(1.0)
    assert made.told == [(7, errno.EPROTO)]
    assert (len(made.questions), made.questions._count[7]) == (0, 0)


def check_a_question_that_comes_during_the_unload_is_refused():
    made = case()
    made.questions.end()
    made.ask(7)
    made.ask(0, OWNER)
    assert made.told == [(7, errno.ENOSYS), (0, errno.ENOSYS)]


if __name__ == "__main__":
    checks.run(globals())
