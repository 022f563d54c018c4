"""The sources of ``treepool encode``: FILE[:NODES], folders, tars, this machine; their limits."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Iterator, Optional

import attrs

from treepool.cli import files
from treepool.cli.screen import USAGE, Stop
from treepool.discovery import libhwloc
from treepool.discovery.hwlocxml import MAX_XML
from treepool.errors import InvalidHardware
from treepool.rfc import hostlist, idset

#: Most files read from a folder or tar, which has one per host.
MAX_FILES = 100_000

#: Most bytes in all files of a tar together, including files that are not XML.
MAX_TAR = 16 << 30

#: The exceptions that reading a damaged tar may raise.
_BROKEN = (tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error)

#: How a file begins in each compression that tarfile reads.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")

_RANKS = re.compile(r"[\d,\-\[\]]+", re.ASCII)
_NUMBERS = re.compile(r"(\d+)", re.ASCII)


@attrs.frozen
class Description:
    """One node's hwloc XML. ``ranks`` (bitmask) and ``hosts`` say what it applies to, if given.

    A file in a folder applies to the host that its name tells. ``name`` is for messages.
    """

    name: str
    xml: bytes
    ranks: int = 0
    hosts: tuple[str, ...] = ()


def read(argument: str) -> Iterator[Description]:
    """The descriptions that ``--xml`` *argument* names: ``PATH``, ``PATH:RANKS``, ``PATH:HOSTS``.

    Raises Stop for a path that cannot be read.
    """
    path, ranks, hosts = _split(argument)
    if path != "-" and os.path.isdir(path):  # Path("") would be the current folder
        _no_target(argument, ranks, hosts)
        yield from _folder(Path(path))
    elif path != "-" and _is_tar(path):
        _no_target(argument, ranks, hosts)
        yield from _tar(path)
    else:
        yield Description(files.shown(path), _bytes(path), ranks, hosts)


def _split(argument: str) -> tuple[str, int, tuple[str, ...]]:
    """The path, and the ranks or hosts after its last colon."""
    path, colon, target = argument.rpartition(":")
    if not colon or not path or os.path.exists(argument) or "/" in target:
        return argument, 0, ()
    with files.naming(f"--xml {argument:.60}", USAGE):
        if _RANKS.fullmatch(target):
            return path, idset.decode(target), ()
        return path, 0, tuple(hostlist.decode(target))


def _no_target(argument: str, ranks: int, hosts: tuple[str, ...]) -> None:
    if ranks or hosts:
        raise Stop(
            f"--xml {argument:.60}: each file of a folder or tar tells its host by its name", USAGE
        )


def _bytes(path: str) -> bytes:
    return _limited(files.read_bytes(path, MAX_XML), files.shown(path))


def _limited(data: bytes, name: str) -> bytes:
    if len(data) > MAX_XML:
        raise Stop(f"{name}: more than {MAX_XML >> 20} MiB of XML is more than a node needs")
    return data


def _folder(path: Path) -> Iterator[Description]:
    with files.using(path, "read"):
        found = [p for p in path.iterdir() if p.suffix == ".xml" and p.is_file()]
    _check_number(len(found), str(path))
    for file in sorted(found, key=lambda p: natural(p.stem)):
        yield Description(str(file), _bytes(str(file)), hosts=(file.stem,))


def _is_tar(path: str) -> bool:
    """Whether *path* is a regular file that begins as a tar does.

    Only the first block is read: a pipe can be read once, and tarfile looks for the end of a file
    of zeros.
    """
    if not os.path.isfile(path):
        return False
    start = files.read_bytes(path, tarfile.BLOCKSIZE - 1)
    try:
        if start.startswith(_COMPRESSED):
            return tarfile.is_tarfile(path)
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    except _BROKEN:  # reported when the tar is read
        return True
    return True


def _tar(path: str) -> Iterator[Description]:
    """The XML files in a tar, in the order of the tar; nothing is written to disk."""
    count = size = 0
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                size += member.size
                if size > MAX_TAR:
                    raise Stop(f"{path}: has more than {MAX_TAR >> 30} GiB in it")
                name = PurePosixPath(member.name)
                if not member.isfile() or name.suffix != ".xml":
                    continue
                count += 1
                _check_number(count, path)
                file = tar.extractfile(member)
                if file is not None:
                    data = _limited(file.read(MAX_XML + 1), f"{path}({name})")
                    yield Description(f"{path}({name})", data, hosts=(name.stem,))
    except _BROKEN as e:
        raise Stop(f"{path}: cannot be read: {e}", USAGE) from None
    _check_number(count, path)


def _check_number(count: int, path: str) -> None:
    if not count:
        raise Stop(f"{path}: has no file HOST.xml")
    if count > MAX_FILES:
        raise Stop(f"{path}: has more than {MAX_FILES} files")


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts node10 after node9."""
    parts = _NUMBERS.split(name)
    return [(int(p), "") if p.isdigit() and len(p) < 19 else (-1, p) for p in parts]


def local() -> Description:
    """This machine's hwloc XML, from hwloc's library or, without it, from the Flux broker.

    Raises Stop, with what to install, if there is neither.
    """
    try:
        return Description("this machine", libhwloc.local_xml())
    except InvalidHardware as e:
        xml = None if libhwloc.saved() else _of_broker()
        if xml is None:
            raise Stop(f"--local: {e}") from None
        return Description("this machine's broker", xml)


def _of_broker() -> Optional[bytes]:
    if not os.environ.get("FLUX_URI"):
        return None
    try:
        from treepool.flux import hardware
    except ImportError:  # this Python has no bindings of Flux
        return None
    return hardware.local_xml()
