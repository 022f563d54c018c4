"""The facts that ``treepool show --json`` prints of a picture, by kind; see schemas/output.json."""

from __future__ import annotations

from typing import Any, Iterator

import attrs

from treepool.rfc import idset
from treepool.view import nodewords
from treepool.view.areas import areas, domain_lines
from treepool.view.picture import Picture
from treepool.view.rows import Rows, hosts, jobs_of


def facts(picture: Picture, rows: Rows) -> Iterator[dict[str, Any]]:
    """The cluster, its kinds of node and domains; the jobs and nodes, those of ``rows.only``.

    Nodes on which the same jobs hold the same ids are one fact.
    """
    totals, cluster = picture.totals, picture.cluster
    yield {
        "kind": "cluster",
        "nodes": totals.nodes,
        "states": dict(totals.states),
        "properties": dict(cluster.properties),
        "cores": {"total": totals.cores, "free": totals.cores_free, "used": totals.cores_used},
        "gpus": {
            "total": totals.gpus,
            "free": totals.gpus_free,
            "used": totals.gpus_used,
            "stranded": totals.gpus_stranded,
        },
    }
    for number, (node_type, ranks) in enumerate(zip(cluster.types, cluster.ranks_of_type), 1):
        yield {
            "kind": "type",
            "type": number,
            **_where(picture, ranks),
            "cores": node_type.root.ncores,
            "gpus": idset.size(node_type.root.gpus),
            "memory": node_type.root.memory,
            "storage": node_type.storage,
            "makeup": nodewords.makeup(node_type.root),
        }
    whole = areas(picture)
    for line in domain_lines(whole) if whole is not None else ():
        yield {"kind": "domain", **attrs.asdict(line)}
    for number in jobs_of(picture, rows.only):
        job = picture.jobs[number]
        yield {
            "kind": "job",
            "job": job.name,
            "asked": job.asked,
            "slots": job.nslots,
            **_where(picture, picture.known(job.ranks)),
            "cores": job.ncores,
            "gpus": job.ngpus,
        }
    shown = cluster.ranks if rows.only is None else picture.known(rows.only)
    for place, ranks_here in picture.by_look(shown).items():
        look = picture.looks[place]
        yield {
            "kind": "nodes",
            **_where(picture, ranks_here),
            "type": look.layout.type + 1,
            "state": look.layout.state,
            "jobs": [
                {"job": picture.jobs[j].name, "cores": idset.encode(c), "gpus": idset.encode(g)}
                for j, (c, g) in zip(look.jobs, look.layout.held)
            ],
        }


def _where(picture: Picture, ranks: Any) -> dict[str, Any]:
    return {"ranks": idset.encode_ids(ranks), "hosts": hosts(picture, ranks)}
