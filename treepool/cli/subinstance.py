"""``treepool subinstance``: the zero-origin R for an instance started on an allocated R."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from treepool.cli import files
from treepool.cli.screen import DONE, Stop, out
from treepool.errors import InvalidInput
from treepool.rfc.subinstance import subinstance

_DESCRIPTION = """\
Read the R that an instance allocated to a job, and print the R that a Flux
instance started inside that job begins with (RFC 49, "Sub-instance
Initialization"): ranks count from zero, in R_lite and in the scheduling key;
hosts and the ids of cores and GPUs stay.
"""

_EXAMPLES = """\
examples:
  treepool alloc --R 'slot=2/node{x}' | treepool subinstance -
  flux job info $JOBID R | treepool subinstance -

exit status:
  0 done; 1 R is not valid; 2 usage, or no such file
"""


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument("file", metavar="FILE", help='an R as JSON, "-" for stdin')
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    R = files.read_R(arguments.file)
    try:
        new = subinstance(R)
    except InvalidInput as e:
        raise Stop(f"{files.shown(arguments.file)}: {e}") from None
    out(json.dumps(new))
    return DONE
