"""The answer to a shape or a jobspec: what it gets or a refusal, its JSON, hints at mistakes.

Of a cluster a pool gives the answer, of an instance its scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

import attrs

from treepool.cli import files
from treepool.cli.screen import shortened
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidInput,
    InvalidShape,
    refused,
)
from treepool.rfc import jobspec
from treepool.rfc.shape import format_shape, parse_shape, unlabelled
from treepool.view.jobs import Got

if TYPE_CHECKING:
    from treepool.placement.nodes.state import Held
    from treepool.placement.pool import Pool


@attrs.frozen
class Told:
    """What the scheduler tells that a job would get; ``R`` is empty unless it was asked for."""

    parts: tuple[Held, ...]
    nslots: int
    places: Mapping[int, str]
    R: dict[str, Any]

    def where(self, ranks: int) -> str:
        """The hosts of the *ranks* of a part."""
        return self.places[ranks]

    def to_dict(self) -> dict[str, Any]:
        """Its R."""
        return self.R


@attrs.frozen
class Refusal:
    """A refusal: ``kind`` is invalid, infeasible or insufficient, ``message`` says why.

    ``message`` is one line. ``caret`` shows the place of a syntax error in a shape, in two lines.
    ``reason`` is why a request that is valid was refused, as facts for programs.
    """

    kind: str
    message: str
    caret: str = ""
    reason: Mapping[str, Any] = {}


#: The jobspec of a job, or why it has none.
Spec = Union[dict[str, Any], Refusal]

#: The keys of an answer of the scheduler that say why it is refused, see doc/json.md.
_REASON = "code", "subject", "need", "have"


@attrs.frozen
class Answer:
    """What was asked for, as a shape, and the result."""

    shape: str
    outcome: Union[Got, Refusal]

    @property
    def refused(self) -> str:
        """One line that says why there is no allocation; "" if there is one."""
        if not isinstance(self.outcome, Refusal):
            return ""
        return f"{shortened(self.shape)}: {self.outcome.kind}: {self.outcome.message}"

    @property
    def facts(self) -> dict[str, Any]:
        """The result for JSON: R_lite and the number of slots, or the error and its reason."""
        if isinstance(self.outcome, Refusal):
            refused = self.outcome
            return {"error": refused.kind, "message": refused.message, **refused.reason}
        R_lite = self.outcome.to_dict()["execution"]["R_lite"]
        return {"R_lite": R_lite, "nslots": self.outcome.nslots}


def tried(shapes: Sequence[str], specs: Sequence[Spec], with_R: bool) -> Optional[list[Answer]]:
    """What jobs would get that ask for *shapes*, with *specs*, of what is free in the instance.

    None if its scheduler does not tell it; raises OSError.
    """
    from treepool.flux import client, sent

    asked = [spec for spec in specs if not isinstance(spec, Refusal)]
    told = client.tries(asked, with_R) if asked else []
    if told is None:
        return None
    rest = iter(told)

    def outcome(spec: Spec) -> Union[Got, Refusal]:
        if isinstance(spec, Refusal):
            return spec
        answer = next(rest)
        if "error" in answer:
            return _refusal(answer)
        parts = sent.parts_of(answer["parts"])
        places = {ranks: where for (ranks, _, _), where in zip(parts, answer["where"])}
        return Told(parts, answer["nslots"], places, answer.get("R", {}))

    return [_answer(shape, outcome(spec)) for shape, spec in zip(shapes, specs)]


def spec_of(
    shape: str,
    constraints: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
    duration: float = 0.0,
) -> Spec:
    """The jobspec of a job that asks for RFC 46 *shape*, or why there is none.

    It has RFC 31 *constraints*, treepool *options*, and *duration* as its time limit in seconds.
    """
    try:
        return jobspec.from_resources(parse_shape(shape), duration, constraints, options)
    except InvalidShape as e:
        return Refusal("invalid", e.line, e.caret())
    except InvalidInput as e:
        return Refusal("invalid", str(e))


def allocate_shape(pool: Pool, jobid: int, shape: str) -> Answer:
    """Allocate RFC 46 *shape* as job *jobid*."""
    return allocate(pool, jobid, shape, spec_of(shape))


def allocate(pool: Pool, jobid: int, shape: str, spec: Spec) -> Answer:
    """Allocate *spec* of RFC 46 *shape* as job *jobid*."""
    return _answer(shape, spec if isinstance(spec, Refusal) else _outcome(pool, jobid, spec))


def _answer(shape: str, outcome: Union[Got, Refusal]) -> Answer:
    if isinstance(outcome, Refusal) and outcome.kind == "invalid":
        outcome = attrs.evolve(outcome, message=outcome.message + mistaken(shape))
    return Answer(shape, outcome)


def allocate_jobspec(pool: Pool, jobid: int, spec: object, name: str) -> Answer:
    """Allocate jobspec *spec*, a JSON value, as job *jobid*.

    The answer is labelled with the shape of the jobspec's resources, or with *name* if they have no
    shape.
    """
    if isinstance(spec, str):  # the pool would take it for JSON text
        return Answer(name, Refusal("invalid", "a jobspec is an object, not a string"))
    return Answer(shape_of(spec) or name, _outcome(pool, jobid, spec))


def _outcome(pool: Pool, jobid: int, spec: Any) -> Union[Got, Refusal]:
    try:
        return pool.alloc(jobid, pool.parse_resource_request(spec))
    except (InvalidInput, InfeasibleRequest, InsufficientResources) as e:
        return _refusal(refused(e))


def _refusal(told: Mapping[str, Any]) -> Refusal:
    """The refusal of which a scheduler or an error tells this."""
    reason = {name: told[name] for name in _REASON if name in told}
    return Refusal(told["error"], told["message"], reason=reason)


def shape_of(spec: object) -> Optional[str]:
    """The shape of a jobspec's resources, if they have one."""
    resources = spec.get("resources") if isinstance(spec, dict) else None
    try:
        return format_shape(unlabelled(resources)) if isinstance(resources, list) else None
    except (InvalidInput, AttributeError, TypeError):
        return None


def mistaken(word: str) -> str:
    """What to say of *word*, which was taken for a shape, if one can tell what it is; else ""."""
    if files.is_file(word):
        return " (it is a file: -R, --jobspec and --jobs @FILE read files)"
    if word.count("[") > word.count("]") and ";" not in word:
        return " (a shell ends a command at ';': put the shape in quotes)"
    return ""
