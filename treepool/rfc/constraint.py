"""RFC 31 job constraints: which ranks a job may run on, as one bitmask.

A constraint is kept as the tree it was written as. Host and rank sets stay text: "host[0-99999]"
takes 13 characters in a pending job and a megabyte when expanded, so ``evaluate`` expands it. It
works on whole masks, one step per operator and not per rank; a pool remembers its result under the
constraint itself, which hashes and compares by value.

Where RFC 31 is silent, librlist (what ``flux resource list`` and C schedulers use) is followed: an
empty ``properties`` matches all, an empty ``hostlist`` or ``ranks`` nothing, and a ``not`` of
several values negates their conjunction. Several operators in one object must all hold.
"""

from __future__ import annotations

from typing import Callable, Iterable, Mapping

import attrs

from treepool.errors import InvalidHostlist, InvalidIdset, InvalidJobspec
from treepool.rfc import hostlist, idset
from treepool.rfc.findings import shown
from treepool.rfc.idset import union

#: Operators over text, and over constraints.
TEXT_OPERATORS = ("properties", "hostlist", "ranks")
LOGICAL_OPERATORS = ("and", "or", "not")

#: Deepest nesting of constraint objects accepted.
MAX_DEPTH = 32

#: Most values in one constraint, over all its operators.
MAX_VALUES = 4096

#: Most hosts in one constraint, over all its hostlists: one for each node of the largest machine.
MAX_HOSTS = 1 << 20

#: Most bits of its rank sets, each as wide as its largest rank: 256 sets of a million ranks.
MAX_BITS = 1 << 28

#: Most characters in the texts of one constraint.
MAX_TEXT = 1 << 22

#: What RFC 20 forbids in a property name; here a leading "^" is a negation.
_FORBIDDEN = frozenset("!&'\"^`|()")


@attrs.frozen(cache_hash=True)
class Constraint:
    """One RFC 31 operator with its values; equal when written the same, key order aside.

    ``operator`` is in TEXT_OPERATORS, and ``texts`` are its values, or in LOGICAL_OPERATORS, and
    ``parts`` are. The default matches every rank.
    """

    operator: str = "and"
    texts: tuple[str, ...] = ()
    parts: tuple[Constraint, ...] = ()


def parse(value: object, pointer: str = "/attributes/system/constraints") -> Constraint:
    """The constraint that JSON object *value* states; *pointer* is its place, for messages.

    Raises InvalidJobspec, with the JSON pointer of the culprit, for an unknown operator, a value of
    the wrong type or syntax, and a constraint above the limits of this module.
    """
    return _Reader().constraint(value, pointer, 1)


class _Reader:
    """Reads one constraint, counting what it holds against the limits."""

    def __init__(self) -> None:
        self.values = 0
        self.characters = 0
        self.hosts = 0
        self.bits = 0

    def constraint(self, value: object, pointer: str, depth: int) -> Constraint:
        """constraint: '{' (operator ':' values (',' operator ':' values)*)? '}'"""
        if depth > MAX_DEPTH:
            raise InvalidJobspec(f"{pointer}: constraint nesting depth is above {MAX_DEPTH}")
        if not isinstance(value, dict):
            raise InvalidJobspec(f"{pointer}: a constraint is an object, not {shown(value)}")
        for operator in value:
            if operator not in TEXT_OPERATORS and operator not in LOGICAL_OPERATORS:
                raise InvalidJobspec(f"{pointer}: unknown constraint operator {shown(operator)}")
        parts = tuple(
            self.operation(operator, value[operator], f"{pointer}/{operator}", depth)
            for operator in sorted(value)
        )
        return parts[0] if len(parts) == 1 else Constraint("and", parts=parts)

    def operation(self, operator: str, values: object, pointer: str, depth: int) -> Constraint:
        """values: '[' (constraint | text)* ']'"""
        if not isinstance(values, list):
            raise InvalidJobspec(f"{pointer}: the value is a list, not {shown(values)}")
        self.values += len(values)
        if self.values > MAX_VALUES:
            raise InvalidJobspec(f"{pointer}: a constraint of more than {MAX_VALUES} values")
        if operator in LOGICAL_OPERATORS:
            parts = (
                self.constraint(value, f"{pointer}/{i}", depth + 1)
                for i, value in enumerate(values)
            )
            return Constraint(operator, parts=tuple(parts))
        texts = (self.text(operator, value, f"{pointer}/{i}") for i, value in enumerate(values))
        return Constraint(operator, texts=tuple(texts))

    def text(self, operator: str, value: object, pointer: str) -> str:
        """text: property | '^' property | RFC 29 hostlist | RFC 22 idset"""
        if not isinstance(value, str):
            raise InvalidJobspec(f"{pointer}: a string is wanted, not {shown(value)}")
        self.characters += len(value)
        if self.characters > MAX_TEXT:
            raise InvalidJobspec(f"{pointer}: a constraint of more than {MAX_TEXT} characters")
        try:
            if operator == "properties":
                _check_property(value, pointer)
            elif operator == "ranks":
                self.bits += idset.decode(value).bit_length()
            else:
                self.hosts += hostlist.size(value)
        except (InvalidIdset, InvalidHostlist) as e:
            raise InvalidJobspec(f"{pointer}: {e}") from None
        if self.bits > MAX_BITS:
            raise InvalidJobspec(f"{pointer}: a constraint whose ranks need over {MAX_BITS} bits")
        if self.hosts > MAX_HOSTS:
            raise InvalidJobspec(f"{pointer}: a constraint of more than {MAX_HOSTS} hosts")
        return value


def _check_property(text: str, pointer: str) -> None:
    """property: '^'? name"""
    name = text[1:] if text.startswith("^") else text
    if not name:
        raise InvalidJobspec(f"{pointer}: a property name is not empty")
    for character in name:
        if character in _FORBIDDEN:
            raise InvalidJobspec(f"{pointer}: {character} is not allowed in property {shown(text)}")


def evaluate(
    constraint: Constraint,
    ranks: int,
    properties: Mapping[str, int],
    ranks_on: Callable[[str], Iterable[int]],
) -> int:
    """The mask of those of *ranks* that satisfy *constraint*.

    *ranks* is the mask of the ranks to choose from, *properties* the mask of the ranks that have
    each property, and *ranks_on* gives the ranks on a host, none for a host the instance
    does not have. Properties, hosts and ranks that do not exist match nothing.
    """
    if constraint.operator == "properties":
        return _with_properties(constraint.texts, ranks, properties)
    if constraint.operator == "hostlist":
        hosts = (host for text in constraint.texts for host in hostlist.decode(text))
        return ranks & idset.from_ids(rank for host in hosts for rank in ranks_on(host))
    if constraint.operator == "ranks":
        return ranks & union(idset.decode(text) for text in constraint.texts)
    if constraint.operator == "or" and constraint.parts:
        return union(evaluate(p, ranks, properties, ranks_on) for p in constraint.parts)
    matching = ranks
    for part in constraint.parts:
        matching = evaluate(part, matching, properties, ranks_on)
    return ranks & ~matching if constraint.operator == "not" else matching


def _with_properties(texts: Iterable[str], ranks: int, properties: Mapping[str, int]) -> int:
    """Those of *ranks* with every property in *texts*, and without those marked "^"."""
    for text in texts:
        if text.startswith("^"):
            ranks &= ~properties.get(text[1:], 0)
        else:
            ranks &= properties.get(text, 0)
    return ranks
