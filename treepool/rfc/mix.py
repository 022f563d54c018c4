"""A mix of expected jobs as text: ``7*slot/[core=12;gpu=1],3*slot/node{x}``.

The weight before an RFC 46 shape says how often such a job is asked for, relative to the others.
This format is treepool's own.
"""

from __future__ import annotations

import re

import attrs

from treepool.errors import InvalidJobspec, InvalidOption, InvalidShape
from treepool.rfc import jobspec
from treepool.rfc.findings import shown
from treepool.rfc.shape import parse_shape
from treepool.rfc.shapetoken import MAX_TEXT

#: Most kinds of jobs in a text.
MAX_KINDS = 64

#: A weight and what follows it.
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_WEIGHTED = re.compile(rf"\s*({_NUMBER})\s*\*")

#: Shapes have commas too, but none before a weight.
_COMMA = re.compile(rf",(?=\s*{_NUMBER}\s*\*)")


@attrs.frozen
class Kind:
    """A kind of job: the valid ``shape`` of a job, and its ``weight``, which is above 0."""

    shape: str
    weight: float = 1.0


def read_mix(text: str) -> tuple[Kind, ...]:
    """The kinds of jobs in *text*, none if it is empty; raises InvalidOption, which names one."""
    if not text.strip():
        return ()
    if len(text) > MAX_TEXT:
        raise InvalidOption(f"a mix has at most {MAX_TEXT} characters")
    texts = _COMMA.split(text)
    if len(texts) > MAX_KINDS:
        raise InvalidOption(f"more than {MAX_KINDS} kinds of jobs")
    return tuple(read_kind(one) for one in texts)


def read_kind(text: str) -> Kind:
    """The kind of job in *text*, a shape with or without a weight; raises InvalidOption."""
    weighted = _WEIGHTED.match(text)
    shape = (text[weighted.end() :] if weighted else text).strip()
    weight = float(weighted[1]) if weighted else 1.0
    if not weight:
        raise InvalidOption(f"{shown(text)}: a weight is above 0")
    try:
        jobspec.from_resources(parse_shape(shape))
    except InvalidShape as e:
        raise InvalidOption(f"{shown(shape)}: {e.line}") from None
    except InvalidJobspec as e:
        raise InvalidOption(f"{shown(shape)}: {e}") from None
    return Kind(shape, weight)
