"""Test vector files: their form, how steps are played, and when one passes, or is not judged.

``schemas/testvectors.json`` describes the files. What a step allocates stays allocated in the
following steps, until a step frees it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.cli.answers import shape_of
from treepool.cli.implementations import FEATURES, FORMAT, Implementation, Own
from treepool.cli.requested import Asked
from treepool.errors import InvalidInput, InvalidOption, Problem
from treepool.placement.options import OPTIONS
from treepool.placement.pool import Pool
from treepool.placement.request.job_options import CHECKS
from treepool.rfc import hostlist, idset, jobspec
from treepool.rfc.findings import Findings, Reader, Readers
from treepool.rfc.findings import shown as quoted
from treepool.rfc.links import digest
from treepool.rfc.rset import ResourceSet, RLiteEntry, subinstance
from treepool.rfc.scheduling import KeyEntry
from treepool.rfc.shape import parse_shape
from treepool.rfc.topo import read

#: The JSON pointer to the R of a file's cluster.
_R = "/cluster/R"

_ID = re.compile("[A-Za-z0-9_.-]+")


@attrs.frozen
class Result:
    """The result of one step: the step, what was expected, and what the pool returned.

    ``expected`` and ``got`` are JSON values. A step that is not ``judged`` neither passed nor
    failed. ``rationale`` is the reason that the file gives for the expectation.
    """

    id: str
    action: str
    passed: bool
    expected: Mapping[str, Any]
    got: Optional[Mapping[str, Any]] = None
    rationale: str = ""
    judged: bool = True


def problems(document: Any) -> list[Problem]:
    """All problems of a test vector file, by place; none if ``play`` can play it."""
    findings = Findings()
    _Reader(findings).document(document)
    if not len(findings):
        try:
            Pool(document["cluster"]["R"], **document.get("options", {}))
        except InvalidOption as e:
            findings.note("/options", str(e))
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
            "format": self.one_of((FORMAT,)),
            "features": lambda v, at: self.findings.items(v, at, self.one_of(FEATURES)),
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

    def one_of(self, choices: tuple[Any, ...]) -> Reader[Any]:
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
        """Check what is expected: an error, one of several, a property, or an R_lite."""
        kinds = ("invalid", "infeasible", "insufficient")
        forms: dict[str, Readers] = {
            "error": {
                "error": lambda v, at: self.findings.one_of(v, at, kinds),
                "message": self.text,
            },
            "any_of": {
                "any_of": lambda v, at: self.findings.items(v, at, self.expectation, least=1)
            },
            "slots": {"slots": self.slots},
            "R_lite": {
                "R_lite": lambda v, at: self.findings.items(v, at, self.entry, least=1),
                "nslots": lambda v, at: self.findings.integer(v, at, least=1),
                "nodelist": lambda v, at: self.findings.items(v, at, self.text, least=1),
                "key": lambda v, at: self.findings.items(v, at, lambda v, at: v),
                "subinstance": lambda v, at: self.findings.items(v, at, self.entry, least=1),
            },
        }
        given = value if isinstance(value, dict) else {}
        form = next((name for name in forms if name in given), "R_lite")
        self.findings.members(value, at, forms[form], required=(form,), closed=True)

    def slots(self, value: object, at: str) -> None:
        """Check a property: so many slots, each in one domain of a locality."""
        readers: Readers = {
            "number": lambda v, at: self.findings.integer(v, at, least=1),
            "core": self.findings.integer,
            "gpu": self.findings.integer,
            "in": self.text,
        }
        self.findings.members(value, at, readers, ("number", "in"), closed=True)

    def entry(self, value: object, at: str) -> None:
        """Check an entry of the expected R_lite."""
        ids = self.findings.idset
        resources: Readers = {"core": ids, "gpu": ids}
        readers: Readers = {
            "rank": ids,
            "children": lambda v, at: self.findings.members(v, at, resources, ("core",), True),
        }
        self.findings.members(value, at, readers, required=readers, closed=True)


def play(
    document: Mapping[str, Any], implementation: Optional[Implementation] = None
) -> Iterator[Result]:
    """Play the steps of a file that has no ``problems``, in order, on treepool's pool or another.

    There is a result for each step that expects something. After a step that differs, or that it
    does not support, what was expected is told to the implementation; where that cannot be, or
    after it failed, the rest is not judged.
    """
    pool = Own() if implementation is None else implementation
    cluster = document["cluster"]["R"]
    refused = pool.ask({"op": "pool", "R": cluster, "options": document.get("options", {})})
    # Why the pool does not hold what the file expects so far.
    lost: Optional[Mapping[str, Any]] = None
    if refused.get("error") == "unsupported":
        lost = refused
    nodes = ResourceSet.read(cluster)
    host_of = dict(zip(nodes.ranks, nodes.hosts))
    jobids: dict[str, int] = {}
    for jobid, step in enumerate(document["vectors"], 1):
        jobids[step["id"]] = jobid
        expected = step.get("expect")
        message = _act(jobids, step) if expected is None else _message(jobid, step)
        skipped = Result(step["id"], _action(step), False, expected or {}, judged=False)
        bad_shape = expected is not None and "jobspec" not in message
        if lost is not None or (bad_shape and "shapes" not in pool.features):
            if expected is not None:
                yield attrs.evolve(skipped, got=lost)
            continue
        if expected is None and "error" in refused:
            continue
        got = refused if "error" in refused else pool.ask(message)
        if expected is None:
            passed = "error" not in got
        else:
            passed = _meets(expected, got, cluster, pool.name == Own.name)
        if got.get("error") == "unsupported":
            if expected is not None:
                yield attrs.evolve(skipped, got=got)
        elif expected is not None or not passed:
            because = step.get("rationale", "")
            yield attrs.evolve(
                skipped, passed=passed, got=_facts(got), rationale=because, judged=True
            )
        if not passed and refused.get("error") in (None, "broken"):
            lost = _lost(pool, jobid, expected, got, host_of)


def _message(jobid: int, step: Mapping[str, Any]) -> dict[str, Any]:
    """The message for a step that allocates: the jobspec, and the shape if the step has one.

    The options of the step are in the jobspec, too.
    """
    message: dict[str, Any] = {"op": "alloc", "id": jobid}
    options = step.get("options")
    if options:
        message["options"] = options
    if "jobspec" in step:
        return {**message, "jobspec": Asked(options=options).into(step["jobspec"])}
    message["shape"] = step["shape"]
    try:
        resources = parse_shape(step["shape"])
        return {**message, "jobspec": jobspec.from_resources(resources, options=options)}
    except InvalidInput:
        return message


#: The steps that expect nothing.
_ACTS = ("free", "down", "up")


def _action(step: Mapping[str, Any]) -> str:
    if "shape" in step:
        return str(step["shape"])
    if "jobspec" in step:
        return shape_of(step["jobspec"]) or "jobspec"
    return next(f"{name} {step[name]}" for name in _ACTS if name in step)


def _act(jobids: Mapping[str, int], step: Mapping[str, Any]) -> dict[str, Any]:
    """The message for a step that frees a job, or marks ranks up or down."""
    name = next(name for name in _ACTS if name in step)
    what = {"id": jobids[step[name]]} if name == "free" else {"ranks": step[name]}
    return {"op": name, **what}


def _lost(
    pool: Implementation,
    jobid: int,
    expected: Optional[Mapping[str, Any]],
    got: Mapping[str, Any],
    host_of: Mapping[int, str],
) -> Optional[Mapping[str, Any]]:
    """Let job *jobid*, which *got* something else, hold what is expected; why not, or None."""
    error = got.get("error")
    if expected is None or error == "broken":
        return got
    if "R" in got or error == "malformed":  # after a malformed answer the job may hold something
        freed = pool.ask({"op": "free", "id": jobid})
        if "error" in freed and (error != "malformed" or freed["error"] == "broken"):
            return freed
    if "error" in expected:
        return None
    entries = _entries(expected.get("R_lite", ()))
    ranks = sorted(_resources(entries))
    if not ranks or any(rank not in host_of for rank in ranks):
        return {"error": "unknown", "message": "what a job should hold cannot be told"}
    R = ResourceSet(tuple(entries), tuple(host_of[rank] for rank in ranks)).to_dict()
    answer = pool.ask({"op": "register", "id": jobid, "R": R})
    return answer if "error" in answer else None


def _facts(got: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as results show it."""
    if "R" not in got:
        return dict(got)
    execution = got["R"].get("execution", {}) if isinstance(got["R"], dict) else {}
    return {name: execution[name] for name in ("R_lite", "nslots") if name in execution}


def _meets(expected: Mapping[str, Any], got: Mapping[str, Any], R: Any, ours: bool) -> bool:
    """Whether the answer *got* is what is *expected*; messages are compared if they are *ours*."""
    if "error" in expected:
        message = str(got.get("message", "")) if ours else expected.get("message", "")
        return expected["error"] == got.get("error") and expected.get("message", "") in message
    if "any_of" in expected:
        return any(_meets(one, got, R, ours) for one in expected["any_of"])
    try:
        execution = got["R"]["execution"]
        has = _resources(_entries(execution["R_lite"]))
    except (KeyError, TypeError, AttributeError, InvalidInput):
        return False
    if "slots" in expected:
        return _sit(expected["slots"], has, ResourceSet.read(R))
    nslots = execution.get("nslots")
    if "nslots" in expected and nslots not in (None, expected["nslots"]):
        return False
    return _resources(_entries(expected["R_lite"])) == has and _tells(expected, got["R"])


def _tells(expected: Mapping[str, Any], R: Any) -> bool:
    """Whether *R* has the node names and the key, and makes the sub-instance, that are expected."""
    if not {"nodelist", "key", "subinstance"} & expected.keys():
        return True
    try:
        whole, inner = ResourceSet.read(R), ResourceSet.read(subinstance(R))
    except InvalidInput:
        return False
    hosts = [host for text in expected.get("nodelist", ()) for host in hostlist.decode(text)]
    within = _resources(_entries(expected.get("subinstance", ())))
    return (
        ("nodelist" not in expected or list(whole.hosts) == hosts)
        and ("key" not in expected or expected["key"] == _key_of(whole))
        and ("subinstance" not in expected or within == _resources(inner.entries))
    )


def _key_of(R: ResourceSet) -> Any:
    """The entries of an R's key, without what treepool adds to RFC 49."""
    key = R.key()
    found: dict[str, KeyEntry] = {}
    for entry in key.children if key is not None else ():
        kind = digest(entry.topo)  # entries of one topo may differ in what treepool adds
        ranks = entry.ranks | (found[kind].ranks if kind in found else 0)
        found[kind] = attrs.evolve(entry, ranks=ranks, allocated=None)
    return None if key is None else [entry.to_dict() for entry in found.values()]


def _entries(R_lite: Sequence[Mapping[str, Any]]) -> list[RLiteEntry]:
    ids = idset.decode
    return [
        RLiteEntry(
            ids(entry["rank"]),
            ids(entry["children"]["core"]),
            ids(entry["children"].get("gpu", "")),
        )
        for entry in R_lite
    ]


def _resources(entries: Iterable[RLiteEntry]) -> dict[int, tuple[int, int]]:
    """The cores and GPUs of each rank: how entries are grouped and ordered means nothing."""
    return {rank: (e.cores, e.gpus) for e in entries for rank in idset.iterate(e.ranks)}


def _sit(
    slots: Mapping[str, Any], has: Mapping[int, tuple[int, int]], cluster: ResourceSet
) -> bool:
    """Whether *has* is so many slots of the *cluster*, each in one domain of a locality."""
    cores, gpus, number = slots.get("core", 0), slots.get("gpu", 0), slots["number"]
    key, wanted = cluster.key(), slots["in"]
    found = total_cores = total_gpus = 0
    for rank, (has_cores, has_gpus) in has.items():
        total_cores += idset.size(has_cores)
        total_gpus += idset.size(has_gpus)
        entry = next((e for e in key.children if e.ranks >> rank & 1), None) if key else None
        domains = [d for d in read(entry.topo).walk() if d.locality == wanted] if entry else []
        for domain in domains:
            rooms = [idset.size(has_cores & domain.cores) // cores] if cores else []
            rooms += [idset.size(has_gpus & domain.gpus) // gpus] if gpus else []
            found += min(rooms, default=0)
    return (found, total_cores, total_gpus) == (number, number * cores, number * gpus)


def shown(value: Optional[Mapping[str, Any]]) -> str:
    """An expectation, or an actual result, on one line."""
    return json.dumps(value) if value else "done"
