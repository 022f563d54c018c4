"""The picture as an HTML page, one file that loads nothing: its data, limits, security policy.

The page holds the picture as JSON, and a script that draws it: the ``.js`` files and ``page.css``
beside this module. Names are never written as HTML: the JSON in the script element
escapes ``<``, ``>`` and ``&``, and the script only sets text. A security policy in the page lets
the browser run only this script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from html import escape
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from treepool.placement.plan.jobs import FAR
from treepool.rfc import idset
from treepool.rfc.times import clock
from treepool.view import nodewords, words
from treepool.view.areas import Area, maps
from treepool.view.cells import MAX_CELLS, Block, block
from treepool.view.jobs import Job, Running
from treepool.view.model import OTHER
from treepool.view.palette import COLOURS, GREYS, SEVERAL
from treepool.view.picture import Picture, Step
from treepool.view.plot import Plot
from treepool.view.rows import MANY_ROWS, Rows, hosts
from treepool.view.totals import STATES, Totals

#: Most kinds of node whose domains are drawn; further kinds are only counted, listed and filtered.
MAX_TYPES = 64

#: The scripts beside this module, which the page contains as one script.
_SCRIPTS = ("picture.js", "map.js", "page.js")

#: Most domains above the nodes that are drawn.
MAX_AREAS = 4096


def html(
    picture: Picture,
    rows: Rows,
    plot: Optional[Plot] = None,
    image: str = "",
    about: Sequence[str] = (),
    running: Sequence[Running] = (),
    waiting: Sequence[Running] = (),
    again: float = 0,
) -> str:
    """*picture* as the text of an HTML file, and above it *plot*, drawn as an SVG *image*.

    It opens on the nodes of *rows*, if those are not all, at the last step; with a plot at the
    busiest. The reader can fold and filter. The lines of *about* say what is shown. Of the jobs in
    *running* it says whose they are and when they end, of those *waiting* why, and when they start.
    If *again* is not 0, the page loads itself again so many seconds later.
    """
    here = Path(__file__).parent
    style = _style(here.joinpath("page.css").read_text(encoding="utf-8"))
    scripts = [here.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS]
    script = "\n".join(scripts)
    facts = {**_data(picture, rows, plot), **_queue(running, waiting), "again": again}
    data = json.dumps(facts, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    page = here.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "title": escape(f"{words.count(picture.totals.nodes, 'node')}: treepool"),
        "summary": escape(picture.totals.line),
        "about": "".join(f'<p class="quiet">{escape(words.plain(one, 400))}</p>' for one in about),
        "image": _image(image, plot.title) if plot is not None else "",
        "style": style,
        "script": script,
        "data": data,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], page)


def _image(svg: str, title: str) -> str:
    """An element with the picture *svg*, or what is needed to have one."""
    if not svg:
        return '<p class="quiet">A plot needs matplotlib: pip install matplotlib</p>'
    data = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}: use over time">'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _style(text: str) -> str:
    rules = [
        f".c{i} {{ background: {colour}; color: {letter} }}"
        for i, (colour, letter) in enumerate((*COLOURS, *GREYS))
    ]
    # A grey may look like a colour to people without some cones: greys are round.
    greys = range(len(COLOURS), len(COLOURS) + len(GREYS))
    rules += [f".c{i}, .cell.gpu.c{i} {{ border-radius: 50% }}" for i in greys]
    return "\n".join([text, *rules, ""])


def _data(picture: Picture, rows: Rows, plot: Optional[Plot]) -> dict[str, Any]:
    cluster = picture.cluster
    kinds: dict[tuple[Any, ...], int] = {}
    jobs = list(_jobs(picture.jobs, kinds))
    return {
        "several": SEVERAL,
        "manyRows": MANY_ROWS,
        "maxCells": MAX_CELLS,
        "states": STATES,
        "other": OTHER,
        "fields": Totals._fields,
        "ranks": idset.encode_ids(cluster.ranks),
        "hosts": [words.plain(cluster.hosts[rank], 256) for rank in cluster.ranks],
        "properties": [[words.plain(name), count] for name, count in cluster.properties[:32]],
        "types": [_type(picture, i) for i in range(min(len(cluster.types), MAX_TYPES))],
        "moreTypes": max(0, len(cluster.types) - MAX_TYPES),
        "kinds": list(kinds),
        "jobs": jobs,
        "letters": "".join(mark.letter for mark in picture.marks),
        "colours": "".join(f"{mark.colour:x}" for mark in picture.marks),
        "layouts": [
            [
                layout.type,
                layout.status,
                layout.state,
                [[idset.encode(cores), idset.encode(gpus)] for cores, gpus in layout.held],
                "".join(f"{grey:x}" for grey in layout.greys),
            ]
            for layout in picture.layouts
        ],
        "looks": [[look.layout.number, *look.jobs] for look in picture.looks],
        "steps": [_step(step) for step in picture.steps],
        "opens": picture.busiest if plot is not None else len(picture.steps) - 1,
        "plot": None if plot is None else [plot.title, [plot.names, *plot.table]],
        "map": _map(picture),
        "only": None if rows.only is None else idset.encode_ids(rows.only),
    }


def _queue(running: Sequence[Running], waiting: Sequence[Running]) -> dict[str, Any]:
    now = time.time()

    def due(job: Running) -> str:
        return clock(job.due, now) if 0 < job.due < now + FAR else ""

    def text(job: Running) -> list[str]:
        return [words.plain(one, 200) for one in (job.job.name, job.user, job.title)]

    return {
        "owners": {text(job)[0]: [text(job)[1], due(job)] for job in running},
        "waiting": [
            [*text(job), clock(job.since, now), words.plain(job.note, 200), due(job)]
            for job in waiting
        ],
    }


def _map(picture: Picture) -> Optional[list[Any]]:
    """The areas of the map; domains deep down are left out if they are too many."""
    fitting = (root for root in maps(picture) if sum(1 for _ in root.walk()) <= MAX_AREAS)
    return next(map(_mapped, fitting), None)


def _mapped(area: Area) -> list[Any]:
    """Locality, title, the areas inside, and the ranks of a leaf."""
    inside = [_mapped(inner) for inner in area.inside]
    return [area.locality, area.title, inside, idset.encode_ids(area.ranks)]


def _step(step: Step) -> list[Any]:
    moves = [[look, idset.encode_ids(ranks)] for look, ranks in step.moves]
    return [words.plain(step.label, 120), list(step.totals), moves]


def _type(picture: Picture, place: int) -> dict[str, Any]:
    node_type, links = picture.cluster.types[place], picture.cluster.links[place]
    ranks = picture.cluster.ranks_of_type[place]
    known = {
        str(gpu): nodewords.gpu_links(links, gpu)
        for gpu in idset.iterate(node_type.root.gpus)
        if gpu < 1 << 12 and links is not None
    }
    return {
        "nodes": len(ranks),
        "hosts": words.listed(hosts(picture, ranks)),
        "has": nodewords.amounts(node_type.root, node_type.storage),
        "makeup": nodewords.makeup(node_type.root),
        "links": nodewords.links_shown(links),
        "gpuLinks": known,
        "root": _block(block(node_type)),
    }


def _block(here: Block) -> list[Any]:
    """Title, memory, own cores, own GPUs, inner blocks, and the number of those left out."""
    return [
        here.title,
        words.size(here.memory) if here.memory else "",
        idset.encode(here.cores),
        idset.encode(here.gpus),
        [_block(child) for child in here.children],
        here.left_out,
    ]


def _jobs(jobs: Sequence[Job], kinds: dict[tuple[Any, ...], int]) -> Iterator[tuple[str, int]]:
    """The jobs, each as its name and its kind, which is given by its place in *kinds*.

    A kind is (what was asked for, slots, nodes, cores, GPUs).
    """
    for job in jobs:
        asked = words.plain(job.asked, 200)
        alike = asked, job.nslots, len(job.ranks), job.ncores, job.ngpus
        yield words.plain(job.name), kinds.setdefault(alike, len(kinds))
