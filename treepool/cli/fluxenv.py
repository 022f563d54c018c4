"""Print the environment in which Flux finds this treepool, as shell commands:
the scheduler module sched-treepool, the subcommand "flux treepool", options
of "flux submit" such as --locality, and the pool that the scheduling keys of
R name. With --modprobe, print instead the TOML that makes sched-treepool the
scheduler of the instances that read it.

examples:
  eval "$(treepool flux-env)"                 for the instances started from here
  treepool flux-env --modprobe policy=easy > /etc/flux/modprobe/modprobe.d/treepool.toml
                                              for all instances of this Flux

exit status:
  0 done; 2 usage, which includes options that sched-treepool does not have
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from treepool.cli.screen import DONE, USAGE, Stop, out
from treepool.errors import InvalidOption
from treepool.flux import options, site


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.add_argument(
        "--modprobe", action="store_true", help="print TOML for Flux's modprobe.d instead"
    )
    parser.add_argument(
        "options", metavar="NAME=VALUE", nargs="*", help="options of the module, for --modprobe"
    )


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if not arguments.modprobe:
        if arguments.options:
            raise Stop("options of the module go with --modprobe", USAGE)
        out(site.exports())
        return DONE
    try:
        options.check(arguments.options)
    except InvalidOption as e:
        raise Stop(str(e), USAGE) from None
    out(site.modprobe(arguments.options))
    return DONE
