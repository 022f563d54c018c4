"""Test vector files: steps played on one pool, and whether each came out as it should.

``schemas/testvectors.json`` describes the files. What a step allocates stays allocated for those
that follow, until a step frees it.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, Mapping, Optional, Union

import attrs

from treepool.cli.answers import Answer, Refusal, allocate_jobspec, allocate_shape
from treepool.errors import InvalidIdset, InvalidKey, InvalidOption, PoolConflict, Problem
from treepool.placement.allocation import Allocation
from treepool.placement.pool import Pool
from treepool.rfc import idset, schema
from treepool.rfc.rset import ResourceSet

#: Where the R of a file's cluster stands.
_R = "/cluster/R"


@attrs.frozen
class Result:
    """One step played: what it was, what was expected, and what came.

    ``expected`` and ``got`` are JSON values, None for a step that just has to work; ``rationale``
    is the file's reason why the expectation is right.
    """

    id: str
    action: str
    passed: bool
    expected: Optional[Mapping[str, Any]] = None
    got: Optional[Mapping[str, Any]] = None
    rationale: str = ""


def problems(document: Any) -> list[Problem]:
    """Everything wrong with a test vector file, by place; none if ``play`` can play it."""
    found = schema.problems(document, "testvectors")
    if found:
        return found
    found = [
        Problem(_R + problem.pointer, problem.message)
        for problem in ResourceSet.problems(document["cluster"]["R"])
    ]
    seen: set[str] = set()
    for i, step in enumerate(document["vectors"]):
        if step["id"] in seen:
            found.append(Problem(f"/vectors/{i}/id", f"an earlier step has id {step['id']} too"))
        freed = step.get("free")
        if freed is not None and freed not in seen:
            found.append(Problem(f"/vectors/{i}/free", f"no earlier step has id {freed}"))
        seen.add(step["id"])
    found += [
        Problem(at, message)
        for at, text in _idsets(document["vectors"])
        if (message := _wrong(text))
    ]
    if not found:
        try:
            _pool(document)
        except InvalidOption as e:
            found.append(Problem("/options", str(e)))
        except InvalidKey as e:  # the key is one, but of no such nodes
            found.append(Problem(f"{_R}/scheduling", str(e)))
    return found


def _idsets(steps: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The idsets of *steps*, each with its place; the schema knows but their characters."""
    for i, step in enumerate(steps):
        for name in ("up", "down"):
            if step.get(name, "all") != "all":
                yield f"/vectors/{i}/{name}", step[name]
        for j, entry in enumerate(step.get("expect", {}).get("R_lite", ())):
            at = f"/vectors/{i}/expect/R_lite/{j}"
            yield f"{at}/rank", entry["rank"]
            for kind, ids in entry["children"].items():
                yield f"{at}/children/{kind}", ids


def _wrong(text: str) -> str:
    """What is wrong with idset *text*, "" if nothing is."""
    try:
        idset.decode(text)
    except InvalidIdset as e:
        return str(e)
    return ""


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
    return Pool(document["cluster"]["R"], **document.get("options", {}))


def _ask(pool: Pool, jobid: int, step: Mapping[str, Any]) -> Result:
    """Allocate, and compare with what is expected."""
    options = step.get("options")
    if "jobspec" in step:
        answer = allocate_jobspec(pool, jobid, step["jobspec"], "jobspec", options)
    else:
        answer = allocate_shape(pool, jobid, step["shape"], options=options)
    expected, got = step["expect"], _json(answer)
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


def _json(answer: Answer) -> dict[str, Any]:
    """An answer in the form of a vector's ``expect``."""
    outcome: Union[Allocation, Refusal] = answer.outcome
    if isinstance(outcome, Refusal):
        return {"error": outcome.kind, "message": outcome.message}
    return {"R_lite": outcome.to_dict()["execution"]["R_lite"], "nslots": outcome.nslots}


def _alike(expected: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
    """Whether *got* is as *expected*: "0,1" is as good as "0-1", and a message may say more."""
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
    """An expectation, or what came instead, on one line."""
    return json.dumps(value) if value else "done"
