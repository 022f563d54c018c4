"""The picture for a terminal: the order of its parts, how many jobs and kinds of node, its bars.

Each core and each GPU is one character: the letter of the job that has it, in the job's colour; a
dot if it is free; an x on a node that is down or drained. No information is in the colour alone.
"""

from __future__ import annotations

from typing import Sequence

from rich.text import Text

from treepool.view import nodewords, words
from treepool.view.palette import AWAY, FREE
from treepool.view.picture import Picture
from treepool.view.rows import Rows, hosts, jobs_of
from treepool.view.textboxes import NARROWEST, Lines, columns, cut, padded, side_by_side, wrapped
from treepool.view.textmap import TextMap
from treepool.view.textnode import STATE_STYLES, NodeBoxes, mark_style, uniform
from treepool.view.totals import Amount

#: Smallest width of a node's box when boxes stand side by side.
NODE_WIDTH = 76

#: Most kinds of node, jobs and properties listed, and lines about the links of a kind of node.
MOST_TYPES, MOST_JOBS, MOST_PROPERTIES, MOST_LINKS = 12, 20, 12, 6

#: Replacements for characters that an ASCII terminal does not have: of frames, bars and lists.
_ASCII = str.maketrans("╭╮╰╯─│█▒·…" + nodewords.TIMES, "++++-|#~.~x")

#: The fewest columns in which the hosts of a job are listed.
_LEAST_HOSTS = 8

#: A bar's least and greatest width, and the blanks before it.
_BAR, _LONGEST_BAR, _BEFORE = 12, 60, 3


def text(picture: Picture, rows: Rows, width: int, ascii_only: bool = False) -> Text:
    """*picture*, with its nodes as *rows*, in at most *width* columns (at least NARROWEST)."""
    if not picture.totals.nodes:
        return Text(picture.totals.line)
    width = max(width, NARROWEST)
    boxes = NodeBoxes(picture)
    lines = [*_numbers(picture, width), Text()]
    if rows.only is None:
        drawn = TextMap(picture, width).lines()
        lines += [*drawn, Text()] if drawn else []
    lines += _types(picture, width)
    jobs = jobs_of(picture, rows.only)
    if jobs:
        lines += [Text(), *_jobs(picture, jobs, width)]
    lines += [Text(), *_nodes(boxes, rows, width)]
    lines = [cut(line, width) for line in lines]
    if ascii_only:
        for line in lines:
            line.plain = line.plain.translate(_ASCII)
    return Text("\n").join(lines)


def _numbers(picture: Picture, width: int) -> Lines:
    """The nodes by state, cores and GPUs with a bar each, and the properties."""
    totals = picture.totals
    nodes = Text.assemble(("nodes  ", "bold"), f"{totals.nodes:,}: ")
    for i, (state, number) in enumerate(totals.states):
        nodes.append(", " if i else "").append(f"{number:,} {state}", STATE_STYLES[state])
    lines = [_amount(amount) for amount in totals.amounts]
    longest = max(line.cell_len for line in lines)
    room = min(width - longest - _BEFORE, _LONGEST_BAR)
    for line, amount in zip(lines, totals.amounts):
        if room >= _BAR:
            line.append(" " * (longest - line.cell_len + _BEFORE))
            line.append_text(_bar(amount, room))
    properties = picture.cluster.properties
    if properties:
        named = [f"{words.plain(name)} ({count:,})" for name, count in properties[:MOST_PROPERTIES]]
        more = ", …" if len(properties) > MOST_PROPERTIES else ""
        lines += wrapped(Text(f"properties  {', '.join(named)}{more}"), width, 12)
    return [nodes, *lines]


def _amount(amount: Amount) -> Text:
    line = Text.assemble((f"{amount.name:5}  ", "bold"), f"{amount.total:,}: ")
    line.append(f"{amount.free:,} free").append(f", {amount.used:,} used")
    if amount.away:
        line.append(f", {amount.away:,} out of service", "red")
    if amount.name == "GPUs":
        line.append(f"; {amount.stranded:,} stranded", "yellow" if amount.stranded else "")
    return line


def _bar(amount: Amount, width: int) -> Text:
    """Used, stranded, free and out of service as parts of a bar."""
    usable = amount.free - amount.stranded
    parts = (amount.used, amount.stranded, usable, amount.away)
    bar = Text()
    done = seen = 0
    for sign, style, part in zip("█▒·x", ("blue", "yellow", "dim", "red"), parts):
        seen += part
        upto = max(done, round(width * seen / amount.total) if amount.total else 0)
        if part and upto == done:
            upto = min(done + 1, width)  # a small amount is still visible
        bar.append(sign * (upto - done), style)
        done = upto
    return bar


def _types(picture: Picture, width: int) -> Lines:
    """Every kind of node: its number and hosts, what it has, how it is divided, its links."""
    cluster = picture.cluster
    lines: Lines = [Text("node types", "bold")]
    for i, node_type in enumerate(cluster.types[:MOST_TYPES]):
        ranks = cluster.ranks_of_type[i]
        line = Text.assemble((f"{i + 1:3}  ", "bold"), words.count(len(ranks), "node"), "  ")
        room = max(16, width - line.cell_len)
        lines.append(line.append(words.listed(hosts(picture, ranks), room)))
        makeup = nodewords.makeup(node_type.root)
        divided = f": {makeup}" if makeup else ", not divided"
        has = Text(f"     {nodewords.amounts(node_type.root, node_type.storage)}{divided}")
        lines += wrapped(has, width, 7)
        known = nodewords.links_shown(cluster.links[i])
        if len(known) > MOST_LINKS:
            known[MOST_LINKS:] = [f"and {words.count(len(known) - MOST_LINKS, 'more line')}"]
        for one in known:
            lines += wrapped(Text(f"     {one}", "dim"), width, 7)
    left_out = len(cluster.types) - MOST_TYPES
    if left_out > 0:
        nodes = sum(len(ranks) for ranks in cluster.ranks_of_type[MOST_TYPES:])
        more = f"     and {words.count(left_out, 'more type')} with {words.count(nodes, 'node')}"
        lines.append(Text(more, "dim"))
    return lines


def _jobs(picture: Picture, jobs: Sequence[int], width: int) -> Lines:
    """A line for each of *jobs*: its letter, what it asked for, what it has and where."""
    lines: Lines = [Text("jobs", "bold")]
    listed = [picture.jobs[number] for number in jobs[:MOST_JOBS]]
    names = max(len(words.plain(job.name, 16)) for job in listed)
    shapes = [Text(words.plain(job.asked)) for job in listed]
    asked = min(max(shape.cell_len for shape in shapes), max(16, width // 2 - 10))
    for number, job, shape in zip(jobs, listed, shapes):
        mark = picture.marks[number]
        line = Text.assemble("  ", (mark.letter, mark_style(mark)), "  ")
        line.append(f"{words.plain(job.name, 16):>{names}}  ")
        line.append_text(padded(shape, asked)).append("  ")
        line.append(words.count(job.ncores, "core"))
        line.append(f", {words.count(job.ngpus, 'GPU')}" if job.ngpus else "")
        ranks = picture.known(job.ranks)
        room = width - line.cell_len - len(" on ")
        if room >= _LEAST_HOSTS:
            line.append(f" on {words.listed(hosts(picture, ranks), room)}", "dim")
        lines.append(line)
    if len(jobs) > MOST_JOBS:
        lines.append(Text(f"     and {len(jobs) - MOST_JOBS:,} more", "dim"))
    return lines


def _nodes(boxes: NodeBoxes, rows: Rows, width: int) -> Lines:
    least = max([NODE_WIDTH, *(boxes.least(row) for row in rows.shown)])
    across, each = columns(least, width, len(rows.shown))
    # A node whose state fits in a word is drawn only if no other box shows how its type is divided.
    drawn = {row.layout.type for row in rows.shown if not uniform(row)}
    blocks = []
    for row in rows.shown:
        short = rows.only is None and uniform(row) and row.layout.type in drawn
        drawn.add(row.layout.type)
        blocks.append(boxes.box(row, each, short))
    signs = [
        Text(f"{FREE} free   ", "dim"),
        Text(f"{AWAY} out of service", "red"),
    ]
    lines = wrapped(Text("nodes  ", "bold").append_text(Text().join(signs)), width, 7)
    if any(len(jobs) > 1 for row in rows.shown for jobs in row.jobs):
        lines.append(
            Text("       a letter is one job; a digit is a different job on each node", "dim")
        )
    if rows.only is not None and not rows.only:
        lines.append(Text("no node is like that"))
    lines += side_by_side(blocks, across, each)
    if rows.nodes_left_out:
        more = f"and {words.count(rows.nodes_left_out, 'more node')} that differ"
        lines.append(Text(f"{more}: see --hosts", "dim"))
    return lines
