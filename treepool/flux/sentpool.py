"""Reads the pool and the rules of queues that another version of treepool sent; see sent.py."""

from __future__ import annotations

from typing import Any, Mapping

from treepool.placement.options import known
from treepool.placement.plan.jobs import POLICIES
from treepool.placement.pool import Pool

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
