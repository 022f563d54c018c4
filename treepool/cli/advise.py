"""For each kind of node: how it is divided, the slots that fill it and leave
nothing (so many cores with a GPU, so many slots in a NUMA domain, a socket,
the node), and what is left of a node that is filled with shapes that people
ask for by habit: cores and GPUs that no slot has, slots that are not local.
A slot strands GPUs that the jobs to come then cannot use: they are jobs of one
GPU with its share of the cores, or those of a mix.

examples:
  treepool advise                             an example cluster
  treepool advise -R R.json                   your own
  treepool advise -R R.json --shape 'slot=1/[core=20;gpu=1]' 'slot=2/socket/core=6'
      what would these leave?
  treepool advise -R R.json --mix '7*slot/[core=12;gpu=1]' 'slot/node{x}'
      of eight jobs seven ask for a GPU, one for a node: what strands GPUs?
  treepool advise -R R.json --mix @jobs.json
      the jobs of a trace, as replay reads it, or a line for each kind

exit status:
  0 done; 1 R or a shape is not valid; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import attrs

from treepool.cli import cluster, files
from treepool.cli.screen import DONE, USAGE, Stop, draw, out_json, shortened
from treepool.errors import InvalidInput, InvalidOption
from treepool.placement.choose.mix import MAX_KINDS, Kind, read_kind
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view import trace
from treepool.view.advise import Advice, Filled, advise, request_of

#: Most shapes in one question.
MAX_SHAPES = 64


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = (
        "treepool advise [-R FILE | --cluster a|b | --snapshot FILE] [--shape SHAPE...] "
        "[--mix KIND...] [--json]"
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


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if len(arguments.shape) > MAX_SHAPES:
        raise Stop(f"argument --shape: more than {MAX_SHAPES} shapes", USAGE)
    named = (word[1:] for word in arguments.mix if word.startswith("@"))
    files.check_stdin(arguments.R_file, arguments.snapshot, *named)
    pool = Pool(cluster.resource_set(arguments))
    pool.set_expiration(0.0)  # what fills a node is the same at all times
    _check(pool, "--shape", arguments.shape)
    mix = _mix(arguments.mix)
    _check(pool, "--mix", [kind.shape for kind in mix])
    found, left_out = advise(pool, arguments.shape, mix)
    if arguments.json:
        for one in found:
            out_json(_line(one))
        return DONE
    from treepool.view.advisetext import text

    draw(lambda width: text(found, left_out, width))
    return DONE


def _mix(words: list[str]) -> list[Kind]:
    """The kinds of jobs of ``--mix`` *words*; equal shapes are one kind. Raises Stop."""
    weights: dict[str, float] = {}
    for word in words:
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
    lines = (line.strip() for line in text.splitlines())
    found = [read_kind(line) for line in lines if line and not line.startswith("#")]
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
