"""An explanation for a terminal: the order of its parts, how much is listed, what --verbose adds.

The answer comes first: what the job gets, which jobs must end, or what would fit instead. Then come
the nodes that were passed over. The rules, the order of the search and what an idle cluster gives
anyway are for those who ask for it.
"""

from __future__ import annotations

from typing import Callable, Sequence

from rich.text import Text

from treepool.placement.choose.fitness import Fitness
from treepool.placement.nodes.parts import on_hosts
from treepool.placement.nodes.tree import NODE
from treepool.rfc import hostlist, idset
from treepool.view.explain import ALLOCATED, INFEASIBLE, Explanation, Nodes, Taken
from treepool.view.places import Place
from treepool.view.textboxes import NARROWEST, Lines, wrapped
from treepool.view.words import count, listed, plain

#: Most slots of a node, nodes of an allocation and jobs waited for that are listed one by one.
MAX_SLOTS, MAX_TAKEN, MAX_JOBS = 8, 12, 12

#: Columns of a label, including the blanks after it.
_LABEL = 10

_STYLES = {ALLOCATED: "green", INFEASIBLE: "red"}


def text(told: Explanation, width: int, verbose: bool) -> Text:
    """*told* in at most *width* columns (at least NARROWEST)."""
    width = max(width, NARROWEST)
    lines: Lines = []
    shape = plain(told.shape, 400)
    head = Text.assemble((shape, "bold"), ": ", (told.verdict, _STYLES.get(told.verdict, "yellow")))
    if told.reason is not None:
        head.append(f": {plain(told.reason.message, 1000)}")
    lines += wrapped(head, width, 2)
    lines += _parts(told, width, _taken, _idle, _domains, _waits, _near, _passed, _away)
    lines += _parts(told, width, _rules, _rest) if verbose else []
    return Text("\n").join(lines)


def details(told: Explanation, width: int, verbose: bool) -> Text:
    """Which jobs would have to end or what would fit, and why *told* gets nothing; no headline."""
    width = max(width, NARROWEST)
    lines = _parts(told, width, _waits, _near, _passed, _away)
    return Text("\n").join([*lines, *(_parts(told, width, _rules) if verbose else [])])


def _parts(told: Explanation, width: int, *parts: Callable[[Explanation], Lines]) -> Lines:
    lines: Lines = []
    for part in parts:
        found = part(told)
        lines += [Text()] if found else []
        for line in found:
            indent = len(line.plain) - len(line.plain.lstrip()) + 2
            lines += wrapped(line, width, _LABEL if part in (_rules, _away) else indent)
    return lines


def _rules(told: Explanation) -> Lines:
    """What the decision is based on: domains and order."""
    if told.verdict == INFEASIBLE:
        return []
    lines = []
    if told.smallest:
        kinds = " or ".join(plain(kind) for kind in told.smallest)
        offer = f"one {kinds}, the smallest kind of domain that an idle node could offer"
        if told.smallest == (NODE,):
            offer = "one node; no smaller domain could host it"
        larger = "; if none is free, in a larger one"
        if not told.passes:
            larger = "; or in a larger one, as the order says"
        if told.smallest == (NODE,):
            larger = ""
        rule = {
            "preferred": f"each slot in {offer}{larger}",
            "required": f"each slot in {offer}, or the job waits",
            "none": "cores and GPUs from anywhere on a node",
        }[told.locality]
        lines.append(_labelled("locality", f"{told.locality}: {rule}"))
    if not told.down and not told.drained:
        lines.append(_labelled("nodes", count(told.nodes, "node")))
    lines.append(_labelled("order", told.policy))
    return lines


def _away(told: Explanation) -> Lines:
    """Nodes that cannot be had, and why; nothing if all can."""
    away = [
        f"{number:,} {'is' if number == 1 else 'are'} {state}"
        for number, state in ((told.down, "down"), (told.drained, "drained"))
        if number
    ]
    if told.verdict == INFEASIBLE or not away:
        return []
    nodes = f"{count(told.nodes, 'node')}, of which {' and '.join(away)}"
    return [_labelled("nodes", nodes), *(_labelled("drained", one.line) for one in told.drains)]


def _passed(told: Explanation) -> Lines:
    """Nodes passed over, in the order in which they were looked at."""
    if not told.passed:
        return []
    second = ", in both passes: for the smallest domains, then for larger ones"
    lines = [Text(f"passed over, in order{second if told.second_pass else ''}", style="bold")]
    for i, one in enumerate(told.passed, 1):
        lines.append(_nodes(one.nodes, f"{i:3}  "))
        lines.append(Text(f"       {plain(one.why, 1000)}"))
    if told.passed_more:
        lines.append(Text(f"     and {count(told.passed_more, 'more node')}", "dim"))
    return lines


def _domains(told: Explanation) -> Lines:
    """The domains above the nodes that were chosen."""
    if not told.domains:
        return []
    lines = [Text("domains above the nodes", style="bold")]
    lines += [Text(f"     {plain(one, 400)}") for one in told.domains[:MAX_TAKEN]]
    if len(told.domains) > MAX_TAKEN:
        lines.append(Text(f"     and {len(told.domains) - MAX_TAKEN} more", "dim"))
    return lines


def _taken(told: Explanation) -> Lines:
    """Nodes that give something."""
    if not told.taken:
        return []
    head = "taken" if told.verdict == ALLOCATED else "of what is free now it would get"
    lines = [Text(head, style="bold"), *_given(told.taken)]
    slots = sum(one.nslots * len(one.nodes.ranks) for one in told.taken)
    local = sum(one.local * len(one.nodes.ranks) for one in told.taken)
    if any(one.places for one in told.taken):
        where = "in the smallest kind of domain that its node, idle, could offer"
        be = "is" if local in (0, 1, slots) else "are"
        which = "every slot" if local == slots else f"{local:,} of {count(slots, 'slot')}"
        which = "no slot" if not local else which
        tried = "second pass: " if told.second_pass else "first pass: "
        lines.append(Text(f"     {tried if told.passes else ''}{which} {be} {where}"))
    if told.fitness is not None:
        lines.append(Text(f"     fitness {_fitness(told.fitness)}"))
    return lines


def _given(taken: Sequence[Taken]) -> Lines:
    lines = []
    for one in taken[:MAX_TAKEN]:
        lines.append(_nodes([one.nodes], "     "))
        each = " on each" if len(one.nodes.ranks) > 1 else ""
        if one.whole:
            lines.append(Text(f"       the whole node, {count(one.nslots, 'slot')}{each}"))
            continue
        for i, place in enumerate(one.places[:MAX_SLOTS], 1):
            name = f"slot {i}" if len(one.places) > 1 else count(one.nslots, "slot")
            lines.append(Text(f"       {name}{each}: {_place(place)}"))
        if len(one.places) > MAX_SLOTS:
            lines.append(Text(f"       and {len(one.places) - MAX_SLOTS} more slots{each}", "dim"))
    if len(taken) > MAX_TAKEN:
        nodes = sum(len(one.nodes.ranks) for one in taken[MAX_TAKEN:])
        lines.append(Text(f"     and {count(nodes, 'more node')}", "dim"))
    return lines


def _place(place: Place) -> str:
    """Where a slot sits: "numa 0: cores 0-7, GPU 0; 300 GB/s between its GPUs"."""
    found = [_ids("core", place.cores)] + ([_ids("GPU", place.gpus)] if place.gpus else [])
    words = f"{place.domain}: {', '.join(found)}"
    if not place.local:
        words += "; an idle node has a smaller domain for it"
    if place.gbps is not None and place.best is not None:
        words += f"; {place.gbps:g} GB/s between its GPUs"
        if place.best > place.gbps:
            words += f", of {place.best:g} at best"
    if place.spans:
        words += f"; {place.spans} at most {place.apart:g} apart (local is 10)"
        if place.nearest < place.apart:
            words += f", {place.nearest:g} at best"
    return words


def _idle(told: Explanation) -> Lines:
    """What an idle cluster would have given, if not the same."""
    if told.idle is None:
        return []
    return [Text("an idle cluster would have given", style="bold"), *_given(told.idle)]


def _rest(told: Explanation) -> Lines:
    """What went without saying."""
    if not told.taken:
        return []
    lines = []
    if told.unneeded:
        lines.append(Text(f"{count(told.unneeded, 'node')} further on in the order: not needed"))
    if told.idle is None:
        lines.append(Text("an idle cluster would have given the same"))
    return lines


def _fitness(fitness: Fitness) -> str:
    """The fitness of a placement, and its components, each with that of an idle cluster."""
    parts = []
    for name, part in (("memory", "memory"), ("links", "links"), ("nodes", "inter")):
        value, ideal = getattr(fitness, part), getattr(fitness.ideal, part, None)
        if value is not None:
            best = "" if ideal is None or ideal == 1 else f" of {ideal:.2f} at best"
            parts.append(f"{name} {value:.2f}{best}")
    return f"{fitness.total:.2f} of 1 ({', '.join(parts)})"


def _waits(told: Explanation) -> Lines:
    """Which jobs would have to end."""
    if told.waits is None:
        return []
    holders = list(told.waits.holders.values())
    if not holders:
        if told.down or told.drained:
            states = [s for n, s in ((told.down, "down"), (told.drained, "drained")) if n]
            text = f"it waits for nodes that are {' or '.join(states)}"
            return [Text(f"{text}, which must come back first")]
        return [Text("no job shown here holds what it waits for")]
    one = told.waits.one_will_do
    who = "this job ends" if len(holders) == 1 else "one of these ends" if one else "these end"
    lines = [Text(f"there is room for it when {who}", style="bold")]
    for job in holders[:MAX_JOBS]:
        size = count(job.ncores, "core")
        size += f", {count(job.ngpus, 'GPU')}" if job.ngpus else ""
        has = listed(on_hosts(job.parts, told.inventory) if told.inventory else "")
        lines.append(Text(f"     job {plain(job.name)}: {size}: {has}"))
    if len(holders) > MAX_JOBS:
        lines.append(Text(f"     and {count(len(holders) - MAX_JOBS, 'more job')}", "dim"))
    return lines


def _near(told: Explanation) -> Lines:
    """What would fit."""
    if told.verdict != INFEASIBLE:
        return []
    if not told.nearest:
        return [Text("no similar shape was found that this cluster could serve")]
    lines = [Text("what would fit an idle cluster", style="bold")]
    for near in told.nearest:
        line = Text.assemble("     ", (plain(near.shape, 400), "bold"))
        lines.append(line.append(f"   {near.change}"))
    return lines


def _nodes(nodes: Sequence[Nodes], indent: str) -> Text:
    """Which nodes, and what is free on them: "xeon[0-3] (4 nodes): 7 of 120 cores free".

    Ranks are named where a host has several.
    """
    ranks = sorted(rank for one in nodes for rank in one.ranks)
    hosts = listed(hostlist.encode(dict.fromkeys(host for one in nodes for host in one.hosts)))
    which = [f"{len(ranks):,} nodes"] if len(ranks) > 1 else []
    if any(one.several for one in nodes):
        which.append(f"rank{'s' * (len(ranks) > 1)} {listed(idset.encode_ids(ranks))}")
    beside = f" ({', '.join(which)})" if which else ""
    return Text.assemble(indent, (hosts, "bold"), f"{beside}: ").append(_free(nodes))


def _free(nodes: Sequence[Nodes]) -> str:
    if all(one.idle for one in nodes):
        return "idle"
    free = _of([one.cores_free for one in nodes], [one.cores for one in nodes], "core")
    if any(one.gpus for one in nodes):
        free += ", " + _of([one.gpus_free for one in nodes], [one.gpus for one in nodes], "GPU")
    return f"{free} free"


def _of(free: Sequence[int], have: Sequence[int], what: str) -> str:
    """How many of how many: "4 of 8 GPUs", "0 to 4 of 8 GPUs"."""
    least = f"{min(free):,} to " if min(free) < max(free) else ""
    whole = f"{min(have):,} to " if min(have) < max(have) else ""
    return f"{least}{max(free):,} of {whole}{count(max(have), what)}"


def _ids(name: str, mask: int) -> str:
    plural = "s" if mask & (mask - 1) else ""
    return f"{name}{plural} {listed(idset.encode(mask))}" if mask else f"no {name}s"


def _labelled(label: str, words: str) -> Text:
    return Text.assemble((f"{label:<{_LABEL}}", "bold"), words)
