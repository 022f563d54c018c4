"""The receipt of a copy: its version, and what was made outside the copy when it was installed.

A copy below a prefix is a user's, so its receipt may say anything. What is read is believed only if
an installation in that place could have written it; otherwise nothing is done. And ``install.py``
removes no link that does not lead to the copy, and no directory that had no such link.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Optional

import attrs

from treepool.errors import InvalidInput, SetupError
from treepool.rfc import document

#: The name of the receipt in a copy.
NAME = "receipt.json"

#: Where the copy is below a prefix.
_BELOW_PREFIX = Path("lib", "treepool")

#: Most bytes of a receipt. One of seven links has about one thousand.
_LONGEST = 1 << 16

#: What PEP 440 allows in a version, of a sensible length.
_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+_-]{0,63}")


@attrs.frozen
class Installed:
    """A copy at ``home``; ``prefix`` is None if it is part of a Flux.

    ``links`` are links outside the copy that lead to it. ``directories`` were made for them and
    for the copy, outermost first.
    """

    home: Path
    prefix: Optional[Path]
    version: str
    links: tuple[Path, ...]
    directories: tuple[Path, ...]

    @classmethod
    def at(cls, home: Path, prefix: Optional[Path] = None) -> Optional[Installed]:
        """What is installed at *home*, below *prefix* if that is given; None without a receipt.

        Raises SetupError for a receipt that no installation there could have written.
        """
        file = home / NAME
        if not os.path.lexists(file):
            return None
        try:
            return cls._read(file, home, prefix)
        except (OSError, InvalidInput) as e:
            why = e.strerror if isinstance(e, OSError) and e.strerror else e
            raise SetupError(
                f"{file}: {why}: nothing was changed; if that is treepool's, remove {home} by hand"
            ) from None

    @classmethod
    def _read(cls, file: Path, home: Path, asked: Optional[Path]) -> Installed:
        told = _object(file)
        if not isinstance(told, dict):
            raise InvalidInput("must be a JSON object")
        version = told.get("version")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise InvalidInput("/version: must be a version")
        text = told.get("prefix", "")
        prefix = None if text is None else _path(text, "/prefix")
        if asked and not _same(prefix, asked):
            raise InvalidInput(f"/prefix: must be {asked}")
        if prefix and not _same(home_below(prefix), home):
            raise InvalidInput("/prefix: this copy is not there")
        paths = {}
        for name in ("links", "directories"):
            if not isinstance(told.get(name), list):
                raise InvalidInput(f"/{name}: must be an array")
            paths[name] = tuple(_path(value, f"/{name}") for value in told[name])
            if prefix and not all(prefix in (path, *path.parents) for path in paths[name]):
                raise InvalidInput(f"/{name}: {prefix} must be above all of them")
        return cls(home, prefix, version, paths["links"], paths["directories"])

    def write(self, directory: Path) -> None:
        """Write the receipt into *directory*."""
        receipt = {
            "prefix": str(self.prefix) if self.prefix else None,
            "version": self.version,
            "links": list(map(str, self.links)),
            "directories": list(map(str, self.directories)),
        }
        (directory / NAME).write_text(json.dumps(receipt, indent=1))


def home_below(prefix: Path) -> Path:
    """Where the copy for *prefix* is."""
    return prefix / _BELOW_PREFIX


def _same(one: Optional[Path], other: Path) -> bool:
    """Whether the two are one place, perhaps by links."""
    return one is not None and os.path.realpath(one) == os.path.realpath(other)


def _object(file: Path) -> Any:
    if not file.is_file():  # a pipe, for example, may never end
        raise InvalidInput("is not a file")
    with file.open("rb") as opened:
        text = opened.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise InvalidInput(f"is longer than {_LONGEST} bytes")
    return document.load(text.decode(errors="replace"), InvalidInput, "is not a receipt")


def _path(value: Any, pointer: str) -> Path:
    """The path that *value* is: absolute, without ``..``, and safe to print."""
    if not isinstance(value, str) or not value.isprintable() or os.path.abspath(value) != value:
        raise InvalidInput(f"{pointer}: must be an absolute path")
    return Path(value)
