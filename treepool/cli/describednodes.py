"""Which nodes each description given to ``treepool encode`` applies to; the nodes of a new R."""

from __future__ import annotations

import socket
from argparse import Namespace
from typing import Optional, Sequence

import attrs

from treepool.cli import files
from treepool.cli.screen import USAGE, Stop, complain, shortened
from treepool.discovery.key import Nodes
from treepool.discovery.levels import NodeTopo
from treepool.errors import InvalidHostlist
from treepool.rfc import hostlist, idset
from treepool.rfc.idset import union


@attrs.frozen
class Found:
    """A node that was read, and the ranks and hosts it applies to, as in Description."""

    node: NodeTopo
    name: str
    ranks: int = 0
    hosts: tuple[str, ...] = ()


def new_nodes(arguments: Namespace, found: Sequence[Found]) -> tuple[int, tuple[str, ...]]:
    """The ranks and hosts of a new R: from the options, otherwise from the descriptions."""
    ranks = union(f.ranks for f in found)
    hosts = [host for f in found for host in f.hosts]
    with files.naming("--ranks", USAGE):
        ranks = ranks if arguments.ranks is None else idset.decode(arguments.ranks)
    with files.naming("--hosts", USAGE):
        hosts = hosts if arguments.hosts is None else hostlist.decode(arguments.hosts)
    for option, given in (("--ranks", ranks), ("--hosts", hosts)):
        if not given and getattr(arguments, option[2:]) is not None:
            raise Stop(f"{option}: '' has none", USAGE)
    if not ranks:
        ranks = (1 << max(len(hosts), 1)) - 1
    count = idset.size(ranks)
    if not hosts and count == 1:
        here = socket.gethostname() if arguments.local else ""
        hosts = [name] if (name := found[0].node.machine.hostname or here) else []
    if not hosts:
        who = "the XML does not name its host" if count == 1 else f"{count} ranks need names"
        raise Stop(f"{who}: --hosts HOSTS", USAGE)
    if len(hosts) != count:
        told = f"{count} ranks, but {len(hosts)} hosts"
        raise Stop(f"{told}: --hosts names one for each rank", USAGE)
    try:
        hostlist.encode(hosts)
    except InvalidHostlist as e:  # a machine's own name may not be a valid host for Flux
        raise Stop(f"{e}: --hosts gives others") from None
    return ranks, tuple(hosts)


def assigned(found: Sequence[Found], ranks: int, hosts: Sequence[str]) -> list[Nodes]:
    """Which of *ranks*, called *hosts*, each description applies to."""
    rank_of = dict(zip(hosts, idset.iterate(ranks)))
    nodes: list[Nodes] = []
    taken = 0
    rest: Optional[Found] = None
    for one in found:
        if not one.ranks and not one.hosts:
            if rest is not None:
                raise Stop(f"{rest.name} and {one.name}: which nodes are they? (FILE:RANKS)", USAGE)
            rest = one
            continue
        mine = one.ranks | idset.from_ids(rank_of[h] for h in one.hosts if h in rank_of)
        unknown = [h for h in one.hosts if h not in rank_of]
        if unknown or one.ranks & ~ranks:
            stray = ",".join(unknown[:3]) or f"ranks {idset.encode(one.ranks & ~ranks)}"
            if one.ranks or len(found) == 1:
                raise Stop(f"{one.name}: R has no {stray:.80}; it has {_known(ranks, hosts)}")
            complain("treepool encode", f"warning: {one.name}: R has no {stray:.80}")
        if mine & taken:
            twice = idset.encode(mine & taken)
            raise Stop(f"{one.name}: ranks {twice} are described twice")
        taken |= mine
        if mine:
            nodes.append(Nodes(mine, one.node))
    if rest is not None and ranks & ~taken:
        nodes.append(Nodes(ranks & ~taken, rest.node))
        taken = ranks
    if ranks & ~taken:
        complain(
            "treepool encode",
            f"warning: nothing describes ranks {idset.encode(ranks & ~taken)}: they stay flat",
        )
    if not nodes:
        raise Stop("nothing describes any node of R")
    return nodes


def _known(ranks: int, hosts: Sequence[str]) -> str:
    return f"ranks {shortened(idset.encode(ranks))}, hosts {shortened(hostlist.encode(hosts))}"
