"""The benchmark's command line: how long does an allocation take, on clusters of all sizes?"""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Callable, Optional, Sequence

from bench import chart
from bench.child import carry_out
from bench.measure import LARGEST_FOR_PEER, Plan
from bench.results import SizeResult
from bench.table import machine, tables
from treepool.cli import plots
from treepool.cli.main import INTERRUPTED, Parser
from treepool.cli.progressbar import clear, progress
from treepool.cli.screen import DONE, Stop, complain, draw, out

_PROGRAM = "bench"

_DEFAULT_NODES = (16, 1_152, 11_136, 100_000)

#: The eight-node form needs eight nodes besides the quarter that the large job has.
_FEWEST_NODES, _MOST_NODES = 16, 1_000_000

_DESCRIPTION = f"""\
Time what a scheduler does all day, on clusters of several sizes whose nodes
are those of RFC 49's cluster B: four packages of 24 cores and a GPU.

A cluster is aged first. One job takes a quarter of the nodes; on the others
jobs of twenty shapes start, and random ones end, so that 85 % of the cores or
of the GPUs there stay in use. On clusters too large to be filled with jobs of
one slot in --steps steps, half of the jobs are as much larger as that takes.

Then each request form is allocated, its R written, and freed again. Between
two samples two other jobs start and others end, untimed, so that no sample
meets the pool that the last one left. For the form "quarter" the large job is
away and its nodes are idle; for "no-socket-free" every idle socket is taken.
Where a small cluster has no room for a form, jobs end until it has.

Each size is measured in a process of its own, with garbage collection on.
With --peer, flux-core's TreePool is then given the same jobs and requests, on
clusters of up to {LARGEST_FOR_PEER:,} nodes. It takes "hard-locality" for a slot
that may be anywhere on a node.
"""

_EXAMPLES = """\
examples:
  make bench                                     all sizes; takes about two minutes
  make bench BENCH='--nodes 1152,11136 --peer'   against the pool that comes with Flux
  make bench BENCH='--plot bench.svg'            a chart: time against cluster size
  python tools/bench --nodes 11136 --json | jq -r '[.form, .job.median] | @tsv'

exit status:
  0 done; 1 it cannot be measured (no flux-core, no memory); 2 usage
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line *argv* (default: the process's own) and return its exit status."""
    try:
        return _run(_parser().parse_args(argv))
    except Stop as e:
        complain(_PROGRAM, str(e))
        return e.status
    except KeyboardInterrupt:
        complain(_PROGRAM, "interrupted")
        return INTERRUPTED


def _parser() -> Parser:
    parser = Parser(
        prog=_PROGRAM,
        usage=f"{_PROGRAM} [options]",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    what = parser.add_argument_group("what to measure")
    what.add_argument(
        "--nodes",
        metavar="N[,N...]",
        type=_sizes,
        default=_DEFAULT_NODES,
        help=f"cluster sizes, {_FEWEST_NODES} to {_MOST_NODES} (default: "
        + ",".join(map(str, _DEFAULT_NODES))
        + ")",
    )
    what.add_argument(
        "--seed", metavar="N", type=_whole(0), default=1, help="of the random jobs (default: 1)"
    )
    what.add_argument(
        "--steps",
        metavar="N",
        type=_whole(1),
        default=30_000,
        help="how many jobs start while a cluster is aged, at most, and at most 100 for each of "
        "its nodes (default: 30000)",
    )
    what.add_argument(
        "--samples",
        metavar="N",
        type=_whole(1),
        default=1_000,
        help="of each form and operation (default: 1000)",
    )
    what.add_argument(
        "--seconds",
        metavar="S",
        type=_seconds,
        default=1.5,
        help="after which a form has enough samples: five, or as many as four times as long "
        "allows (default: 1.5)",
    )
    what.add_argument(
        "--peer", action="store_true", help="compare with flux-core's TreePool, if Flux is here"
    )
    form = parser.add_argument_group("output")
    form.add_argument(
        "--json",
        action="store_true",
        help="a line of JSON for each size and form, and for each size's pool as a whole; times in "
        "microseconds, memory in bytes",
    )
    form.add_argument("--plot", metavar="FILE", type=_file, help="write a chart as SVG")
    return parser


def _run(arguments: Namespace) -> int:
    if arguments.plot is not None:
        plots.check("--plot", arguments.plot)
    results = []
    for i, nodes in enumerate(arguments.nodes):
        results.append(_measured(arguments, nodes, i, progress))
        clear()
        if arguments.json:
            for line in results[-1].lines():
                out(json.dumps(line))
    if arguments.plot is not None:
        chart.write(results, machine(), arguments.plot)
    if not arguments.json:
        draw(lambda width: tables(results))
    return DONE


def _measured(
    arguments: Namespace, nodes: int, i: int, bar: Callable[[float, str], None]
) -> SizeResult:
    """The result for the *i*-th size, *nodes*."""
    plan = Plan(
        nodes=nodes,
        seed=arguments.seed,
        steps=arguments.steps,
        samples=arguments.samples,
        seconds=arguments.seconds,
        peer=arguments.peer,
    )
    total = len(arguments.nodes)
    return carry_out(plan, lambda p: bar((i + p.done) / total, f"{nodes:,} nodes: {p.doing}"))


# -- types of arguments


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise ArgumentTypeError(f"{text!r:.60} is not a list of numbers such as 16,1152") from None
    for nodes in sizes:
        if not _FEWEST_NODES <= nodes <= _MOST_NODES:
            raise ArgumentTypeError(
                f"a cluster has {_FEWEST_NODES} to {_MOST_NODES:,} nodes here, not {nodes}"
            )
    return sizes


def _whole(least: int) -> Callable[[str], int]:
    """A type: whole numbers from *least*."""

    def whole(text: str) -> int:
        value: Optional[int]
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            raise ArgumentTypeError(f"{text!r:.60} is not a whole number from {least}")
        return value

    return whole


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"{text!r:.60} is not a number of seconds")
    return value


def _file(text: str) -> Path:
    if text in ("", "-"):
        raise ArgumentTypeError("needs the name of a file")
    return Path(text)
