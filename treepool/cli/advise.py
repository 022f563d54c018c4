"""For each kind of node: how it is divided, the slots that fill it and leave
nothing (so many cores with a GPU, so many slots in a NUMA domain, a socket,
the node), and what is left of a node that is filled with shapes that people
ask for by habit: cores and GPUs that no slot has, slots that are not local.

examples:
  treepool advise                             an example cluster
  treepool advise -R R.json                   your own
  treepool advise -R R.json --shape 'slot=1/[core=20;gpu=1]' 'slot=2/socket/core=6'
      what would these leave?

exit status:
  0 done; 1 R or a shape is not valid; 2 usage, or no such file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import attrs

from treepool.cli import cluster
from treepool.cli.screen import DONE, USAGE, Stop, draw, out_json, shortened
from treepool.errors import InvalidInput
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.view.advise import Advice, Filled, advise, request_of

#: Most shapes in one question.
MAX_SHAPES = 64


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool advise [-R FILE | --cluster a|b] [--shape SHAPE...] [--json]"
    cluster.add_where(parser)
    parser.add_argument(
        "--shape", metavar="SHAPE", nargs="+", action="extend", default=[], help="more shapes"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each kind of node")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if len(arguments.shape) > MAX_SHAPES:
        raise Stop(f"argument --shape: more than {MAX_SHAPES} shapes", USAGE)
    pool = Pool(cluster.resource_set(arguments))
    _check(pool, arguments.shape)
    found, left_out = advise(pool, arguments.shape)
    if arguments.json:
        for one in found:
            out_json(_line(one))
        return DONE
    from treepool.view.advisetext import text

    draw(lambda width: text(found, left_out, width))
    return DONE


def _check(pool: Pool, shapes: list[str]) -> None:
    """Raise Stop, naming the shape, if the pool does not understand one of *shapes*."""
    for shape in shapes:
        try:
            request_of(pool, shape)
        except InvalidInput as e:
            raise Stop(f"argument --shape: {shortened(shape)}: {e.line}") from None


def _line(advice: Advice) -> dict[str, Any]:
    """The JSON object for *advice*; memory is in bytes, least and most are pairs."""
    return {
        "ranks": idset.encode_ids(advice.ranks),
        "levels": [attrs.asdict(level) for level in advice.levels],
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
