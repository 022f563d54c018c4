"""Node policies: in which order nodes are tried. A policy is one small class with one method.

The order of two nodes is that of ``(not local, policy.key(state, ask), rank)``: locality comes
before fit, and ties break to the lowest rank.
"""

from __future__ import annotations

from treepool.errors import InvalidOption
from treepool.placement.request import Ask
from treepool.placement.state import NodeState


class Policy:
    """An order of nodes."""

    name: str

    def key(self, state: NodeState, ask: Ask) -> int:
        """A non-negative number; nodes with a lower one are used first for *ask*."""
        raise NotImplementedError


class BestFit(Policy):
    """Fewest free cores first, then fewest free GPUs: partly used nodes before fresh ones.

    Jobs gather on as few nodes as possible, so that whole nodes stay whole for those who need
    them (RFC 49's test vectors assume this policy).
    """

    name = "best-fit"

    def key(self, state: NodeState, ask: Ask) -> int:
        """(free cores, free GPUs)."""
        return state.ncores << 20 | state.ngpus


POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (BestFit,)}


def policy_named(name: object) -> Policy:
    """The policy called *name*; raises InvalidOption listing the known ones."""
    if isinstance(name, str) and name in POLICIES:
        return POLICIES[name]()
    raise InvalidOption(f"unknown policy {name!r:.60}, known: {', '.join(sorted(POLICIES))}")
