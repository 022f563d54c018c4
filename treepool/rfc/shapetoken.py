"""The tokens of RFC 46 shapes: how to read and quote them, limits, and the label of a lone slot.

RFC 46 does not define which characters are special and how quotes work. Here:

- NAME is an unquoted type, label or key. It contains no blanks, control characters or any of
  ``= [ ] { } ; , / : ' "``. It does not begin with ``+`` or ``-``, which mean true and false.
- WORD is an unquoted value. It may also contain ``=``, ``/`` and ``:``, and may begin with ``+`` or
  ``-``: ``1+``, ``2-8:2:*`` and ``/mnt/nvme`` need no quotes.
- DOUBLE is a JSON string with JSON's escapes. SINGLE is literal text without escapes.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn, Optional

from treepool.errors import InvalidShape
from treepool.rfc import document

#: Longest shape read or written, in characters.
MAX_TEXT = 1 << 16

#: Deepest nesting of resource lists, and of objects and arrays in a value.
MAX_DEPTH = 32

#: Longest number, in characters. Python converts longer ones slowly or not at all.
MAX_NUMBER = 1000

#: The label of a single slot without one (RFC 46, "Examples").
DEFAULT_LABEL = "default"

_BLANKS = re.compile(r"[ \t\r\n\f\v]*")

# Every pattern matches or fails in linear time.
RULES = {
    **{character: re.compile(re.escape(character)) for character in "[]{};,/:=+-"},
    "NAME": re.compile(r"(?![+-])[^\s\x00-\x1f\x7f=\[\]{};,/:'\"]+"),
    "WORD": re.compile(r"[^\s\x00-\x1f\x7f\[\]{};,'\"]+"),
    "COUNT": re.compile(r"[^\s\x00-\x1f\x7f\[\]{};/]+"),
    "DOUBLE": re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL),
    "SINGLE": re.compile(r"'[^']*'"),
    "NUMBER": re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"),
}

#: Words that are JSON values other than strings.
LITERALS = {"null": None, "true": True, "false": False}


class Tokens:
    """Reads a text token by token. ``column`` is where the next one begins, after blanks."""

    __slots__ = ("column", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.column = 0
        self._move(0)

    def _move(self, column: int) -> None:
        blanks = _BLANKS.match(self.text, column)
        self.column = column if blanks is None else blanks.end()

    def fail(self, message: str, column: Optional[int] = None) -> NoReturn:
        """Raise InvalidShape at *column*, or at the next token."""
        raise InvalidShape(message, self.text, self.column if column is None else column)

    def fail_expecting(self, what: str) -> NoReturn:
        """Raise InvalidShape for the next token, because *what* is expected in its place."""
        found = repr(self.text[self.column]) if self.column < len(self.text) else "the end"
        self.fail(f"expected {what}, found {found}")

    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self.column == len(self.text)

    def check(self, rule: str) -> bool:
        """Whether the next token is a *rule*, without reading it."""
        return RULES[rule].match(self.text, self.column) is not None

    def accept(self, rule: str) -> Optional[str]:
        """Read the next token if it is a *rule*; None if it is not."""
        match = RULES[rule].match(self.text, self.column)
        if match is None:
            return None
        self._move(match.end())
        return match[0]

    def expect(self, rule: str, what: Optional[str] = None) -> str:
        """Read the next token, which must be a *rule*. Messages call it *what*."""
        token = self.accept(rule)
        if token is None:
            self.fail_expecting(repr(rule) if what is None else what)
        return token

    def quoted(self) -> Optional[str]:
        """QUOTED: DOUBLE | SINGLE, without its quotes; None if the next token is neither."""
        column = self.column
        token = self.accept("SINGLE")
        if token is not None:
            return token[1:-1]
        token = self.accept("DOUBLE")
        if token is None:
            if self.text[column : column + 1] in ("'", '"'):
                self.fail("a quote that is not closed")
            return None
        try:
            return str(json.loads(token))
        except json.JSONDecodeError as e:
            self.fail(f"not a JSON string: {document.fault(e).lower()}", column + e.pos)

    def string(self, what: str) -> str:
        """STRING: QUOTED | NAME"""
        quoted = self.quoted()
        return self.expect("NAME", what) if quoted is None else quoted


def word(text: str) -> str:
    """WORD: a string value, quoted where it would be read as anything else"""
    plain = RULES["WORD"].fullmatch(text) is not None and text.isprintable()
    if plain and text not in LITERALS and RULES["NUMBER"].fullmatch(text) is None:
        return text
    return _quoted(text)


def string(text: str) -> str:
    """STRING: a type, label or key, quoted where it needs to be"""
    plain = RULES["NAME"].fullmatch(text) is not None and text.isprintable()
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    # Letters of other alphabets stay readable. Characters that no terminal shows are escaped.
    return json.dumps(text, ensure_ascii=not text.isprintable())
