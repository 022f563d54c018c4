"""Advice for a terminal: headings and columns of its tables, for nodes, slots and other shapes."""

from __future__ import annotations

from typing import Sequence

from rich.text import Text

from treepool.placement.nodes.tree import NODE
from treepool.rfc import hostlist, idset
from treepool.view.advise import Advice, Filled, Level
from treepool.view.table import GAP, lines, text_of
from treepool.view.textboxes import NARROWEST, Lines, cut, wrapped
from treepool.view.words import count, listed, plain, size

_Row = Sequence[str]

#: The least width of a column: six of them fit into NARROWEST.
_LEAST = 4


def text(advice: Sequence[Advice], left_out: int, width: int) -> Text:
    """*advice* in at most *width* columns (at least NARROWEST); *left_out* types have none."""
    width = max(width, NARROWEST)
    lines: Lines = [] if advice else [Text("no nodes")]
    for i, one in enumerate(advice):
        lines += [Text()] if i else []
        lines += _advice(one, width)
    if left_out:
        lines += [Text(), Text(f"and {count(left_out, 'more kind')} of node", style="dim")]
    return Text("\n").join(lines)


def _advice(advice: Advice, width: int) -> Lines:
    hosts = listed(hostlist.encode(list(advice.hosts)))
    ranks = listed(idset.encode_ids(advice.ranks))
    word = "rank" if len(advice.ranks) == 1 else "ranks"
    head = Text.assemble((count(len(advice.ranks), "node"), "bold"), f" {hosts} ({word} {ranks})")
    lines = [*wrapped(head, width, 2), Text(), *_geometry(advice.levels, width)]
    kinds = [level.name for level in advice.levels][::-1]
    if advice.tiling:
        lines += [Text(), Text("slots that fill a node and leave nothing", style="bold")]
        lines += _slots(advice.tiling, kinds, width, left=False)
    if advice.nearly:
        lines += [Text(), Text("a GPU and its share of the cores", style="bold")]
        lines += _slots(advice.nearly, kinds, width, left=True)
    if advice.common:
        lines += [Text(), Text("other shapes, as many as fit", style="bold")]
        lines += _common(advice.common, advice.levels[0], width)
    return lines


def _geometry(levels: Sequence[Level], width: int) -> Lines:
    """A line for each locality: how many domains there are, and what each has."""
    rows = []
    for level in levels:
        has = [_between(level.cores, "core")]
        if level.gpus[1]:
            has.append(_between(level.gpus, "GPU"))
            if (
                level.gpus[0]
                and level.cores[0] == level.cores[1]
                and level.gpus[0] == level.gpus[1]
            ):
                has.append(f"{level.cores[0] / level.gpus[0]:.4g} cores per GPU")
        if level.memory[1]:
            low, high = level.memory
            has.append(size(high) if low == high else f"{size(low)} to {size(high)}")
        number = "" if level.name == NODE else f"{level.number:,} of"
        rows.append((plain(level.name), number, ", ".join(has)))
    return _table(rows, "lrl", width)


def _between(amount: tuple[int, int], what: str) -> str:
    least, most = amount
    return count(most, what) if least == most else f"{least:,} to {count(most, what)}"


def _slots(filled: Sequence[Filled], kinds: Sequence[str], width: int, left: bool) -> Lines:
    """A line for each shape: how many slots each domain holds, the memory of one, what is left."""
    memory = any(one.memory for one in filled)
    head = ["slot", *(f"per {plain(kind, 20)}" for kind in kinds)]
    head += ["memory"] if memory else []
    head += ["cores left", "GPUs left"] if left else []
    rows = []
    for one in filled:
        row = [_slot(one.shape), *(_held(held) for held in reversed(one.inside))]
        row += [size(_rounded(one.memory))] if memory else []
        row += [str(one.cores_left), str(one.gpus_left)] if left else []
        rows.append(row)
    return _table([head, *rows], "l" + "r" * (len(head) - 1), width)


def _common(filled: Sequence[Filled], node: Level, width: int) -> Lines:
    """A line for each shape: the slots on a node, how many are local, what is left.

    And how many GPUs one of them *strands*: the jobs to come cannot use them any more.
    """
    gpus = node.gpus[1] > 0
    rows = [
        ["shape", "slots", "local", "cores left", *(["GPUs left", "each strands"] if gpus else [])]
    ]
    for one in filled:
        if not one.reason:
            left = [_of(one.cores_left, node.cores[1])]
            if gpus:
                strands = f"{one.stranded:.2f} GPUs" if one.stranded >= 0.005 else "-"
                left += [_of(one.gpus_left, node.gpus[1]), strands]
            rows.append([_slot(one.shape), f"{one.slots:,}", f"{one.local:,}", *left])
    lines = _table(rows, "l" + "r" * (len(rows[0]) - 1), width) if len(rows) > 1 else []
    for one in filled:
        if one.reason:
            lines += wrapped(Text(f"  {_slot(one.shape)}: {plain(one.reason, 1000)}"), width, 4)
    return lines


def _slot(shape: str) -> str:
    """A shape without the prefix that all such shapes share."""
    return plain(shape[len("slot=1/") :] if shape.startswith("slot=1/[") else shape, 60)


def _held(held: tuple[int, int]) -> str:
    least, most = held
    if not most:
        return "-"
    return f"{most:,}" if least == most else f"{least:,}-{most:,}"


def _of(left: int, whole: int) -> str:
    return f"{left:,} ({100 * left / whole:.0f} %)" if left else "0"


def _rounded(amount: int) -> int:
    """An amount of memory in whole GiB, unless it is smaller."""
    return amount >> 30 << 30 or amount


def _table(rows: Sequence[_Row], align: str, width: int) -> Lines:
    """*rows* in columns, aligned by *align* ("l" or "r" each), indented."""
    found = lines((), rows, width - GAP, align, _LEAST)
    return [cut(Text(" " * GAP + text_of(line)), width) for line in found]
