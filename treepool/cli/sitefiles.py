"""What ``treepool encode --fabric`` takes (a file, a folder, the word cray), and the R with it."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from treepool.cli import files
from treepool.cli.screen import USAGE, Stop
from treepool.discovery.key import Encoded
from treepool.discovery.sites import read as sites
from treepool.discovery.sites.locations import Site
from treepool.errors import InvalidHardware
from treepool.rfc.scheduling import WRITER, is_treepool

#: Most files in a folder, and bytes of each: what nvidia-smi says of 16 GPUs is far smaller.
_MOST_FILES, _MOST_BYTES = 200_000, 1 << 24


def with_fabric(encoded: Encoded, source: str, topology: str = "") -> Encoded:
    """*encoded* with the fabric that *source* describes: a file, a folder, or the word cray.

    *topology* is the one to read of a file of several.
    """
    R = encoded.R
    if R.scheduling is not None and not is_treepool(R.scheduling):
        raise InvalidHardware("R has a scheduling key of another scheduler: take it out first")
    with files.naming(source):
        fabric, warnings = sites.fabric_of(_site(source, R.hosts, topology), R.hosts, R.mask)
    if not fabric:
        raise Stop(f"--fabric: {source:.80}: names none of the hosts of R")
    known = R.key()  # in the ranks of R
    key = {"writer": WRITER, "children": [], **(known.to_dict() if known else {}), "fabric": fabric}
    new = attrs.evolve(R, scheduling=key)
    return attrs.evolve(encoded, R=new, warnings=(*encoded.warnings, *warnings))


def _site(source: str, hosts: tuple[str, ...], topology: str) -> Site:
    if source == "cray":
        return sites.cray(hosts)
    folder = Path(source)
    if source == "-" or not os.path.isdir(source):
        return sites.read(files.read_text(source, table=True), hosts, topology)
    found = sorted(folder.glob("*.txt"))
    if not found or len(found) > _MOST_FILES:
        raise Stop(f"--fabric: {source:.80}: a folder has a file HOST.txt for each host", USAGE)
    known = frozenset(hosts)
    texts = (
        (path.stem, files.read_bytes(str(path), _MOST_BYTES).decode("utf-8", "replace"))
        for path in found
        if path.stem in known
    )
    return sites.nvlink(texts, known)
