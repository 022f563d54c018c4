"""RFC 31 job constraints: which ranks a job may run on, as one bitmask.

A constraint keeps the tree in which it was written. Host and rank sets stay text, because
"host[0-99999]" takes 13 characters in a pending job and a megabyte when expanded; ``evaluate``
expands them. It works on whole masks, with one step for each operator and not for each rank. A
pool remembers its result under the constraint itself, which hashes and compares by value.

Where RFC 31 is silent, this module follows librlist, which ``flux resource list`` and C schedulers
use: an empty ``properties`` matches all ranks, an empty ``hostlist`` or ``ranks`` matches none, and
a ``not`` of several values negates their conjunction. Several operators in one object must all
hold.
"""

from __future__ import annotations

from typing import Callable, Iterable, Mapping

import attrs

from treepool.errors import InvalidHostlist, InvalidIdset, InvalidJobspec
from treepool.rfc import hostlist, idset
from treepool.rfc.findings import Findings, Reader, T, shown
from treepool.rfc.idset import union
from treepool.rfc.spelling import did_you_mean

#: Operators over text, and over constraints.
TEXT_OPERATORS = ("properties", "hostlist", "ranks")
LOGICAL_OPERATORS = ("and", "or", "not")

#: Deepest nesting of constraint objects accepted.
MAX_DEPTH = 32

#: Most values in one constraint, over all its operators.
MAX_VALUES = 4096

#: Most hosts in all hostlists of one constraint: one for each node of the largest machine.
MAX_HOSTS = 1 << 20

#: Most bits in all rank sets of one constraint: 256 sets of a million ranks.
MAX_BITS = 1 << 28

#: Most characters in all texts of one constraint.
MAX_TEXT = 1 << 22

#: Characters that RFC 20 forbids in a property name. A leading "^" is a negation here.
_FORBIDDEN = frozenset("!&'\"^`|()")


@attrs.frozen(cache_hash=True)
class Constraint:
    """One RFC 31 operator with its values. The order of keys does not affect equality.

    The values are in ``texts`` if ``operator`` is one of TEXT_OPERATORS, and in ``parts`` if it is
    one of LOGICAL_OPERATORS. The default matches every rank.
    """

    operator: str = "and"
    texts: tuple[str, ...] = ()
    parts: tuple[Constraint, ...] = ()


def parse(value: object, pointer: str = "/attributes/system/constraints") -> Constraint:
    """The constraint that JSON object *value* states; *pointer* is its place, for messages.

    Raises InvalidJobspec, with the JSON pointer of the problem, for an unknown operator, a value of
    the wrong type or syntax, and a constraint above the limits of this module.
    """
    findings = Findings()
    found = read_into(findings, value, pointer)
    findings.check(InvalidJobspec)
    return found


def read_into(findings: Findings, value: object, at: str) -> Constraint:
    """The constraint *value*, at JSON pointer *at*; its problems are noted in *findings*."""
    return _Reader(findings).constraint(value, at)


class _Reader:
    """Reads one constraint, and counts what it holds against the limits."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.depth = 0
        self.values = 0
        self.characters = 0
        self.hosts = 0
        self.bits = 0
        readers = {name: self.texts(name) for name in TEXT_OPERATORS}
        readers.update({name: self.parts(name) for name in LOGICAL_OPERATORS})
        self.readers = dict(sorted(readers.items()))

    def constraint(self, value: object, at: str) -> Constraint:
        """constraint: '{' (operator ':' values (',' operator ':' values)*)? '}'"""
        if self.depth == MAX_DEPTH:
            self.findings.note(at, f"constraint nesting depth is above {MAX_DEPTH}")
            return Constraint()
        for operator in value if isinstance(value, dict) else ():
            if self.findings.enough:
                break
            if operator not in TEXT_OPERATORS and operator not in LOGICAL_OPERATORS:
                hint = did_you_mean(operator, self.readers)
                self.findings.note(at, f"unknown constraint operator {shown(operator)}{hint}")
        self.depth += 1
        found = self.findings.members(value, at, self.readers)
        self.depth -= 1
        parts = tuple(found.values())
        return parts[0] if len(parts) == 1 else Constraint("and", parts=parts)

    def parts(self, operator: str) -> Reader[Constraint]:
        """values: '[' constraint* ']'"""

        def read(value: object, at: str) -> Constraint:
            return Constraint(operator, parts=tuple(self.items(value, at, self.constraint)))

        return read

    def texts(self, operator: str) -> Reader[Constraint]:
        """values: '[' text* ']'"""

        def read(value: object, at: str) -> Constraint:
            texts = self.items(value, at, lambda v, at: self.text(operator, v, at))
            return Constraint(operator, texts=tuple(texts))

        return read

    def items(self, value: object, at: str, read: Reader[T]) -> list[T]:
        """The values of an operator, unless there are too many."""
        self.values += len(value) if isinstance(value, list) else 0
        if self.values > MAX_VALUES:
            self.findings.note(at, f"a constraint of more than {MAX_VALUES} values")
            return []
        return self.findings.items(value, at, read)

    def text(self, operator: str, value: object, at: str) -> str:
        """text: property | '^' property | RFC 29 hostlist | RFC 22 idset"""
        text = self.findings.string(value, at)
        beyond = self.bits > MAX_BITS or self.hosts > MAX_HOSTS  # noted already
        if not isinstance(value, str) or beyond:
            return text
        self.characters += len(text)
        if self.characters > MAX_TEXT:
            self.findings.note(at, f"a constraint of more than {MAX_TEXT} characters")
            return ""
        try:
            if operator == "properties":
                self.property(text, at)
            elif operator == "ranks":
                self.bits += idset.decode(text).bit_length()
            else:
                self.hosts += hostlist.size(text)
        except (InvalidIdset, InvalidHostlist) as e:
            self.findings.note(at, str(e))
        if self.bits > MAX_BITS:
            self.findings.note(at, f"a constraint whose ranks need over {MAX_BITS} bits")
        if self.hosts > MAX_HOSTS:
            self.findings.note(at, f"a constraint of more than {MAX_HOSTS} hosts")
        return text

    def property(self, text: str, at: str) -> None:
        """property: '^'? name"""
        name = text[1:] if text.startswith("^") else text
        if not name:
            self.findings.note(at, "a property name is not empty")
        for character in sorted(_FORBIDDEN.intersection(name)):
            message = f"{character} is not allowed in property {shown(text)}"
            self.findings.note(at, message)


def evaluate(
    constraint: Constraint,
    ranks: int,
    properties: Mapping[str, int],
    ranks_on: Callable[[str], Iterable[int]],
) -> int:
    """The mask of those of *ranks* that satisfy *constraint*.

    *ranks* is the mask of the ranks to choose from, and *properties* has the mask of the ranks with
    each property. *ranks_on* gives the ranks on a host, and none for an unknown host. Properties,
    hosts and ranks that do not exist match nothing.
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
    """Those of *ranks* that have each property in *texts*, and none of those marked "^"."""
    for text in texts:
        if text.startswith("^"):
            ranks &= ~properties.get(text[1:], 0)
        else:
            ranks &= properties.get(text, 0)
    return ranks
