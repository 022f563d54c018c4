"""Forms of a request: how often, and on which nodes, it takes what it asks of a node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Optional, Union

import attrs

from treepool.rfc.count import Count


class _Form(ABC):
    """What the three forms have in common."""

    __slots__ = ()

    @property
    @abstractmethod
    def counts(self) -> tuple[Count, ...]:
        """The counts of the form, the outermost first. Their product is the number of *units*: what
        is asked of a node, or, where any number of these fits on it, of one of its slots."""

    @property
    def least(self) -> int:
        """How many units there are at least."""
        return prod(count.minimum for count in self.counts)

    @property
    def most(self) -> Optional[int]:
        """How many units there are at most; None for any number."""
        most = 1
        for count in self.counts:
            if count.maximum is None:
                return None
            most *= count.maximum
        return most

    @property
    def fixed(self) -> bool:
        """Whether each count has one value."""
        return all(count.fixed for count in self.counts)

    def largest(self, units: int) -> Optional[tuple[int, ...]]:
        """The largest valid values of the counts with so many *units*, the outermost first; None if
        these are too few."""
        found: list[int] = []
        inside = self.least
        for count in self.counts:
            inside //= count.minimum
            value = count.largest(units // inside)
            if value is None:
                return None
            found.append(value)
            units //= value
        return tuple(found)


@attrs.frozen(cache_hash=True)
class Fill(_Form):
    """``slots`` wherever they fit, or that many domains, if a locality is above the slot."""

    slots: Count

    @property
    def counts(self) -> tuple[Count]:
        """That of the slots."""
        return (self.slots,)


@attrs.frozen(cache_hash=True)
class Nodes(_Form):
    """``nodes`` distinct nodes with slots on each."""

    nodes: Count

    @property
    def counts(self) -> tuple[Count]:
        """That of the nodes."""
        return (self.nodes,)


@attrs.frozen(cache_hash=True)
class Span(_Form):
    """``slots`` that have ``nodes`` distinct nodes each."""

    slots: Count
    nodes: Count

    @property
    def counts(self) -> tuple[Count, Count]:
        """That of the slots, and that of the nodes of each."""
        return self.slots, self.nodes


Form = Union[Fill, Nodes, Span]
