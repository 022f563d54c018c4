"""A copy of treepool and of the libraries that it needs, for Flux's Python alone.

The Pythons of users and of jobs do not look there. All libraries are pure Python, so a copy made
with one version of Python usually serves another; Flux's Python tries it before it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Iterator

import treepool
from treepool.errors import SetupError
from treepool.flux.site import FluxSite

#: The package that is copied.
PACKAGE = Path(treepool.__file__).resolve().parent

#: The directories of data, inside the package in a wheel and beside it in a checkout.
_DATA = ("schemas", "testvectors")

#: A requirement of a distribution: its name, and its marker.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)[^;]*(?:;(.*))?", re.S)

#: The command ``treepool``. It ignores the variables of the user's Python, and sets none.
_COMMAND = """\
#!{python} -Es
import sys

sys.path.insert(0, {home!r})
sys.path.append({libraries!r})

from treepool.__main__ import run

sys.exit(run())
"""

#: Imports what the copy is used for; this needs the libraries of every room.
_TRIAL = """
import sys
sys.path[:0] = sys.argv[1:2]
sys.path.extend(sys.argv[2:])
import treepool.flux.sched, treepool.cli.main, treepool.view.text, treepool.discovery.hwloc
"""


def make(stage: Path, home: Path, site: FluxSite) -> None:
    """Make a copy at *stage*, an empty directory; the caller then moves it to *home*."""
    shutil.copytree(PACKAGE, stage / PACKAGE.name)
    for name in _DATA:
        beside = PACKAGE.parent / name
        if beside.is_dir() and not (PACKAGE / name).exists():
            shutil.copytree(beside, stage / PACKAGE.name / name)
    for distribution in _required("treepool", {}).values():
        _copy(distribution, stage)
    command = stage / "bin" / "treepool"
    command.parent.mkdir(exist_ok=True)
    paths = {"python": site.python, "home": str(home), "libraries": str(site.libraries)}
    command.write_text(_COMMAND.format(**paths))
    command.chmod(0o755)
    # Users cannot write there, so each of their commands would compile what it imports.
    _python(site, "-m", "compileall", "-q", "-s", str(stage), "-p", str(home), str(stage))
    _python(site, "-c", _TRIAL, str(stage), str(site.libraries))
    for directory, _, files in os.walk(stage):  # the files may have had any modes
        os.chmod(directory, 0o755)
        for name in files:
            path = Path(directory, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _required(
    name: str, found: dict[str, metadata.Distribution]
) -> dict[str, metadata.Distribution]:
    """*found*, with the requirements of distribution *name* added, apart from its extras."""
    try:
        needs = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        raise SetupError(f"{name} is not installed in {sys.prefix}: pip install it") from None
    for need in needs:
        match = _REQUIREMENT.match(need)
        assert match is not None  # metadata has no line without a name
        other, marker = match[1], match[2] or ""
        if other in found or "extra" in marker:
            continue
        try:
            found[other] = metadata.distribution(other)
        except metadata.PackageNotFoundError:
            if marker:  # perhaps only other Pythons need it: the trial shows whether Flux's does
                continue
            raise SetupError(f"{name} needs {other}, which is not installed") from None
        _required(other, found)
    return found


def _copy(distribution: metadata.Distribution, stage: Path) -> None:
    """Copy the files of *distribution*, including its licence, to *stage*."""
    for file, source in _files(distribution):
        if file.suffix in (".so", ".pyd"):
            name = distribution.metadata["Name"]
            raise SetupError(f"{name}: {source} is compiled for one Python: install a pure one")
        target = stage / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _files(distribution: metadata.Distribution) -> Iterator[tuple[Path, Path]]:
    listed = distribution.files
    if listed is None:
        raise SetupError(f"{distribution.metadata['Name']}: has no list of files: pip install it")
    for file in listed:
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and source.is_file():
            yield Path(*file.parts), source


def _python(site: FluxSite, *words: str) -> None:
    done = subprocess.run(
        [str(site.python), "-I", *words], cwd=os.sep, capture_output=True, text=True
    )
    if done.returncode != 0:
        why = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise SetupError(
            f"Flux's Python ({site.python_version}) cannot use this treepool: {''.join(why)}"
        )
