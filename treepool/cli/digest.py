"""Print the digest of this node's topology. Nodes with the same digest are alike.
sched-treepool asks every node for its digest, and one node of each kind for its
whole topology.

examples:
  flux treepool digest                        of this node
  flux exec -r all flux treepool digest       of all nodes: are they alike?

exit status:
  0 done; 1 the broker of this node has no topology; 2 usage
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from treepool.cli import instance
from treepool.cli.screen import DONE, Stop, out, out_json


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument("--json", action="store_true", help="print a line of JSON")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    from treepool.discovery.describe import digest

    with instance.asking():
        from treepool.flux.hardware import local_xml

        xml = local_xml()
    if xml is None:
        raise Stop("there is no broker here that has a topology")
    found = digest(xml).hex()
    if arguments.json:
        out_json({"digest": found})
    else:
        out(found)
    return DONE
