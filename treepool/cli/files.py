"""Files named on the command line: "-" for stdin, UTF-8, comments; which errors are usage errors.

A file that cannot be read is a usage error (exit status 2), because the question was never asked.
A file that can be read but is invalid is an answer (exit status 1).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Iterator, Optional

from treepool.cli.screen import NO, USAGE, Stop, out_document
from treepool.errors import InvalidInput
from treepool.rfc import document

if TYPE_CHECKING:
    from treepool.rfc.rset import ResourceSet

_PACKAGE = Path(__file__).resolve().parent.parent

_BOM = "\ufeff"

#: The first bytes of a file that is compressed by gzip (RFC 1952).
_GZIP = b"\x1f\x8b"


def shown(path: str) -> str:
    """The name of file *path* in messages."""
    return "<stdin>" if path == "-" else path or "''"


@contextmanager
def naming(path: str, status: int = NO) -> Iterator[None]:
    """Raise Stop, which names file or option *path*, for invalid input that the block finds."""
    try:
        yield
    except InvalidInput as e:
        raise Stop(f"{shown(path)}: {e}", status) from None


def check_stdin(*paths: Optional[str]) -> None:
    """Raise Stop if more than one of *paths* is stdin."""
    if paths.count("-") > 1:
        raise Stop("only one of the files can be stdin", USAGE)


def is_file(word: str) -> bool:
    """Whether *word* is the name of a file."""
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long, or with a null character
        return False


def read_text(path: str, table: bool = False) -> str:
    """The text of a file; raises Stop if it cannot be read, is too long, or is not UTF-8.

    A byte order mark is an error, but in a *table*: spreadsheets write it there. A table may be
    compressed by gzip.
    """
    data = read_bytes(path, document.MAX_TEXT)
    if table and data.startswith(_GZIP):
        data = _unzipped(path, data)
    if len(data) > document.MAX_TEXT:
        raise Stop(f"{shown(path)}: is longer than {document.MAX_TEXT} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        where = f"byte {e.start + 1} is {data[e.start]:#04x}"
        raise Stop(f"{shown(path)}: is not UTF-8 text: {where}") from None
    if not text.strip():
        raise Stop(f"{shown(path)}: is empty")
    if text.startswith(_BOM) and not table:
        raise Stop(f"{shown(path)}: starts with a byte order mark, which JSON and TOML forbid")
    return text.removeprefix(_BOM)


def _unzipped(path: str, data: bytes) -> bytes:
    """What is in *data*, up to one byte more than read_text accepts; raises Stop."""
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            return file.read(document.MAX_TEXT + 1)
    except (OSError, EOFError, zlib.error) as e:
        raise Stop(f"{shown(path)}: cannot be decompressed: {e}") from None


def read_json(path: str) -> Any:
    """The JSON value of a file; raises Stop, with line and column, if it is not JSON."""
    text = read_text(path)
    try:
        return document.load(text, InvalidInput, shown(path))
    except InvalidInput as e:
        raise Stop(str(e)) from None


def read_R(path: str, what: str = "an R") -> Any:
    """The JSON object of a file, which is *what*; raises Stop for any other value.

    A JSON string is refused here because ``ResourceSet.read`` would take it for JSON text.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise Stop(f"{shown(path)}: must be a JSON object, as {what} is")
    return value


def read_resource_set(path: str) -> ResourceSet:
    """The resource set of a file with an R; raises Stop."""
    from treepool.rfc.rset import ResourceSet

    R = read_R(path)
    with naming(path):
        return ResourceSet.read(R)


def content_lines(text: str) -> list[str]:
    """The lines of *text* without the blanks around them, blank lines, and comments after #."""
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@contextmanager
def using(name: object, how: str) -> Iterator[None]:
    """Raise Stop, which names the file *name*, if the block cannot have it "read" or "written"."""
    try:
        yield
    except (OSError, ValueError) as e:  # ValueError: a path with a null character
        reason = getattr(e, "strerror", None) or e
        raise Stop(f"{name}: cannot be {how}: {reason}", USAGE) from None


def write_text(path: str, text: str) -> None:
    """Write *text* to a file, "-" for stdout; raises Stop if it cannot be written."""
    if path == "-":
        out_document(text)
        return
    with using(shown(path), "written"):
        Path(path).write_text(text, encoding="utf-8")


def check_writable(option: str, path: Path) -> None:
    """Raise Stop early, not after minutes, if *path*, given by *option*, cannot be written."""
    with using(f"argument {option}: {path}", "written"):
        path.open("ab").close()


def read_bytes(path: str, most: int) -> bytes:
    """The bytes of a file, up to one more than *most*; raises Stop if it cannot be read.

    A file such as /dev/zero has no end.
    """
    with using(shown(path), "read"):
        if path == "-":
            return stdin().read(most + 1)
        with open(path, "rb") as file:  # Path("") would be the current folder
            return file.read(most + 1)


def stdin() -> IO[bytes]:
    """The standard input; raises OSError if the caller has closed it."""
    if sys.stdin is None:
        raise OSError("stdin is closed")
    return sys.stdin.buffer


def data_folder(name: str) -> Path:
    """The folder of data files *name*, such as ``testvectors``.

    It is inside the package if treepool was installed from a wheel, and beside the package in a
    checkout or an editable install. Raises FileNotFoundError if it is in neither place.
    """
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"no folder {name} in {_PACKAGE} or beside it")
