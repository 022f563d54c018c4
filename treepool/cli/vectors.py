"""Test vector files: steps played on one pool, and whether each gives the expected result.

``schemas/testvectors.json`` describes the files. What a step allocates stays allocated in the
following steps, until a step frees it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Iterator, Mapping, Optional

import attrs

from treepool.cli.answers import allocate_jobspec, allocate_shape
from treepool.errors import InvalidKey, InvalidOption, PoolConflict, Problem
from treepool.placement.options import OPTIONS
from treepool.placement.pool import Pool
from treepool.placement.request.job_options import CHECKS
from treepool.rfc import idset
from treepool.rfc.findings import Findings, Reader, Readers
from treepool.rfc.findings import shown as quoted
from treepool.rfc.rset import ResourceSet

#: The JSON pointer to the R of a file's cluster.
_R = "/cluster/R"

_ID = re.compile("[A-Za-z0-9_.-]+")


@attrs.frozen
class Result:
    """The result of one step: the step, what was expected, and what the pool returned.

    ``expected`` and ``got`` are JSON values, None for a step that only has to succeed.
    ``rationale`` is the reason that the file gives for the expectation.
    """

    id: str
    action: str
    passed: bool
    expected: Optional[Mapping[str, Any]] = None
    got: Optional[Mapping[str, Any]] = None
    rationale: str = ""


def problems(document: Any) -> list[Problem]:
    """All problems of a test vector file, by place; none if ``play`` can play it."""
    findings = Findings()
    _Reader(findings).document(document)
    if not len(findings):
        try:
            _pool(document)
        except InvalidOption as e:
            findings.note("/options", str(e))
        except InvalidKey as e:  # a valid key, but for other nodes
            problem = Problem.of(e)
            findings.note(_R + problem.pointer, problem.message)
    return findings.problems()


class _Reader:
    """Checks one file, and records which ids its steps have used so far."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.ids: set[str] = set()

    def document(self, value: object) -> None:
        readers: Readers = {
            "title": self.text,
            "source": self.text,
            "cluster": self.cluster,
            "vectors": lambda v, at: self.findings.items(v, at, self.step, least=1),
            "options": self.pool_options,
        }
        required = ("title", "source", "cluster", "vectors")
        self.findings.members(value, "", readers, required, closed=True)

    def text(self, value: object, at: str) -> str:
        return self.findings.string(value, at, least=1)

    def cluster(self, value: object, at: str) -> None:
        def R(value: object, at: str) -> None:
            if isinstance(value, dict):
                for problem in ResourceSet.problems(value):
                    self.findings.note(at + problem.pointer, problem.message)
            else:
                self.findings.mistyped(at, "an object", value)

        self.findings.members(value, at, {"R": R}, required=("R",), closed=True)

    def pool_options(self, value: object, at: str) -> None:
        readers: Readers = {
            name: self.number(option.most)
            if option.most is not None
            else self.one_of(option.choices)
            if option.choices
            else self.findings.string
            for name, option in OPTIONS.items()
        }
        self.findings.members(value, at, readers, closed=True)

    def one_of(self, choices: tuple[str, ...]) -> Reader[str]:
        """A reader of one of *choices*."""
        return lambda value, at: self.findings.one_of(value, at, choices)

    def number(self, most: float) -> Reader[float]:
        """A reader of numbers from 0 to *most*."""
        return lambda value, at: self.findings.number(value, at, 0, most)

    def step(self, value: object, at: str) -> None:
        """Check a step, which has one of the keys free, down, up, jobspec and shape."""
        readers: Readers = {
            "free": self.earlier_id,
            "down": self.findings.idset,
            "up": self.findings.idset,
            "jobspec": lambda v, at: self.findings.members(v, at, {}),
            "shape": self.findings.string,
        }
        given = value if isinstance(value, dict) else {}
        action = next((name for name in readers if name in given), "shape")
        readers = {action: readers[action], "id": self.new_id, "rationale": self.text}
        required = ["id", action]
        if action in ("jobspec", "shape"):
            readers = {**readers, "options": self.job_options, "expect": self.expectation}
            required += ["expect", "rationale"]
        self.findings.members(value, at, readers, required, closed=True)

    def new_id(self, value: object, at: str) -> None:
        """Check the id of a step, which must differ from all earlier ids."""
        name = self.findings.string(value, at)
        if isinstance(value, str) and not _ID.fullmatch(name):
            self.findings.note(at, f"{quoted(name)} is not the id of a vector")
        elif name in self.ids:
            self.findings.note(at, f"an earlier step has id {name} too")
        self.ids.add(name)

    def earlier_id(self, value: object, at: str) -> None:
        name = self.findings.string(value, at)
        if name not in self.ids:
            self.findings.note(at, f"no earlier step has id {quoted(name)}")

    def job_options(self, value: object, at: str) -> None:
        """Check options of a job. Their values may be invalid, because a vector may test that."""
        self.findings.members(value, at, dict.fromkeys(CHECKS, lambda v, at: v), closed=True)

    def expectation(self, value: object, at: str) -> None:
        if isinstance(value, dict) and "error" in value:
            kinds = ("invalid", "infeasible", "insufficient")
            readers: Readers = {
                "error": lambda v, at: self.findings.one_of(v, at, kinds),
                "message": self.text,
            }
            self.findings.members(value, at, readers, closed=True)
            return
        readers = {
            "R_lite": lambda v, at: self.findings.items(v, at, self.entry, least=1),
            "nslots": lambda v, at: self.findings.integer(v, at, least=1),
        }
        self.findings.members(value, at, readers, required=("R_lite",), closed=True)

    def entry(self, value: object, at: str) -> None:
        """Check an entry of the expected R_lite."""
        ids = self.findings.idset
        resources: Readers = {"core": ids, "gpu": ids}
        readers: Readers = {
            "rank": ids,
            "children": lambda v, at: self.findings.members(v, at, resources, ("core",), True),
        }
        self.findings.members(value, at, readers, required=readers, closed=True)


def play(document: Mapping[str, Any]) -> Iterator[Result]:
    """Play the steps of a file that has no ``problems``, in order."""
    pool = _pool(document)
    jobids: dict[str, int] = {}
    for jobid, step in enumerate(document["vectors"], 1):
        jobids[step["id"]] = jobid
        if "expect" in step:
            yield _ask(pool, jobid, step)
        else:
            yield _act(pool, jobids, step)


def _pool(document: Mapping[str, Any]) -> Pool:
    pool = Pool(document["cluster"]["R"], **document.get("options", {}))
    pool.set_expiration(0.0)  # what vectors expect holds at all times
    return pool


def _ask(pool: Pool, jobid: int, step: Mapping[str, Any]) -> Result:
    """Allocate, and compare the result with the expectation."""
    options = step.get("options")
    if "jobspec" in step:
        answer = allocate_jobspec(pool, jobid, step["jobspec"], "jobspec", options)
    else:
        answer = allocate_shape(pool, jobid, step["shape"], options=options)
    expected, got = step["expect"], answer.facts
    passed = _alike(expected, got)
    return Result(step["id"], answer.shape, passed, expected, got, step["rationale"])


def _act(pool: Pool, jobids: Mapping[str, int], step: Mapping[str, Any]) -> Result:
    """Free a job, or mark ranks up or down."""
    acts: dict[str, Callable[[str], None]] = {
        "free": lambda id: pool.free(jobids[id], final=True),
        "down": pool.mark_down,
        "up": pool.mark_up,
    }
    name = next(name for name in acts if name in step)
    action = f"{name} {step[name]}"
    try:
        acts[name](step[name])
    except PoolConflict:
        got = {"error": f"{step[name]} holds nothing"}
        return Result(step["id"], action, False, {}, got, step.get("rationale", ""))
    return Result(step["id"], action, True)


def _alike(expected: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
    """Whether *got* matches *expected*: "0,1" equals "0-1", and a message may contain more."""
    if "error" in expected:
        message = expected.get("message", "")
        return expected["error"] == got.get("error") and message in got["message"]
    if "R_lite" not in got or expected.get("nslots", got["nslots"]) != got["nslots"]:
        return False
    return _masks(expected["R_lite"]) == _masks(got["R_lite"])


def _masks(R_lite: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [
        (
            idset.decode(entry["rank"]),
            idset.decode(entry["children"]["core"]),
            idset.decode(entry["children"].get("gpu", "")),
        )
        for entry in R_lite
    ]


def shown(value: Optional[Mapping[str, Any]]) -> str:
    """An expectation, or an actual result, on one line."""
    return json.dumps(value) if value else "done"
