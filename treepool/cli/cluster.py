"""The options that name the cluster of a question, and what already runs on it."""

from __future__ import annotations

from typing import Any, Iterator, Optional

from treepool.cli import files
from treepool.cli.files import data_folder
from treepool.cli.screen import USAGE, Stop
from treepool.errors import InvalidInput
from treepool.placement.choose.policy import POLICIES
from treepool.placement.pool import Pool
from treepool.placement.request.job_options import LOCALITIES
from treepool.rfc import constraint, document
from treepool.rfc.rset import ResourceSet


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
    """The R that the options name, with a key that fits it; raises Stop, which names the file."""
    return _pool(arguments).inventory.resource_set


def pool(arguments: Any) -> Pool:
    """An idle pool of the cluster and placement that the options name; raises Stop."""
    return _pool(arguments, locality=arguments.locality, policy=arguments.policy)


def _pool(arguments: Any, **options: str) -> Pool:
    if arguments.R_file is None:
        path = str(data_folder("testvectors") / f"rfc49-cluster-{arguments.cluster}.json")
        return Pool(files.read_json(path)["cluster"]["R"], **options)
    R = files.read_R(arguments.R_file)
    try:
        return Pool(R, **options)
    except InvalidInput as e:
        raise Stop(f"{files.shown(arguments.R_file)}: {e}") from None


def constraints(text: Optional[str]) -> Optional[dict[str, Any]]:
    """The RFC 31 constraint in ``--constraint`` *text*; raises Stop if it is invalid."""
    if text is None:
        return None
    try:
        value: dict[str, Any] = document.load(text, InvalidInput, "argument --constraint")
        constraint.parse(value, "argument --constraint")
    except InvalidInput as e:
        raise Stop(str(e), USAGE) from None
    return value


def shapes(words: list[str]) -> Iterator[str]:
    """The shapes in *words*; ``@FILE`` stands for the shapes in a file, one per line.

    Blank lines in the file, and lines that begin with #, are skipped.
    """
    for word in words:
        if not word.startswith("@"):
            yield word
            continue
        for line in files.read_text(word[1:]).splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip()
