"""Reads what another version of treepool sent or kept: what this one does not know is left out.

A command may be older or newer than the scheduler that it asks, and a scheduler than the one that
wrote the windows in the KVS. What people write, such as a configuration or a snapshot that they
edit, is read elsewhere: there an unknown key is a mistake. A pool is read in sentpool.py, because
most commands need none. Imports no flux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treepool.rfc import idset

if TYPE_CHECKING:
    from treepool.placement.nodes.state import Held
    from treepool.rfc.windows import WindowEntry


def parts_of(shown: Any) -> tuple[Held, ...]:
    """What a job holds: ``parts`` of an answer."""
    return tuple(
        (idset.decode(ranks), idset.decode(cores), idset.decode(gpus))
        for ranks, cores, gpus in shown
    )


def windows_in(value: object) -> tuple[WindowEntry, ...]:
    """The windows in a list; raises InvalidWindow."""
    from treepool.rfc import windows  # few questions are about windows

    return windows.read_all(value, closed=False)
