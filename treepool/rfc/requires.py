"""RFC 35 constraint queries, as ``flux submit --requires`` takes them, made RFC 31 objects.

======== ==================================================== ======================
query    asks for nodes                                       RFC 31
======== ==================================================== ======================
a,b      with both properties; ``^a``: without                ``properties``
host:n1  of these names; a hostlist                           ``hostlist``
rank:0-3 with these ranks; an idset                           ``ranks``
======== ==================================================== ======================

Queries are joined by ``&`` (or a blank, ``and``), which binds more tightly, and ``|`` (``or``).
``-a`` and ``not a`` negate a query, ``not (...)`` all that is in parentheses. Quotes, single or
double, hold what would otherwise end a query.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from treepool.errors import InvalidOption
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean

#: Longest query, and deepest nesting of what it negates and of parentheses.
MAX_TEXT, MAX_DEPTH = 1 << 16, 16

#: The operators, by their name in a query; a query without one names properties.
OPERATORS = {
    "host": "hostlist",
    "hosts": "hostlist",
    "hostlist": "hostlist",
    "rank": "ranks",
    "ranks": "ranks",
    "properties": "properties",
}

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>[-()]|&{1,2}|\|{1,2}|(?:not|and|or)\b)
    |(?P<term>(?:[^()|&\s"']*:(?=["']))?(?:"[^"]+"|'[^']+'|[^()|&\s"']+)))""",
    re.VERBOSE,
)

_AND, _OR = ("&", "&&", "and"), ("|", "||", "or")


def constraint_of(text: str) -> dict[str, Any]:
    """The RFC 31 constraint that query *text* states; raises InvalidOption, with the column.

    Names, hostlists and idsets in it are not checked.
    """
    if len(text) > MAX_TEXT:
        raise InvalidOption(f"more than {MAX_TEXT} characters")
    return _Reader(text).read()


class _Reader:
    """Reads a query token by token: ``sign`` and ``term`` are those of the next token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = self._start = 0
        self._depth = 0
        self._next()

    def read(self) -> dict[str, Any]:
        """query: or end"""
        found = self._or()
        if self._sign:
            self._fail("no '(' before this ')'")
        return found

    def _next(self) -> None:
        rest = self._text[self._end :]
        self._start = self._end + len(rest) - len(rest.lstrip())
        match = _TOKEN.match(self._text, self._end)
        self._sign = self._term = ""
        if match is not None:
            self._end = match.end()
            self._sign, self._term = match["sign"] or "", match["term"] or ""
        elif rest.strip():
            self._fail("a quote without an end")

    def _or(self) -> dict[str, Any]:
        """or: and (('|' | '||' | 'or') and)*"""
        parts = [self._and()]
        while self._sign in _OR:
            self._next()
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else {"or": parts}

    def _and(self) -> dict[str, Any]:
        """and: one (('&' | '&&' | 'and')? one)*"""
        parts = [self._one()]
        while self._term or self._sign in (*_AND, "-", "not", "("):
            if self._sign in _AND:
                self._next()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else {"and": parts}

    def _one(self) -> dict[str, Any]:
        """one: 'not' one / '-' term / '(' or ')' / term"""
        sign = self._sign
        if not sign:
            return self._query()
        if sign not in ("not", "-", "("):
            self._fail(f"a property or OPERATOR:VALUE is expected before {sign!r}")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nesting depth is above {MAX_DEPTH}")
        self._next()
        if sign == "(":
            found = self._or()
            if self._sign != ")":
                self._fail("')' is expected")
            self._next()
        elif sign == "-" and self._sign:
            self._fail("after '-' a property or OPERATOR:VALUE is expected: write not (...)")
        else:
            found = {"not": [self._one()]}
        self._depth -= 1
        return found

    def _query(self) -> dict[str, Any]:
        """term: (OPERATOR ':')? VALUE"""
        if not self._term:
            self._fail("a property or OPERATOR:VALUE is expected")
        name, colon, value = self._term.partition(":")
        if not colon or name[0] in "\"'":
            name, value = "properties", self._term
        if name not in OPERATORS:
            known = ", ".join(("host", "rank", "properties"))
            hint = did_you_mean(name, list(OPERATORS))
            self._fail(f"unknown operator {shown(name)}{hint}, known: {known}")
        value = value.strip("\"'")
        if not value:
            self._fail(f"{name}: needs a value")
        self._next()
        operator = OPERATORS[name]
        return {operator: value.split(",") if operator == "properties" else [value]}

    def _fail(self, problem: str) -> NoReturn:
        raise InvalidOption(f"column {self._start + 1}: {problem}")
