"""The options that say which cluster a question is about, and what runs on it already."""

from __future__ import annotations

from typing import Any, Iterator

from treepool.cli import files
from treepool.cli.screen import Stop
from treepool.errors import InvalidInput
from treepool.placement.inventory import Inventory
from treepool.placement.policy import POLICIES
from treepool.placement.pool import Pool
from treepool.placement.wishes import LOCALITIES
from treepool.rfc.rset import ResourceSet
from treepool.rfc.schema import data_folder


def add_where(parser: Any) -> Any:
    """Add ``-R`` and ``--cluster`` to *parser*; returns their group."""
    group = parser.add_argument_group("cluster")
    where = group.add_mutually_exclusive_group()
    where.add_argument("-R", dest="R_file", metavar="FILE", help='its R (RFC 20), "-" for stdin')
    where.add_argument(
        "--cluster", choices=("a", "b"), default="a", help="an example of RFC 49 (default: a)"
    )
    return group


def add_placement(parser: Any) -> Any:
    """Add ``--locality`` and ``--policy`` to *parser*; returns their group."""
    group = parser.add_argument_group("placement")
    group.add_argument(
        "--locality", choices=LOCALITIES, default="preferred", help="as of treepool alloc"
    )
    group.add_argument(
        "--policy", choices=sorted(POLICIES), default="best-fit", help="as of treepool alloc"
    )
    return group


def resource_set(arguments: Any) -> ResourceSet:
    """The R that the options name, with a key that fits it; raises Stop naming the file."""
    if arguments.R_file is None:
        path = str(data_folder("testvectors") / f"rfc49-cluster-{arguments.cluster}.json")
        return ResourceSet.read(files.read_json(path)["cluster"]["R"])
    try:
        found = ResourceSet.read(files.read_R(arguments.R_file))
        Inventory.of(found)
    except InvalidInput as e:
        raise Stop(f"{files.shown(arguments.R_file)}: {e}") from None
    return found


def pool(arguments: Any) -> Pool:
    """An idle pool of the cluster and placement that the options name."""
    return Pool(resource_set(arguments), locality=arguments.locality, policy=arguments.policy)


def shapes(words: list[str]) -> Iterator[str]:
    """The shapes among *words*; ``@FILE`` stands for those in a file, one on each line.

    Blank lines there, and those that begin with #, are none.
    """
    for word in words:
        if not word.startswith("@"):
            yield word
            continue
        for line in files.read_text(word[1:]).splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip()
