"""The option ``flux submit --gpu`` in the syntax of LSF and LavaLite: its keys, values and sizes.

``num=4:mode=exclusive:nvlink=yes:gmodel=A100:gmem=40GB``: pairs in any order, each at most once.
Sizes have the units of RFC 14, or LSF's letters (``40G``), which are powers of 1024. What asks for
no more than treepool gives anyway (``mps=no``) is accepted. The other keys of LSF are refused with
a message that says what treepool has instead.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Callable, NoReturn, Optional

import attrs

from treepool.errors import InvalidOption
from treepool.rfc.count import BYTES
from treepool.rfc.findings import shown
from treepool.rfc.links import ANY_FAST, MAX_MEMORY
from treepool.rfc.quote import did_you_mean

#: Longest text accepted, in characters; a text with every key once fits.
MAX_TEXT = 512

#: Most GPUs that a slot can ask for: Flux reads counts into C ints.
MAX_GPUS = 999_999_999

# None of these patterns matches more digits than Python converts quickly.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_COUNT = re.compile(r"([1-9][0-9]{0,8})(/task|/host)?", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]*)", re.ASCII)

#: Bytes per unit of gmem: the units of RFC 14, and LSF's single letters.
_BYTES = {
    **BYTES,
    **{
        c: 1024 ** (i + 1)
        for i, pair in enumerate(("kK", "mM", "gG", "tT", "pP", "eE"))
        for c in pair
    },
}

#: What to use in treepool instead of the keys that only LSF has.
_INSTEAD = {
    "gvendor": "write gmodel, or a property of the nodes: --requires=gpu-vendor-nvidia",
    "gpack": "write nothing: treepool does not share GPUs",
    "block": "write nothing: flux treepool bind gives tasks their GPUs in blocks",
    "gtile": "for a GPU of each of two sockets write --resources-shape=slot/socket=2/gpu=1",
    "mig": "write --resources-shape with the MIG profile, such as slot/mig-1g.10gb/gpu",
    "aff": "write nothing: cores and GPUs of a slot are near each other (see --locality)",
}


@attrs.frozen
class GpuOption:
    """What a slot asks of its GPUs; None means no demand.

    ``num`` is their number, ``link`` a value of the job option ``gpu_link``, ``model`` their model
    as the user wrote it, ``memory`` the minimum memory of each, in GiB, rounded up.
    """

    num: Optional[int] = None
    link: Optional[str] = None
    model: Optional[str] = None
    memory: Optional[int] = None


def parse(text: str) -> GpuOption:
    """The demands in *text*, which is pair (':' pair)*

    Raises InvalidOption, one line that begins with the column of what is wrong.
    """
    if len(text) > MAX_TEXT:
        _fail(MAX_TEXT, f"the text is longer than {MAX_TEXT} characters")
    given: dict[str, Any] = {}
    start = 0
    for pair in text.split(":"):
        _read_pair(text, start, start + len(pair), given)
        start += len(pair) + 1
    link = next((name for name in ("nvlink", "xgmi") if given.get(name)), None)
    if link is None and given.get("glink"):
        link = ANY_FAST
    return GpuOption(given.get("num"), link, given.get("gmodel"), given.get("gmem"))


def _read_pair(text: str, start: int, end: int, given: dict[str, Any]) -> None:
    """pair: KEY '=' VALUE, the key one of _READERS; its value is put into *given*"""
    match = _KEY.match(text, start)
    if match is None:
        found = shown(text[start]) if start < len(text) else "the end"
        _fail(start, f"expected one of {_KNOWN}, found {found}")
    key = match[0]
    if key not in _READERS:
        instead = f"; {_INSTEAD[key]}" if key in _INSTEAD else did_you_mean(key, _READERS)
        _fail(start, f"unknown key {shown(key)}, known: {_KNOWN}{instead}")
    if key in given:
        _fail(start, f"{key} is given twice")
    if text[match.end() : match.end() + 1] != "=":
        _fail(match.end(), f"expected '=' and a value after {key}")
    column = match.end() + 1
    try:
        given[key] = _READERS[key](text[column:end])
    except InvalidOption as e:
        _fail(column, f"{key}={e}")
    if given.get("nvlink") and given.get("xgmi"):
        _fail(start, "no GPU has both nvlink and xgmi")


# Each of these reads a VALUE, or raises InvalidOption, whose message comes after "KEY=".


def _count(value: str) -> int:
    """VALUE of num: INTEGER '/task'?, from 1 to MAX_GPUS; LSF's task is a slot in treepool"""
    match = _COUNT.fullmatch(value)
    if match is None:
        text = f"a number of GPUs from 1 to {MAX_GPUS} is expected"
        raise InvalidOption(f"{_quoted(value)}: {text}")
    if match[2] == "/host":
        text = f"for GPUs per host take -N with --gpus-per-node={match[1]}"
        raise InvalidOption(f"{value}: num counts GPUs per task: {text}")
    return int(match[1])


def _only(otherwise: str, *values: str) -> Callable[[str], str]:
    """Reads a VALUE that is one of *values*; *otherwise* says why there are no others."""

    def read(value: str) -> str:
        if value not in values:
            raise InvalidOption(f"{_quoted(value)}: {otherwise}")
        return value

    return read


def _flag(value: str) -> bool:
    """VALUE of nvlink, xgmi and glink: 'yes' | 'no'; with no, any link will do"""
    if value not in ("yes", "no"):
        raise InvalidOption(f"{_quoted(value)}: yes or no is expected")
    return value == "yes"


def _model(value: str) -> str:
    """VALUE of gmodel: letters, digits and . _ -"""
    if _MODEL.fullmatch(value) is None:
        text = "the name of a GPU model is expected, such as A100"
        raise InvalidOption(f"{_quoted(value)}: {text}")
    return value


def gib(value: str) -> int:
    """VALUE of gmem: a size with its unit, such as ``40GB``, in GiB rounded up.

    The unit is required: without one, LSF means MB and Flux means GiB. LSF reserves this amount of
    each GPU's memory. treepool never shares a GPU, so here it is the minimum memory of each GPU.
    Raises InvalidOption.
    """
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in _BYTES:
        known = ", ".join((*BYTES, "K to E"))
        raise InvalidOption(
            f"{_quoted(value)}: a size such as 40G or 40GB is expected; units: {known}"
        )
    size: int = math.ceil(Fraction(match[1]) * _BYTES[match[2]] / _BYTES["GiB"])
    if not 0 < size <= MAX_MEMORY:
        raise InvalidOption(f"{_quoted(value)}: more than nothing and at most {MAX_MEMORY} GiB")
    return size


_READERS: dict[str, Callable[[str], Any]] = {
    "num": _count,
    "mode": _only(
        "treepool does not share GPUs, the only mode is exclusive", "exclusive", "exclusive_process"
    ),
    "nvlink": _flag,
    "xgmi": _flag,
    "glink": _flag,
    "j_exclusive": _only("treepool does not share GPUs, write yes or nothing", "yes"),
    "mps": _only(
        "treepool starts no MPS daemon: start one in the job, whose GPUs are no other job's", "no"
    ),
    "gmodel": _model,
    "gmem": gib,
}

_KNOWN = ", ".join(_READERS)


def _quoted(value: str) -> str:
    """*value* for a message, quoted only if it is hard to read without quotes."""
    return value if _MODEL.fullmatch(value) else shown(value)


def _fail(column: int, message: str) -> NoReturn:
    raise InvalidOption(f"column {column + 1}: {message}")
