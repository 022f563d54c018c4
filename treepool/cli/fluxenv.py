"""Make treepool part of the Flux on the PATH, check that it is, or undo it.
Flux then has the scheduler module sched-treepool, "flux treepool", options of "flux
submit" such as --locality, the pool class that scheduling keys name, and the command
treepool. treepool stays where pip put it: Flux finds it by links. The Python of users
and jobs does not change. Each instance still chooses its scheduler by its
configuration: modules.alternatives.sched. Where Fluxion is installed, one whose R has
a scheduling key starts without it, because Fluxion cannot read that. To upgrade,
upgrade it with pip and install again.

With --prefix, the links are in a directory of your own. Without --install,
--uninstall or --check, print the variables with which Flux finds them there. Where
these are set, other commands need no --prefix.

examples:
  treepool flux-env --install                      for everybody who has this Flux (as root)
  treepool flux-env --install --prefix ~/.local    for yourself
  eval "$(treepool flux-env --prefix ~/.local)"    ... in this shell
  treepool flux-env --check                        what is found where, and what is missing
  treepool flux-env --uninstall                    leave nothing

exit status:
  0 done; 1 it cannot be done, or a check found a problem; 2 usage
"""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from treepool import __version__
from treepool.cli.screen import DONE, NO, USAGE, Stop, out, out_json
from treepool.errors import SetupError
from treepool.flux import install, installcheck, site
from treepool.flux.install import Installed


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--install", action="store_true", help="install, or upgrade")
    what.add_argument("--uninstall", action="store_true", help="remove all of it")
    what.add_argument("--check", action="store_true", help="check what Flux finds, and where")
    what.add_argument(
        "--systemd", action="store_true", help="print the variables as a drop-in for flux.service"
    )
    parser.add_argument(
        "--json", action="store_true", help="with --check: a line of JSON for each part"
    )
    parser.add_argument("--prefix", metavar="DIR", help="use DIR instead of Flux's own directories")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.json and not arguments.check:
        raise Stop("--json needs --check", USAGE)
    prefix = None
    if arguments.prefix is not None:
        prefix = _prefix(arguments.prefix)
    try:
        if arguments.install:
            return _install(prefix)
        if arguments.uninstall:
            done = install.uninstall(prefix)
            out(f"removed treepool {done.version} from {done.home}")
            return DONE
        home = install.home_of(prefix)
        found = Installed.at(home, prefix)
        if found is None:
            where = f" --prefix {shlex.quote(str(prefix))}" if prefix else ", or give --prefix DIR"
            raise Stop(f"no treepool is installed in {home}: treepool flux-env --install{where}")
        if arguments.check:
            return _check(found, arguments.json)
    except SetupError as e:
        raise Stop(str(e)) from None
    if found.prefix is None:
        out(f"# treepool {found.version} is part of this Flux, which needs no variable")
    elif arguments.systemd:
        out(*site.systemd(found.home))
    else:
        out(*site.exports(found.home, found.prefix / "bin"))
    return DONE


def _prefix(text: str) -> Path:
    """The directory of ``--prefix``, which need not exist; raises Stop."""
    if not text:
        raise Stop("--prefix: '' is not a directory", USAGE)
    prefix = Path(os.path.abspath(os.path.expanduser(text)))  # no shell expands --prefix=~/tools
    if ":" in str(prefix) or not str(prefix).isprintable():
        raise Stop(f"--prefix: {str(prefix)!r} cannot be in a list of directories", USAGE)
    try:
        os.stat(os.path.join(prefix, ""))  # with the slash it must be a directory
    except FileNotFoundError:
        pass
    except OSError as e:
        raise Stop(f"--prefix: {prefix}: {e.strerror}", USAGE) from None
    return prefix


def _install(prefix: Path | None) -> int:
    home, links = install.install(prefix)
    out(f"installed treepool {__version__} in {home}", *(f"  {link}" for link in links))
    return DONE


def _check(found: Installed, as_json: bool) -> int:
    findings = list(installcheck.findings(found, site.FluxSite.here(), os.environ))
    for finding in findings:
        if as_json:
            out_json(finding)
            continue
        problem = finding.problem and f"PROBLEM: {finding.problem}"
        out(f"{finding.part:18} {'  '.join(filter(None, (finding.found, problem)))}")
    return NO if any(finding.problem for finding in findings) else DONE
