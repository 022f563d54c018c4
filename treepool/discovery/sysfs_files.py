"""Reading single files of a sysfs tree: bounded, and what cannot be read is unknown.

sysfs is the kernel's, but a tree may be a copy, or be made by anyone: nothing in it makes a reader
wait, loop, fill memory or fail. Every function here answers None, or nothing, instead.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from pathlib import Path
from typing import Optional

from treepool.errors import InvalidIdset
from treepool.rfc import idset

#: Bytes read of a file. The longest that matters is a list of CPUs, of which Linux has 8192.
MAX_FILE = 1 << 17

#: Entries looked at in a folder.
MAX_ENTRIES = 1 << 16

_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def read_text(path: Path) -> Optional[str]:
    """The text of a file without the blanks around it; None if it is no file of text."""
    try:
        # Not to wait for the other end of a pipe, should the file be one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = bytearray()
        while len(data) <= MAX_FILE:
            more = os.read(descriptor, MAX_FILE + 1 - len(data))
            if not more:
                break
            data += more
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE or not data.isascii():
        return None
    return data.decode("ascii").strip()


def read_int(path: Path) -> Optional[int]:
    """The number in a file, decimal or hexadecimal (0x...); None for anything else."""
    text = read_text(path) or ""
    if _HEX.fullmatch(text):
        return int(text, 16)
    return int(text) if _DECIMAL.fullmatch(text) else None


def read_list(path: Path) -> Optional[int]:
    """The bitmask of a list such as 0-3,8; None for anything else. The list may be empty."""
    text = read_text(path)
    try:
        return None if text is None else idset.decode(text)
    except InvalidIdset:
        return None


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted; none if it is not there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in itertools.islice(entries, MAX_ENTRIES))
    except (OSError, ValueError):
        return []


def numbers(folder: Path, prefix: str, limit: int) -> list[int]:
    """The numbers below *limit* of the entries *prefix*N in a folder, ascending."""
    found = []
    for name in names(folder):
        digits = name[len(prefix) :]
        if name.startswith(prefix) and _DECIMAL.fullmatch(digits) and str(int(digits)) == digits:
            found.append(int(digits))
    return sorted(n for n in found if 0 <= n < limit)
