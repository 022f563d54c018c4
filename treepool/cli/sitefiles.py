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
from treepool.discovery.slurmlines import File
from treepool.errors import InvalidHardware
from treepool.rfc.scheduling import WRITER, is_treepool

#: Most files in a folder, and bytes of each: what nvidia-smi says of 16 GPUs is far smaller.
_MOST_FILES, _MOST_BYTES = 200_000, 1 << 24


def with_fabric(encoded: Encoded, source: str, topology: str = "", rail: str = "") -> Encoded:
    """*encoded* with the fabric that *source* describes: a file, a folder, or the word cray.

    *topology* is the one to read of a file of several, *rail* the adapter of hosts that counts.
    """
    R = encoded.R
    if R.scheduling is not None and not is_treepool(R.scheduling):
        raise InvalidHardware("R has a scheduling key of another scheduler: take it out first")
    with files.naming(source):
        site = _site(source, R.hosts, topology, rail)
        fabric, warnings = sites.fabric_of(site, R.hosts, R.mask)
    if not fabric:
        raise Stop(f"--fabric: {source:.80}: names none of the hosts of R")
    known = R.key()  # in the ranks of R
    key = {"writer": WRITER, "children": [], **(known.to_dict() if known else {}), "fabric": fabric}
    new = attrs.evolve(R, scheduling=key)
    told = f"{files.shown(source)}: {sites.told(site, R.hosts)}"
    warnings = [*encoded.warnings, *warnings]
    return attrs.evolve(encoded, R=new, warnings=tuple(warnings), read=(*encoded.read, told))


def slurm(path: str, name: str = "") -> File:
    """A file of Slurm, called *name* in messages, whose ``Include`` names files beside it.

    So do paths of a machine that this is not.
    """

    def beside(included: str) -> File:
        folder = os.path.dirname(path)
        there = os.path.join(folder, included)
        here = os.path.join(folder, os.path.basename(included))
        try:
            return slurm(there if files.is_file(there) else here, included)
        except Stop as e:
            raise InvalidHardware(str(e)) from None

    return File(files.read_text(path, table=True), name, beside)


def _site(source: str, hosts: tuple[str, ...], topology: str, rail: str) -> Site:
    if source == "cray":
        return sites.cray(hosts)
    folder = Path(source)
    if source == "-" or not os.path.isdir(source):
        file = slurm(source)
        return sites.read(file.text, hosts, topology, rail, file.beside)
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
