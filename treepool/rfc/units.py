"""Units of memory and storage in RFC 14 jobspecs and RFC 49 topos."""

from __future__ import annotations

from typing import Union

_PREFIXES = "KMGTPE"

#: Bytes per unit: decimal (kB or KB, MB, GB, ...) and binary (KiB, MiB, GiB, ...).
BYTES = {
    "B": 1,
    "kB": 1000,
    **{f"{p}B": 1000 ** (i + 1) for i, p in enumerate(_PREFIXES)},
    **{f"{p}iB": 1024 ** (i + 1) for i, p in enumerate(_PREFIXES)},
}


def to_bytes(amount: Union[int, float], unit: str) -> int:
    """*amount* of *unit*, which must be one of BYTES, in whole bytes, rounded down."""
    numerator, denominator = amount.as_integer_ratio()
    whole: int = numerator * BYTES[unit] // denominator
    return whole
