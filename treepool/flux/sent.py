"""Reads what another version of treepool sent or kept: what this one does not know is left out.

A command may be older or newer than the scheduler that it asks, and a scheduler than the one that
wrote the windows in the KVS. What people write, such as a configuration or a snapshot that they
edit, is read elsewhere: there an unknown key is a mistake. Imports no flux.
"""

from __future__ import annotations

from typing import Any, Mapping

from treepool.placement.nodes.state import Held
from treepool.placement.options import known
from treepool.placement.plan.jobs import POLICIES
from treepool.placement.pool import Pool
from treepool.rfc import idset
from treepool.rfc import windows as rfc_windows
from treepool.rfc.windows import WindowEntry

#: What the rule of a queue says.
_OF_RULE = "policy", "depth"


def pool_of(answer: Mapping[str, Any]) -> Pool:
    """The pool in the first answer to ``look``; raises InvalidR or InvalidKey."""
    pool = Pool(answer["R"])
    pool.follow_options(**known(answer["options"]))
    return pool


def rules_of(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rules of queues in the first answer to ``look``: those with a policy that is known."""
    return {
        name: {key: rule[key] for key in _OF_RULE if key in rule}
        for name, rule in answer.get("rules", {}).items()
        if rule.get("policy") in POLICIES
    }


def parts_of(shown: Any) -> tuple[Held, ...]:
    """What a job holds: ``parts`` of an answer."""
    return tuple(
        (idset.decode(ranks), idset.decode(cores), idset.decode(gpus))
        for ranks, cores, gpus in shown
    )


def windows_in(value: object) -> tuple[WindowEntry, ...]:
    """The windows in a list; raises InvalidWindow."""
    return rfc_windows.read_all(value, closed=False)
