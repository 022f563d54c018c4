"""An explanation as the JSON object that ``treepool explain --json`` prints."""

from __future__ import annotations

from typing import Any, Optional

import attrs

from treepool.placement.choose.fitness import Fitness
from treepool.placement.nodes.inventory import Inventory
from treepool.placement.nodes.parts import ranks_in, short_form
from treepool.rfc import hostlist, idset
from treepool.view.explain import Explanation
from treepool.view.jobs import Job
from treepool.view.places import Place
from treepool.view.waiting import Waiting


def facts(told: Explanation) -> dict[str, Any]:
    """*told* as a JSON object: ranks and ids are RFC 22 idsets, hosts RFC 29 hostlists."""
    reason = {} if told.reason is None else told.reason.facts
    found = attrs.asdict(told, filter=_is_told, value_serializer=_value)
    if told.waits is not None and told.inventory is not None:
        jobs = [_job(job, told.inventory) for job in told.waits.holders.values()]
        found["waits"] = {"one_will_do": told.waits.one_will_do, "jobs": jobs}
    return {**found, **reason}


def _is_told(field: Any, value: Any) -> bool:
    """Whether *field* is for programs, too, and has not a form of its own."""
    return field.name not in ("inventory", "several") and not isinstance(value, Waiting)


def _value(one: Any, field: Any, value: Any) -> Any:
    """The JSON form of *value*, which is *field* of *one*; attrs converts what is left as it is."""
    if isinstance(value, Fitness):
        return {**_fitness(value), "ideal": value.ideal and _fitness(value.ideal)}
    name = field.name if field is not None else ""
    if name == "reason":
        return str(value or "")
    if name == "ranks":
        return idset.encode_ids(value)
    if name == "hosts":
        return hostlist.encode(value)
    if isinstance(one, Place) and name in ("cores", "gpus"):
        return idset.encode(value)
    return value


def _fitness(fitness: Fitness) -> dict[str, Optional[float]]:
    return {name: getattr(fitness, name) for name in ("total", "memory", "links", "inter")}


def _job(job: Job, inventory: Inventory) -> dict[str, Any]:
    placed = {"placement": short_form(job.parts), "hosts": inventory.hostlist(ranks_in(job.parts))}
    return {"job": job.name, "cores": job.ncores, "gpus": job.ngpus, **placed}
