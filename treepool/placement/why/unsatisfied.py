"""Which part of a job's constraints no node satisfies.

The message names the smallest part that fails: a property that no node has, a host that does not
exist, or a few parts that some node satisfies one by one but no node satisfies together.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from treepool.rfc.constraint import Constraint
from treepool.rfc.findings import shown
from treepool.rfc.quote import MAX_SHOWN, shortened

#: The ranks that satisfy a constraint, such as Inventory.matching.
Matching = Callable[[Constraint], int]

#: How many parts are tried alone. A constraint can have 4096 parts, and the ranks of each part take
#: up to one bit per rank.
_MAX_TRIED = 64

#: How many parts one message names.
_MAX_NAMED = 4

#: Longest reason, in characters.
_MAX_REASON = 300

#: How many alternatives of an ``or`` get a reason in the message.
_MAX_ALTERNATIVES = 3


def unsatisfied(constraint: Optional[Constraint], matching: Matching) -> str:
    """Why no node satisfies *constraint*, as text to append to a sentence that says so.

    For example ": no node has property amd-mi300". "" if no small part explains it, or if there are
    no nodes at all. *matching* returns the ranks that satisfy a constraint.
    """
    if constraint is None or not matching(Constraint()):
        return ""
    why = _why(constraint, matching)
    return f": {shortened(why, _MAX_REASON)}" if why else ""


def _why(constraint: Constraint, matching: Matching) -> str:
    """Why no node satisfies *constraint*; "" if no small part explains it."""
    operator, texts, parts = constraint.operator, constraint.texts, constraint.parts
    if operator == "hostlist":
        return f"no node is called {_one_of(texts)}" if texts else "an empty hostlist has no node"
    if operator == "ranks":
        return f"no node has rank {_one_of(texts)}" if texts else "an empty list of ranks has none"
    if operator == "or":
        alternatives = _alternatives(constraint)
        reasons = [_why(one, matching) for one in alternatives[:_MAX_ALTERNATIVES]]
        more = len(alternatives) - len(reasons)
        rest = f", nor is any of {more} other alternatives satisfied" if more else ""
        return ", and ".join(reasons) + rest if all(reasons) else ""
    if operator == "not":
        if not parts:
            return "a not without values is satisfied by no node"
        return _why_excluded(Constraint("and", parts=parts))
    return _why_not_all(_operands(constraint), matching)


def _why_excluded(constraint: Constraint) -> str:
    """Why no node remains when the nodes that satisfy *constraint* are excluded."""
    operands = _operands(constraint)
    if not operands:
        return "a not of what every node satisfies is satisfied by none"
    if len(operands) == 1 and operands[0].operator == "properties":
        (text,) = operands[0].texts
        return _no_node_has(text[1:]) if text[:1] == "^" else _every_node_has(text)
    return f"every node satisfies {_all_of(operands)}"


def _operands(constraint: Constraint) -> list[Constraint]:
    """The constraints that must all hold for *constraint* to hold, each with one property."""
    if constraint.operator == "properties":
        return [Constraint("properties", (text,)) for text in constraint.texts]
    if constraint.operator == "and":
        return [operand for part in constraint.parts for operand in _operands(part)]
    return [constraint]


def _alternatives(constraint: Constraint) -> list[Constraint]:
    """The constraints of which one must hold for *constraint* to hold; none is an ``or``."""
    if constraint.operator == "or" and constraint.parts:
        return [one for part in constraint.parts for one in _alternatives(part)]
    return [constraint]


def _why_not_all(operands: Sequence[Constraint], matching: Matching) -> str:
    """Why no node satisfies all of *operands*."""
    operands = operands[:_MAX_TRIED]
    masks: list[int] = []
    for operand in operands:
        masks.append(matching(operand))
        if masks[-1]:
            continue
        if operand.operator != "properties":
            return _why(operand, matching)
        (text,) = operand.texts
        return _every_node_has(text[1:]) if text[:1] == "^" else _no_node_has(text)
    few = [operands[i] for i in _contradiction(masks)]
    if not few:
        return ""
    all_ = "both" if len(few) == 2 else "all of them"
    return f"some node satisfies each of {_all_of(few)}, but none satisfies {all_}"


def _contradiction(masks: Sequence[int]) -> list[int]:
    """The indexes of a few *masks* that have no rank in common; empty if that takes many masks.

    The last mask of the shortest prefix without a common rank is needed. The masks before it are
    then shortened in the same way, until the needed masks have no rank in common.
    """
    needed: list[int] = []
    common = -1
    while common:
        left, last = common, -1
        for i, mask in enumerate(masks):
            left &= mask
            if not left:
                last = i
                break
        # No prefix is contradictory if the contradiction is in parts that were not tried.
        if last < 0 or len(needed) == _MAX_NAMED:
            return []
        needed.insert(0, last)
        common &= masks[last]
        masks = masks[:last]
    return needed


def _all_of(operands: Sequence[Constraint]) -> str:
    """*operands* in words: a, b and c."""
    words = [_words(operand) for operand in operands[:_MAX_NAMED]]
    more = len(operands) - len(words)
    if more:
        words.append(f"{more} more")
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _words(constraint: Constraint) -> str:
    """*constraint* in a few words."""
    operator, texts, parts = constraint.operator, constraint.texts, constraint.parts
    if operator == "properties":
        words = " and ".join(map(_property, texts)) or "no properties"
    elif operator == "hostlist":
        words = f"host {_one_of(texts)}"
    elif operator == "ranks":
        words = f"rank {_one_of(texts)}"
    elif operator == "not":
        words = f"not ({' and '.join(map(_words, parts))})"
    else:
        words = f"({f' {operator} '.join(map(_words, parts))})"
    return shortened(words)


def _property(text: str) -> str:
    return f"no property {_plain(text[1:])}" if text[:1] == "^" else f"property {_plain(text)}"


def _no_node_has(name: str) -> str:
    return f"no node has property {_plain(name)}"


def _every_node_has(name: str) -> str:
    return f"every node has property {_plain(name)}"


def _one_of(texts: Sequence[str]) -> str:
    """A host or rank set as the user wrote it."""
    return _plain(",".join(texts[:MAX_SHOWN]))  # _plain() would cut off more texts anyway


def _plain(text: str) -> str:
    """*text*, without quotes if it is short and printable."""
    return text if text.isprintable() and len(text) <= MAX_SHOWN else shown(text)
