"""A pool's answer to a shape or a jobspec: allocation or refusal, its JSON, hints at mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

import attrs

from treepool.cli import files
from treepool.cli.screen import shortened
from treepool.errors import (
    InfeasibleRequest,
    InsufficientResources,
    InvalidInput,
    InvalidShape,
    Reason,
)
from treepool.rfc import jobspec
from treepool.rfc.shape import format_shape, parse_shape, unlabelled

if TYPE_CHECKING:
    from treepool.placement.allocation import Allocation
    from treepool.placement.pool import Pool


@attrs.frozen
class Refusal:
    """A refusal: ``kind`` is invalid, infeasible or insufficient, ``message`` says why.

    ``message`` is one line. ``caret`` shows the place of a syntax error in a shape, in two lines.
    ``reason`` is why a request that is valid was refused.
    """

    kind: str
    message: str
    caret: str = ""
    reason: Optional[Reason] = None


@attrs.frozen
class Answer:
    """What was asked for, as a shape, and the result."""

    shape: str
    outcome: Union[Allocation, Refusal]

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
            reason = self.outcome.reason.facts if self.outcome.reason is not None else {}
            return {"error": self.outcome.kind, "message": self.outcome.message, **reason}
        R_lite = self.outcome.to_dict()["execution"]["R_lite"]
        return {"R_lite": R_lite, "nslots": self.outcome.nslots}


def allocate_shape(
    pool: Pool,
    jobid: int,
    shape: str,
    constraints: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
    duration: float = 0.0,
) -> Answer:
    """Allocate RFC 46 *shape* as job *jobid*, with RFC 31 *constraints* and treepool *options*.

    *duration* is its time limit in seconds.
    """

    def spec() -> dict[str, Any]:
        return jobspec.from_resources(parse_shape(shape), duration, constraints, options)

    outcome = _outcome(pool, jobid, spec)
    if isinstance(outcome, Refusal) and outcome.kind == "invalid":
        outcome = attrs.evolve(outcome, message=outcome.message + mistaken(shape))
    return Answer(shape, outcome)


def allocate_jobspec(
    pool: Pool,
    jobid: int,
    spec: object,
    name: str,
    options: Optional[Mapping[str, Any]] = None,
) -> Answer:
    """Allocate jobspec *spec*, a JSON value, as job *jobid*.

    *options* override the jobspec's own. The answer is labelled with the shape of the jobspec's
    resources, or with *name* if they have no shape.
    """
    if isinstance(spec, str):  # the pool would take it for JSON text
        return Answer(name, Refusal("invalid", "a jobspec is an object, not a string"))
    if options:
        spec = with_options(spec, options)
    return Answer(shape_of(spec) or name, _outcome(pool, jobid, lambda: spec))


def _outcome(pool: Pool, jobid: int, spec: Callable[[], Any]) -> Union[Allocation, Refusal]:
    try:
        return pool.alloc(jobid, pool.parse_resource_request(spec()))
    except InvalidShape as e:
        return Refusal("invalid", e.line, e.caret())
    except InvalidInput as e:
        return Refusal("invalid", str(e))
    except InfeasibleRequest as e:
        return Refusal("infeasible", str(e), reason=e.reason)
    except InsufficientResources as e:
        return Refusal("insufficient", str(e), reason=e.reason)


def shape_of(spec: object) -> Optional[str]:
    """The shape of a jobspec's resources, if they have one."""
    resources = spec.get("resources") if isinstance(spec, dict) else None
    try:
        return format_shape(unlabelled(resources)) if isinstance(resources, list) else None
    except (InvalidInput, AttributeError, TypeError):
        return None


def with_options(spec: Any, options: Mapping[str, Any]) -> Any:
    """A copy of *spec* with *options* in ``attributes.system.treepool``.

    If a value on that path is not an object, it stays as it is, and the pool reports the error.
    """
    path = ("attributes", "system", "treepool")
    objects = [spec]
    for key in path:
        objects.append(objects[-1].get(key, {}) if isinstance(objects[-1], dict) else None)
    if not all(isinstance(value, dict) for value in objects):
        return spec
    changed = {**objects.pop(), **options}
    for key in reversed(path):
        changed = {**objects.pop(), key: changed}
    return changed


def mistaken(word: str) -> str:
    """What to say of *word*, which was taken for a shape, if one can tell what it is; else ""."""
    if files.is_file(word):
        return " (it is a file: -R, --jobspec and --jobs @FILE read files)"
    if word.count("[") > word.count("]") and ";" not in word:
        return " (a shell ends a command at ';': put the shape in quotes)"
    return ""
