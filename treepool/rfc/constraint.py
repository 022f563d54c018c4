"""RFC 31 job constraints: their operators and limits, and which ranks satisfy one, as a bitmask.

A constraint keeps the tree in which it was written. Host and rank sets stay text, because
"host[0-99999]" takes 13 characters in a pending job and a megabyte when expanded. ``evaluate``
looks for the pool's own hosts and ranks in them. It works on whole masks, with one step for each
operator and not for each rank. A pool remembers its result under the constraint itself, which
hashes and compares by value.

Where RFC 31 is silent, this module follows librlist, which ``flux resource list`` and C schedulers
use: an empty ``properties`` matches all ranks, an empty ``hostlist`` or ``ranks`` matches none, and
a ``not`` of several values negates their conjunction. Several operators in one object must all
hold.
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Iterable, Mapping, Optional

import attrs

from treepool.errors import InvalidHostlist, InvalidIdset, InvalidJobspec
from treepool.rfc import hostlist, idset
from treepool.rfc.findings import Findings, Reader, T, shown
from treepool.rfc.idset import union
from treepool.rfc.quote import did_you_mean

#: Operators over text, and over constraints.
TEXT_OPERATORS = ("properties", "hostlist", "ranks")
LOGICAL_OPERATORS = ("and", "or", "not")

#: Deepest nesting of constraint objects accepted.
MAX_DEPTH = 32

#: Most values in one constraint, over all its operators.
MAX_VALUES = 4096

#: Most hosts, ids and ranges written in all hostlists and rank sets of one constraint. A range
#: counts once. The most take 0.02 s.
MAX_ITEMS = 1 << 14

#: Most pairs of brackets in all hostlists of one constraint.
MAX_BRACKETS = 1 << 11

#: Most characters in all texts of one constraint.
MAX_TEXT = 1 << 22

#: Characters that RFC 20 forbids in a property name. A leading "^" is a negation here.
FORBIDDEN = frozenset("!&'\"^`|()")


@attrs.frozen(cache_hash=True)
class Constraint:
    """One RFC 31 operator with its values. The order of keys does not affect equality.

    The values are in ``texts`` if ``operator`` is one of TEXT_OPERATORS, and in ``parts`` if it is
    one of LOGICAL_OPERATORS. The default matches every rank.
    """

    operator: str = "and"
    texts: tuple[str, ...] = ()
    parts: tuple[Constraint, ...] = ()


def with_property(constraint: Optional[Constraint], name: str) -> Constraint:
    """*constraint*, and that the ranks have property *name*."""
    one = Constraint("properties", (name,))
    return one if constraint is None else Constraint("and", parts=(one, constraint))


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
        self.written = 0
        self.brackets = 0
        self.beyond = False
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
        if not isinstance(value, str) or self.beyond:
            return text
        self.characters += len(text)
        if operator != "properties":
            self.written += text.count(",") + 1
        if operator == "hostlist":
            self.brackets += text.count("[")
        self.limit(at, self.characters, MAX_TEXT, "characters")
        self.limit(at, self.written, MAX_ITEMS, "hosts, ids and ranges")
        self.limit(at, self.brackets, MAX_BRACKETS, "pairs of brackets")
        if self.beyond:
            return ""
        try:
            if operator == "properties":
                self.property(text, at)
            elif operator == "ranks":
                deque(idset.decode_runs(text), 0)
            else:
                for _ in hostlist.parse(text):  # without making its hosts
                    pass
        except (InvalidIdset, InvalidHostlist) as e:
            self.findings.note(at, str(e))
        return text

    def limit(self, at: str, number: int, most: int, what: str) -> None:
        """Note a *number* above *most*, once; the texts after it are not read."""
        if number > most and not self.beyond:
            self.beyond = True
            self.findings.note(at, f"a constraint of more than {most} {what}")

    def property(self, text: str, at: str) -> None:
        """property: '^'? name"""
        name = text[1:] if text.startswith("^") else text
        if not name:
            self.findings.note(at, "a property name is not empty")
        for character in sorted(FORBIDDEN.intersection(name)):
            message = f"{character} is not allowed in property {shown(text)}"
            self.findings.note(at, message)


def evaluate(
    constraint: Constraint,
    ranks: int,
    properties: Mapping[str, int],
    on_hosts: Callable[[Iterable[str]], int],
) -> int:
    """The mask of those of *ranks* that satisfy *constraint*.

    *ranks* is the mask of the ranks to choose from, and *properties* has the mask of the ranks with
    each property. *on_hosts* gives the mask of the ranks on the hosts of RFC 29 hostlists, see
    HostIndex. Properties, hosts and ranks that do not exist match nothing.
    """
    if constraint.operator == "properties":
        return _with_properties(constraint.texts, ranks, properties)
    if constraint.operator == "hostlist":
        return ranks & on_hosts(constraint.texts)
    if constraint.operator == "ranks":
        width = ranks.bit_length()
        return ranks & union(_ids_below(width, text) for text in constraint.texts)
    if constraint.operator == "or" and constraint.parts:
        return union(evaluate(p, ranks, properties, on_hosts) for p in constraint.parts)
    matching = ranks
    for part in constraint.parts:
        matching = evaluate(part, matching, properties, on_hosts)
    return ranks & ~matching if constraint.operator == "not" else matching


def _with_properties(texts: Iterable[str], ranks: int, properties: Mapping[str, int]) -> int:
    """Those of *ranks* that have each property in *texts*, and none of those marked "^"."""
    for text in texts:
        if text.startswith("^"):
            ranks &= ~properties.get(text[1:], 0)
        else:
            ranks &= properties.get(text, 0)
    return ranks


def _ids_below(width: int, text: str) -> int:
    """The mask of the ids of idset *text* that are less than *width*."""
    runs = idset.decode_runs(text)
    return idset.from_runs((first, min(end, width)) for first, end in runs if first < width)
