"""Options of several commands: the cluster, --down, --jobs, those of placement."""

from __future__ import annotations

import re
from argparse import Action, ArgumentError, ArgumentTypeError
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence

import attrs

from treepool.cli import files, instance
from treepool.cli.screen import USAGE, Stop, width
from treepool.errors import InvalidOption
from treepool.placement import options
from treepool.rfc import idset
from treepool.rfc.findings import shown, shown_ids
from treepool.rfc.quote import did_you_mean
from treepool.view import words

if TYPE_CHECKING:  # the engine is imported where a pool is made: most options need none
    from treepool.cli.answers import Answer
    from treepool.placement.pool import Pool
    from treepool.rfc.rset import ResourceSet
    from treepool.view.snapshot import Snapshot

#: The options of a pool, but for the locality, which a job may say, too.
PLACEMENT = tuple(name for name in options.OPTIONS if name != "locality")

#: Ranks and not hosts, whatever is wrong with them.
_RANKS = re.compile(r"[][0-9,\s-]*")

#: Most jobs that may run already.
MAX_JOBS = 1 << 17


class _Once(Action):
    """Stores the value of an option that may not be given twice."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise ArgumentError(self, "is given twice")
        setattr(namespace, self.dest, values)


def add_where(parser: Any, several: bool = False) -> Any:
    """Add ``-R``, ``--cluster``, ``--snapshot`` and ``--instance`` to *parser*.

    Returns their group. If there may be *several* clusters, ``-R`` is a list, and there is
    ``--nodes``.
    """
    group = parser.add_argument_group("cluster")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "-R",
        dest="R_file",
        metavar="FILE",
        action="append" if several else _Once,
        help='its R (RFC 20), "-" for stdin' + ("; repeatable, to compare" if several else ""),
    )
    where.add_argument(
        "--cluster",
        choices=("a", "b"),
        help="an example cluster of RFC 49: a has 16 nodes with 2 sockets of 4 NUMA domains each, "
        "b has 1152 nodes with 4 sockets each",
    )
    where.add_argument(
        "--snapshot",
        metavar="FILE",
        help='an instance as treepool snapshot found it, with its jobs, "-" for stdin',
    )
    if several:
        where.add_argument(
            "--nodes",
            metavar="N[,cores=C][,gpus=G]",
            type=flat_nodes,
            help="N nodes without topology; cores by default as the header of a trace in Standard "
            "Workload Format says",
        )
    where.add_argument(
        "--instance",
        action="store_true",
        help="the running Flux instance: the default where there is one",
    )
    return group


def is_instance(arguments: Any) -> bool:
    """Whether the subject is the instance: the default in one. Raises Stop if there is none."""
    if arguments.instance:
        return True
    if arguments.R_file is not None or arguments.snapshot is not None or arguments.cluster:
        return False
    there, why = instance.is_there()
    if not there:
        raise Stop(f"{why}: name the cluster by -R FILE, --snapshot FILE or --cluster a|b", USAGE)
    return True


def example(arguments: Any) -> list[str]:
    """What says that the answer is about an example cluster, if it is, in lines."""
    name = arguments.cluster
    return wrap(f"example cluster {name} of RFC 49", width()) if name else []


@attrs.frozen
class FlatNodes:
    """Nodes without topology: how many, and the cores (None: not given) and GPUs of each."""

    number: int
    cores: Optional[int] = None
    gpus: int = 0

    def resource_sets(self) -> dict[str, ResourceSet]:
        """The cluster of these nodes, hosts n0, n1, ..., by its name; raises Stop."""
        from treepool.rfc.rset import MAX_RANKS, ResourceSet

        cores = self.cores or 1
        if not 0 < self.number <= MAX_RANKS or max(cores, self.gpus) > idset.MAX_ID:
            parts = f"{words.count(self.number, 'node')} of {words.count(cores, 'core')}"
            raise Stop(f"a cluster of {parts} cannot be made (see --nodes)", USAGE)
        ranks = idset.encode((1 << self.number) - 1)
        children = {"core": idset.encode((1 << cores) - 1)}
        if self.gpus:
            children["gpu"] = idset.encode((1 << self.gpus) - 1)
        R_lite = [{"rank": ranks, "children": children}]
        hosts = f"n[{ranks}]" if self.number > 1 else "n0"
        R = {"version": 1, "execution": {"R_lite": R_lite, "nodelist": [hosts]}}
        return {words.count(self.number, "node"): ResourceSet.read(R)}


#: The value of ``--nodes``.
_FLAT = re.compile(r"([0-9]{1,7})(?:,cores=([0-9]{1,7}))?(?:,gpus=([0-9]{1,7}))?")


def flat_nodes(text: str) -> FlatNodes:
    """Nodes without topology, such as ``4360`` or ``16,cores=128,gpus=8``."""
    match = _FLAT.fullmatch(text)
    if match is None or not int(match[1]) or (match[2] and not int(match[2])):
        form = "NUMBER[,cores=NUMBER][,gpus=NUMBER] is needed, such as 16,cores=128,gpus=8"
        raise ArgumentTypeError(f"{text!r:.60}: {form}")
    return FlatNodes(int(match[1]), int(match[2]) if match[2] else None, int(match[3] or 0))


def add_jobs(group: Any) -> None:
    """Add ``--down`` and ``--jobs``, what happened to the cluster already, to *group*."""
    group.add_argument("--down", metavar="NODES", help="hosts or ranks that are down")
    group.add_argument(
        "--jobs",
        metavar="SHAPE",
        nargs="+",
        action="extend",
        default=[],
        help="jobs that run already, as RFC 46 shapes, allocated in order; @FILE: a file with a "
        "shape on each line",
    )


def named(arguments: Any) -> dict[str, str]:
    """The same for a line of JSON."""
    return {"cluster": arguments.cluster} if arguments.cluster else {}


def add_placement(parser: Any, names: Sequence[str] = tuple(options.OPTIONS)) -> Any:
    """Add an argument for each option of a pool in *names* to *parser*; returns their group."""
    group = parser.add_argument_group("placement")
    for name, option in options.OPTIONS.items():
        if name not in names:
            continue
        default = f" (default: {option.default})" if option.default else ""
        form: dict[str, Any] = {"metavar": option.form, "type": partial(_value, name)}
        if option.form == "|".join(option.choices):
            form = {"choices": option.choices}
        flag = name.replace("_", "-")
        group.add_argument(f"--{flag}", help=f"{option.about}{default}", **form)
    return group


def _value(name: str, text: str) -> str:
    try:
        options.checked({name: text})
        options.OPTIONS[name].check(text)
    except InvalidOption as e:
        raise ArgumentTypeError(str(e)) from None
    return text


def snapshot(arguments: Any) -> Optional[Snapshot]:
    """The snapshot that ``--snapshot`` names, if it does; raises Stop, which names the file."""
    if arguments.snapshot is None:
        return None
    from treepool.view import snapshot

    value = files.read_R(arguments.snapshot, "a snapshot")
    with files.naming(arguments.snapshot):
        return snapshot.read(value)


def resource_set(arguments: Any) -> ResourceSet:
    """The R that the options name, with a key that fits it; raises Stop, which names the file."""
    if is_instance(arguments):
        return instance.look().pool.inventory.resource_set
    taken = snapshot(arguments)
    return _pool(arguments.R_file, arguments.cluster, taken).inventory.resource_set


def resource_sets(arguments: Any) -> dict[str, ResourceSet]:
    """The same where there may be several: each by the name of its file, or of the example."""
    if arguments.R_file is None:
        if is_instance(arguments):
            return {"instance": instance.look().pool.inventory.resource_set}
        name = arguments.cluster
        return {name: _pool(None, name).inventory.resource_set}
    paths = arguments.R_file
    if len(set(paths)) < len(paths):
        raise Stop("argument -R: a file is given twice", USAGE)
    names = [Path(path).name for path in paths]
    if len(set(names)) < len(names):
        names = paths
    return {name: _pool(path, "").inventory.resource_set for name, path in zip(names, paths)}


def pool(arguments: Any, taken: Optional[Snapshot] = None) -> Pool:
    """A pool of the cluster and placement that the options name; raises Stop.

    It is idle, unless the options name a snapshot, which the caller may have *taken* already, or
    the instance.
    """
    known = chosen(arguments)
    if is_instance(arguments):
        return _changed(instance.look().pool, known)
    taken = taken or snapshot(arguments)
    return _changed(_pool(arguments.R_file, arguments.cluster, taken), known)


def chosen(arguments: Any) -> dict[str, str]:
    """The options of the pool that are given; raises Stop if they contradict each other."""
    # Where jobs take the options of flux submit, their locality is one of these.
    names = PLACEMENT if hasattr(arguments, "requires") else tuple(options.OPTIONS)
    given = {name: getattr(arguments, name) for name in names}
    known = {name: value for name, value in given.items() if value is not None}
    try:
        options.check_together(known)
    except InvalidOption as e:
        raise Stop(f"--{e}", USAGE) from None
    return known


def _pool(R_file: Optional[str], example: str, taken: Optional[Snapshot] = None) -> Pool:
    from treepool.placement.pool import Pool

    if taken is not None:
        pool = taken.pool()
    elif R_file is None:
        path = str(files.data_folder("testvectors") / f"rfc49-cluster-{example}.json")
        pool = Pool(files.read_json(path)["cluster"]["R"])
    else:
        R = files.read_R(R_file)
        with files.naming(R_file):
            pool = Pool(R)
    return pool


def _changed(pool: Pool, chosen: Mapping[str, str]) -> Pool:
    """*pool* with the options *chosen*."""
    if chosen:
        try:
            pool.change_options(**chosen)
        except InvalidOption as e:
            raise Stop(f"argument --{e}") from None
    return pool


def ranks(pool: Pool, option: str, text: Optional[str]) -> int:
    """The ranks given by *option* (bitmask), which must be in *pool*; raises Stop."""
    if text is None:
        return 0
    with files.naming(f"argument {option}", USAGE):
        ids = idset.decode(text)
    if not ids:
        raise Stop(f"argument {option}: {shown(text)} has no ranks", USAGE)
    if missing := ids & ~pool.ranks:
        raise Stop(f"argument {option}: ranks not in the cluster: {shown_ids(missing)}", USAGE)
    return ids


def hosts(pool: Pool, option: str, text: str) -> int:
    """The ranks (bitmask) of the hosts in hostlist *text*, given by *option*; raises Stop."""
    from treepool.rfc import windows

    R = pool.inventory.resource_set
    with files.naming(f"argument {option}", USAGE):
        ranks, unknown = windows.ranks_of(text, R)
    if unknown or not ranks:
        name = unknown[0] if unknown else text
        more = f", and {len(unknown) - 1:,} more are not" if len(unknown) > 1 else ""
        hint = did_you_mean(name, R.hosts)
        raise Stop(f"argument {option}: {shown(name)} is no host of the cluster{hint}{more}", USAGE)
    return ranks


def nodes(pool: Pool, option: str, text: Optional[str]) -> int:
    """The ranks (bitmask) of the hosts or ranks given by *option*; raises Stop."""
    if text is None or _RANKS.fullmatch(text):
        return ranks(pool, option, text)
    return hosts(pool, option, text)


def check_stdin(arguments: Any, words: Sequence[str]) -> None:
    """Raise Stop if both the cluster and an @FILE in *words* are stdin."""
    named = (word[1:] for word in words if word.startswith("@"))
    files.check_stdin(arguments.R_file, arguments.snapshot, *named)


def run_jobs(pool: Pool, words: list[str]) -> Iterator[tuple[int, Answer]]:
    """Allocate the shapes of ``--jobs`` *words* on *pool*: the number of each job, and its answer.

    ``@FILE`` stands for the shapes in a file, one per line. Blank lines in it, and lines that begin
    with #, are skipped.
    """
    from treepool.cli.answers import allocate_shape

    for number, shape in enumerate(_shapes(words), 1):
        if number > MAX_JOBS:
            raise Stop(f"argument --jobs: more than {MAX_JOBS} jobs", USAGE)
        yield number, allocate_shape(pool, number, shape)


def _shapes(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("@"):
            yield from files.content_lines(files.read_text(word[1:]))
        else:
            yield word
