"""Print the R with which a Flux instance inside a job starts, from the job's R.
RFC 49 has it in "Sub-instance Initialization". Ranks count from zero in R_lite and in
the scheduling key. Hosts and the ids of cores and GPUs do not change.

examples:
  treepool alloc --print-R --cluster a 'slot=2/node{x}' | treepool subinstance -
  flux job info $JOBID R | treepool subinstance -

exit status:
  0 done; 1 R is not valid; 2 usage, or no such file
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from treepool.cli import files
from treepool.cli.screen import DONE, complain, out
from treepool.rfc.rset import subinstance


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("file", metavar="FILE", help='an R as JSON, "-" for stdin')


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    complain(
        "treepool subinstance",
        "write alloc -R FILE --subinstance: this name goes in the next version",
    )
    R = files.read_R(arguments.file)
    with files.naming(arguments.file):
        out(json.dumps(subinstance(R)))
    return DONE
