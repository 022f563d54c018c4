"""Say for each kind of node which slots fill it and leave nothing, and what others leave.
It says how the node is divided, the slots that fill it (so many cores with a GPU, so
many in a NUMA domain, a socket, the node), and what is left of a node that is filled
with shapes that people ask for by habit: cores and GPUs that no slot has, slots that
are not local.
A slot strands GPUs that the jobs to come then cannot use: they are jobs of one
GPU with its share of the cores, or those of a mix.

examples:
  treepool advise --cluster a                 an example cluster
  treepool advise -R R.json                   your own
  flux treepool advise                        the instance
  treepool advise -R R.json --shape 'slot=1/[core=20;gpu=1]' 'slot=2/socket/core=6'
      what would these leave?
  treepool advise -R R.json --mix '7*slot/[core=12;gpu=1]' 'slot/node{x}'
      of eight jobs seven ask for a GPU, one for a node: what strands GPUs?
  treepool advise -R R.json --mix @jobs.json
      the jobs of a trace, as replay reads it, or a line for each kind
  treepool advise -R R.json --mix-from jobs.csv
      the option mix of sched-treepool, from past jobs: a trace or what sacct prints
  treepool advise --mix-from instance
      the same, from the last 10,000 jobs of the Flux instance here

exit status:
  0 done; 1 R or a shape is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

import attrs

from treepool.cli import cluster, files, instance, tracefile
from treepool.cli.screen import DONE, USAGE, Stop, complain, draw, out, out_json, shortened
from treepool.errors import InvalidInput, InvalidOption
from treepool.placement.choose.pastmix import past_mix, shape_of
from treepool.placement.effort import finished
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc.mix import MAX_KINDS, Kind, read_kind
from treepool.rfc.shape import parse_shape
from treepool.view import trace, words
from treepool.view.advise import Advice, Filled, advise, request_of
from treepool.view.trace import TraceJob

#: The word for the running Flux instance.
INSTANCE = "instance"

#: Most shapes in one question.
MAX_SHAPES = 64


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    where = "treepool advise [-R FILE | --cluster a|b | --snapshot FILE]"
    parser.usage = (
        f"{where} [--shape SHAPE...] [--mix KIND...] [--json]\n"
        f"       {where} --mix-from FILE|instance [--threads-per-core N]"
    )
    cluster.add_where(parser)
    parser.add_argument(
        "--shape", metavar="SHAPE", nargs="+", action="extend", default=[], help="more shapes"
    )
    parser.add_argument(
        "--mix",
        metavar="[WEIGHT*]SHAPE",
        nargs="+",
        action="extend",
        default=[],
        help="the expected jobs, and how often each is submitted relative to the others "
        "(default: 1); @FILE has one on each line, or is a trace",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each kind of node")
    parser.add_argument(
        "--mix-from",
        metavar="FILE|instance",
        help="print the option mix of sched-treepool, from past jobs, and stop: those of a trace, "
        'of a table of sacct, or of the running Flux instance (a file of that name: "./instance")',
    )
    tracefile.add_options(parser)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.mix_from is not None:
        return _print_mix(arguments)
    if len(arguments.shape) > MAX_SHAPES:
        raise Stop(f"argument --shape: more than {MAX_SHAPES} shapes", USAGE)
    cluster.check_stdin(arguments, arguments.mix)
    pool = Pool(cluster.resource_set(arguments))
    pool.set_expiration(0.0)  # what fills a node is the same at all times
    _check(pool, "--shape", arguments.shape)
    mix = _mix(arguments.mix)
    _check(pool, "--mix", [kind.shape for kind in mix])
    found, left_out = advise(pool, arguments.shape, mix)
    if arguments.json:
        for one in found:
            out_json({**cluster.named(arguments), **_line(one)})
        return DONE
    from treepool.view.advisetext import text

    out(*cluster.example(arguments))
    draw(lambda width: text(found, left_out, width))
    return DONE


def _print_mix(arguments: Namespace) -> int:
    """Print the mix of past jobs as an option of sched-treepool; returns the exit status."""
    name = arguments.mix_from
    if arguments.shape or arguments.mix or arguments.json:
        raise Stop("argument --mix-from: not with --shape, --mix or --json", USAGE)
    files.check_stdin(arguments.R_file, arguments.snapshot, name)
    if name == INSTANCE:
        with instance.asking():
            from treepool.flux import live

            pool, past = live.history()
        counts, unread = past.counts, past.unread
        if arguments.R_file or arguments.snapshot or arguments.cluster:
            pool = Pool(cluster.resource_set(arguments))
    else:
        pool = Pool(cluster.resource_set(arguments))
        past_jobs = tracefile.read("advise", name, arguments).jobs
        counts, unread = _counted(past_jobs)
    mix = finished(past_mix(counts, pool.inventory))
    if unread:
        complain("treepool advise", f"{words.count(unread, 'job')} could not be read")
    if not mix.kinds:
        raise Stop(f"{files.shown(name)}: no job asked for GPUs that the cluster has")
    out(f"# {words.count(sum(counts.values()), 'job')}: {mix}")
    out(f"mix = {json.dumps(mix.text)}")
    return DONE


def _counted(jobs: list[TraceJob]) -> tuple[Counter[str], int]:
    """How often each shape was asked for, and how many jobs have none that is valid."""
    counts: Counter[str] = Counter()
    unread = 0
    for text, number in Counter(job.shape for job in jobs).items():
        try:
            counts[shape_of(parse_shape(text))] += number
        except InvalidInput:
            unread += number
    return counts, unread


def _mix(given: list[str]) -> list[Kind]:
    """The kinds of jobs of ``--mix`` *given*; equal shapes are one kind. Raises Stop."""
    weights: dict[str, float] = {}
    for word in given:
        try:
            for kind in _kinds_in(word[1:]) if word.startswith("@") else [read_kind(word)]:
                weights[kind.shape] = weights.get(kind.shape, 0) + kind.weight
        except InvalidOption as e:
            raise Stop(f"argument --mix: {e}") from None
    if len(weights) > MAX_KINDS:
        number = f"{len(weights):,} different shapes, at most {MAX_KINDS}"
        raise Stop(f"argument --mix: {number}: keep the most frequent", USAGE)
    return [Kind(shape, weight) for shape, weight in weights.items()]


def _kinds_in(name: str) -> list[Kind]:
    """The kinds of jobs in file *name*: a trace, or a kind on each line."""
    text = files.read_text(name)
    if text.lstrip().startswith("{"):
        with files.naming(name):
            return [Kind(job.shape) for job in trace.read(text).jobs]
    found = [read_kind(line) for line in files.content_lines(text)]
    if not found:
        raise Stop(f"argument --mix: {files.shown(name)}: has no job")
    return found


def _check(pool: Pool, option: str, shapes: list[str]) -> None:
    """Raise Stop, naming the shape, if the pool does not understand one of *shapes*."""
    for shape in shapes:
        try:
            request_of(pool, shape)
        except InvalidInput as e:
            raise Stop(f"argument {option}: {shortened(shape)}: {e.line}") from None


def _line(advice: Advice) -> dict[str, Any]:
    """The JSON object for *advice*; memory is in bytes, least and most are pairs."""
    return {
        "ranks": idset.encode_ids(advice.ranks),
        "levels": advice.levels,
        **{
            name: [_filled(advice, one) for one in filled]
            for name, filled in (
                ("tiling", advice.tiling),
                ("nearly", advice.nearly),
                ("common", advice.common),
            )
        },
    }


def _filled(advice: Advice, one: Filled) -> dict[str, Any]:
    found = attrs.asdict(one)
    found["inside"] = dict(zip([level.name for level in advice.levels], one.inside))
    if not one.reason:
        del found["reason"]
    return found
