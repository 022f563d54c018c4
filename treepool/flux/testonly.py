"""``flux submit --test-only`` and its like: ask the scheduler instead of submitting the job.

Other plugins change a jobspec after treepool's, so it is known only when the command submits it.
In this process ``flux.job.submit_async``, by which all these commands submit, is therefore replaced
by a function that asks. Until then the jobspec has a mark that makes sched-treepool deny it, so
that no job runs if some flux-core submits in another way.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import suppress
from typing import Any, Callable, NoReturn

import flux.job

from treepool.errors import InvalidInput
from treepool.flux import client, joboptions
from treepool.rfc.shape import format_shape, unlabelled
from treepool.view import jobstory
from treepool.view.words import plain

#: An option that no job has.
_MARK = "test_only"


def begin(jobspec: Any, flag: str, names_commands: bool) -> None:
    """Let the command ask where it would submit *jobspec*; raises ValueError, which names *flag*.

    If the command submits different jobs, it *names_commands* in the answers.
    """
    other = client.other_scheduler()
    if other:
        raise ValueError(f"{flag}: {other}")
    options = jobspec.attributes["system"].setdefault("treepool", {})
    if not isinstance(options, dict):
        raise ValueError("--setattr=treepool is not an object of options")
    options[_MARK] = True
    flux.job.submit_async = _Asking(names_commands)


class _Asking:
    """Takes the place of ``flux.job.submit_async``. It asks about equal jobs once."""

    def __init__(self, names_commands: bool) -> None:
        self._names_commands = names_commands
        #: What was told of each question, and whether the job could run at some time.
        self._told: dict[str, tuple[str, bool]] = {}

    def __call__(self, handle: Any, jobspec: str, urgency: int = 16, **_: Any) -> _Answer:
        """What the scheduler says of *jobspec*, as the future of a submission."""
        spec = json.loads(jobspec)
        system = spec["attributes"]["system"]
        system["treepool"].pop(_MARK, None)
        if not system["treepool"]:
            del system["treepool"]
        question = client.question(spec, urgency)
        key = json.dumps([question, client.conditions(spec, urgency)])
        if key not in self._told:
            self._told[key] = _ask(question, spec, urgency)
        text, runs = self._told[key]
        if self._names_commands:
            text = f"{plain(shlex.join(spec['tasks'][0]['command']))}: {text}"
        return _Answer(text, runs)


def _ask(question: Any, spec: Any, urgency: int) -> tuple[str, bool]:
    """What the scheduler says; raises OSError if it refuses the question."""
    try:
        answer, closed = client.ask_for(question)
    except OSError as e:
        raise OSError(joboptions.named(e.strerror or str(e))) from None
    shape = "the job"
    with suppress(InvalidInput):
        shape = format_shape(unlabelled(spec["resources"]))
    first = client.conditions(spec, urgency)
    lines = jobstory.answer_to_shape(shape, answer, closed, time.time(), first)
    return "\n".join(lines), answer["verdict"] != "infeasible" and closed.disabled is None


class _Answer:
    """What commands use of the future of a submission."""

    def __init__(self, text: str, runs: bool) -> None:
        self._text = text
        self._runs = runs

    def get_id(self) -> NoReturn:
        """Print the answer and end the command: it would attach to the job, or wait for it."""
        if not self._runs:
            raise OSError(self._text)
        sys.stdout.write(f"{self._text}\n")
        sys.exit(0)

    def then(self, callback: Callable[..., None], args: Any, label: str = "") -> _Answer:
        """Print the answer as the *callback* of ``flux submit`` prints a job id, or an error."""
        if self._runs and (args.wait or args.watch):  # for a job that there will not be
            if not args.quiet:
                args.stdout.write(f"{label}{self._text}\n")
        else:
            label_of_answer = label if self._runs else ""  # before an error, the callback writes it
            callback(_Text(f"{label_of_answer}{self._text}", self._runs), args, label)
        return self


class _Text:
    """A submission that succeeded with this text as its job id, or failed with it."""

    def __init__(self, text: str, succeeded: bool) -> None:
        self._text = text
        self._succeeded = succeeded

    def get_id(self) -> str:
        """The text; raises OSError if the submission failed."""
        if not self._succeeded:
            raise OSError(self._text)
        return self._text
