"""What every view draws of a node: nested domains, runs of cores and GPUs, how many at most.

An R may describe nodes of a million cores in ten thousand domains. Such a node is drawn only in
part: ``MAX_CELLS`` and ``MAX_DOMAINS`` limit the size of a picture.
"""

from __future__ import annotations

from typing import Iterable, Optional

import attrs

from treepool.placement.nodes.tree import Domain, NodeType
from treepool.rfc import idset
from treepool.view.nodewords import title

#: Most cells of one kind in one domain that are drawn one by one.
MAX_CELLS = 512

#: Most domains drawn of one node.
MAX_DOMAINS = 256


@attrs.frozen(eq=False)
class Block:
    """A domain as it is drawn: its title, its own ids (bitmasks), and the blocks inside it.

    A domain that contains only one other domain is drawn as one block with it. ``memory`` is in
    bytes, 0 if not known. ``left_out`` is the number of inner domains that are not drawn.
    """

    title: str
    cores: int
    gpus: int
    memory: int
    children: tuple[Block, ...]
    left_out: int = 0


@attrs.frozen
class Run:
    """Adjacent cells of one holder; ``holder`` is its place in the layout, or None.

    If there are too many cells to draw, each holder has one run.
    """

    first: int
    count: int
    holder: Optional[int]


def block(node_type: NodeType) -> Block:
    """The root of *node_type* as a block."""
    left = [MAX_DOMAINS]

    def make(domain: Domain) -> Block:
        left[0] -= 1
        names = [title(node_type, domain)]
        while domain is not node_type.root and _wraps(domain):
            domain = domain.children[0]
            names.append(title(node_type, domain))
        children = []
        for child in domain.children:
            if left[0] <= 0:
                break
            children.append(make(child))
        left_out = len(domain.children) - len(children)
        return Block(
            "/".join(names),
            domain.own_cores,
            domain.own_gpus,
            domain.capacity or domain.memory,
            tuple(children),
            left_out,
        )

    return make(node_type.root)


def _wraps(domain: Domain) -> bool:
    """Whether *domain* contains only one other domain."""
    return len(domain.children) == 1 and not domain.own_cores and not domain.own_gpus


def runs(mask: int, held: Iterable[int]) -> list[Run]:
    """The ids in bitmask *mask* as runs in order of ids; *held* has the bitmask of each holder."""
    parts = [(holder, mask & ids) for holder, ids in enumerate(held) if mask & ids]
    everyone: list[tuple[Optional[int], int]] = [*parts]
    free = mask
    for _, ids in parts:
        free &= ~ids
    if free:
        everyone.append((None, free))
    if idset.size(mask) > MAX_CELLS:
        whole = [Run(idset.lowest(m), idset.size(m), h) for h, m in everyone]
        return sorted(whole, key=lambda run: run.first)
    owners = sorted((i, holder) for holder, ids in everyone for i in idset.iterate(ids))
    found: list[Run] = []
    for i, holder in owners:
        if found and found[-1].holder == holder:
            found[-1] = Run(found[-1].first, found[-1].count + 1, holder)
        else:
            found.append(Run(i, 1, holder))
    return found
