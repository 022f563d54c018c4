"""``flux-env``: which links and copies of treepool are made in a Flux, where, and which are found.

pip has put treepool and its libraries somewhere, and they stay there. What is installed is one
directory, the *home*: a link to the package, one to the directory of its libraries, the command
``treepool``, and copies of the files that every Flux command or broker reads, so that these work
where the package is not there. Links to files there are in the directories where Flux looks. Any
link in these that leads into the home is ours, so no list of links is kept. Installing again
replaces all of it.

The link to the package is the first thing in a home and the last to go, so that whatever ends an
installation, what is there is known to be treepool's: it can be installed again, and removed.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Iterable, Iterator, Optional

import attrs

import treepool
from treepool.errors import SetupError
from treepool.flux import site
from treepool.flux.site import FluxSite

#: The package, and the directory that has its libraries: one directory has both, except in a clone.
PACKAGE = Path(treepool.__file__).resolve().parent
LIBRARIES = Path(attrs.__file__).resolve().parents[1]

#: Where the home is below a prefix.
_BELOW_PREFIX = Path("lib", "treepool")

#: The command ``treepool``. It ignores the variables of the user's Python, and sets none.
_COMMAND = """\
#!{python} -Es
import sys

sys.path[:0] = {paths!r}
sys.path.append({libraries!r})

from treepool.__main__ import run

sys.exit(run())
"""

#: Imports what Flux's Python needs, which is libraries of every room.
_TRIAL = """
import sys
sys.path[:0] = sys.argv[1:3]
sys.path.extend(sys.argv[3:])
import treepool.flux.sched, treepool.cli.main, treepool.view.text, treepool.discovery.hwloc
"""

#: The files of which the home has copies, and where in the package they are.
_COPIES = {
    Path(site.MODULES, "sched-treepool.py"): Path("flux", "modules", "sched-treepool.py"),
    Path("topology.py"): Path("flux", "cliplugin", "topology.py"),
    Path("rc1.py"): Path("flux", "modprobe", "rc1.d", "treepool.py"),
    Path("treepool.toml"): Path("flux", "modprobe", "modprobe.d", "treepool.toml"),
    Path("treepool.json"): Path("flux", "help.d", "treepool.json"),
}

#: The directories in a home.
_DIRECTORIES = ("bin", site.MODULES)

#: The line of the package that has its version, as PEP 440 allows it.
_VERSION = re.compile(r'^__version__ = "([0-9][0-9A-Za-z.!+_-]{0,63})"', re.M)


@attrs.frozen
class Installed:
    """What is installed at ``home``; ``prefix`` is None if it is part of a Flux.

    ``package`` is where the link to treepool leads, and ``version`` what is there, "" if nothing.
    """

    home: Path
    prefix: Optional[Path]
    package: Path
    version: str

    @classmethod
    def at(cls, home: Path, prefix: Optional[Path] = None) -> Optional[Installed]:
        """What is installed at *home*, below *prefix* if that is given; None if nothing is."""
        link = home / "treepool"
        if home.is_symlink() or not link.is_symlink():
            return None
        if prefix is None and Path(*home.parts[-2:]) == _BELOW_PREFIX:
            above = home.parents[1]
            prefix = above if (above / "bin" / "treepool").is_symlink() else None
        version = None
        with suppress(OSError, UnicodeDecodeError):
            version = _VERSION.search((link / "__init__.py").read_text())
        return cls(home, prefix, link.resolve(), version[1] if version else "")


def home_of(prefix: Optional[Path]) -> Path:
    """Where the home for *prefix* is.

    Without a prefix it is that of this command, or that to which the variables of the shell lead,
    or Flux's.
    """
    if prefix is not None:
        return prefix / _BELOW_PREFIX
    for home in (Path(treepool.__file__).parents[1], *site.homes(os.environ)):
        if Installed.at(home):
            return home
    return FluxSite.here().home


def install(prefix: Optional[Path]) -> tuple[Path, list[Path]]:
    """Install for the Flux on the PATH, in its own directories or in *prefix*.

    Returns the home, and the links that lead into it. What is installed there is replaced. If it
    raises SetupError, nothing is newly installed, and no directory is left that it made.
    """
    flux = FluxSite.here()
    home = flux.home if prefix is None else home_of(prefix)
    links = _links(flux, home, prefix)
    was_there = Installed.at(home, prefix) is not None
    if not was_there and not _is_free(home):
        raise SetupError(f"{home}: exists, and is not treepool's")
    for link in links:
        if os.path.lexists(link) and not _is_ours(link, home):
            raise SetupError(f"{link}: exists, and is not treepool's")
    for directory in () if prefix else unreadable(PACKAGE, LIBRARIES):
        raise SetupError(f"{directory}: other users cannot read it, so Flux could not use it")
    _try(flux)
    umask = os.umask(0o022)
    directories = [home.parent, *(link.parent for link in links), home]
    made = _missing(directories)
    try:
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK):
                raise PermissionError(0, "Permission denied", str(directory))
        _point(home / "treepool", PACKAGE)
        for name in _DIRECTORIES:
            (home / name).mkdir(exist_ok=True)
        _point(home / "libraries", LIBRARIES)
        _write_command(home, flux)
        for copy, file in _COPIES.items():
            _replace(home / copy, (PACKAGE / file).read_text())
        for link, target in links.items():
            _point(link, target)
        for link in set(_ours(links, home)) - set(links):
            _unlink(link)
    except BaseException as e:  # including Ctrl-C
        if not was_there:
            with suppress(OSError):  # the first error is the one to tell
                _remove(links, home, None)
            _remove_empty(*made)
        if isinstance(e, OSError):
            raise _failure(e, prefix) from None
        raise
    finally:
        os.umask(umask)
    return home, list(links)


def uninstall(prefix: Optional[Path]) -> Installed:
    """Remove a home and the links that lead into it; return what was there.

    It is the home below *prefix*, or without one that of ``home_of``.
    """
    home = home_of(prefix)
    found = Installed.at(home, prefix)
    if found is None:
        raise SetupError(f"no treepool is installed in {home}")
    flux = FluxSite.here() if found.prefix is None else None
    try:
        _remove(_links(flux, home, found.prefix), home, found.prefix)
    except OSError as e:
        raise _failure(e, found.prefix) from None
    return found


def unreadable(*places: Path) -> list[Path]:
    """Those of *places*, and of the directories above them, that other users cannot read."""
    all_of_them = dict.fromkeys(d for place in places for d in (place, *place.parents))
    return [d for d in all_of_them if d.is_dir() and d.stat().st_mode & 0o5 != 0o5]


def _links(flux: Optional[FluxSite], home: Path, prefix: Optional[Path]) -> dict[Path, Path]:
    """The links into *home*; with a prefix, variables replace all but the command's."""
    if prefix is not None or flux is None:
        assert prefix is not None
        return {prefix / "bin" / "treepool": home / "bin" / "treepool"}
    return {
        flux.command.parent / "treepool": home / "bin" / "treepool",
        flux.modules / "sched-treepool.py": home / site.MODULES / "sched-treepool.py",
        flux.commands / "flux-treepool.py": home / site.COMMANDS / "flux-treepool.py",
        flux.plugins / "treepool.py": home / "topology.py",
        flux.libraries / "TreePool.py": home / site.POOLS / "TreePool.py",
        flux.modprobe / "treepool.toml": home / "treepool.toml",
        flux.rc1 / "treepool.py": home / "rc1.py",
        flux.help / "treepool.json": home / "treepool.json",
    }


def _try(flux: FluxSite) -> None:
    """Raise SetupError if Flux's Python cannot use this treepool; it also keeps its bytecode."""
    words = [flux.python, "-I", "-c", _TRIAL, PACKAGE.parent, LIBRARIES, flux.libraries]
    done = subprocess.run(list(map(str, words)), cwd=os.sep, capture_output=True, text=True)
    if done.returncode != 0:
        why = "".join(done.stderr.strip().splitlines()[-1:])
        raise SetupError(f"Flux's Python ({flux.python_version}) cannot use this treepool: {why}")


def _write_command(home: Path, flux: FluxSite) -> None:
    paths = [str(home), str(home / "libraries")]
    text = _COMMAND.format(python=flux.python, paths=paths, libraries=str(flux.libraries))
    _replace(home / "bin" / "treepool", text, 0o755)


def _replace(file: Path, text: str, mode: int = 0o644) -> None:
    """Write *file*; users see the old one or the new one, nothing between."""
    with _new(file) as new:
        new.write_text(text)
        new.chmod(mode)


@contextmanager
def _new(file: Path) -> Iterator[Path]:
    """Where the block makes what then replaces *file*; nothing is left of it if that fails.

    An OSError names *file*.
    """
    new = _beside(file)
    try:
        with suppress(FileNotFoundError):
            new.unlink()
        yield new
        new.replace(file)
    except BaseException as e:
        with suppress(OSError):
            new.unlink()
        if isinstance(e, OSError):
            raise OSError(e.errno, e.strerror or str(e), str(file)) from None
        raise


def _beside(file: Path) -> Path:
    return file.with_name(f".{file.name}.new")


def _missing(directories: Iterable[Path]) -> list[Path]:
    """Those of *directories* and of all above them that do not exist, inner ones first."""
    above = {path for one in directories for path in (one, *one.parents)}
    return sorted((path for path in above if not os.path.lexists(path)), reverse=True)


def _is_free(home: Path) -> bool:
    """Whether there is nothing at *home*, or what an installation has that was killed at once."""
    if not os.path.lexists(home):
        return True
    if home.is_symlink() or not home.is_dir():
        return False
    return not set(os.listdir(home)) - {_beside(home / "treepool").name}


def _ours(links: Iterable[Path], home: Path) -> Iterator[Path]:
    """The links beside *links* that lead into *home*, also those of other versions."""
    for directory in {link.parent for link in links}:
        with suppress(FileNotFoundError):
            yield from (path for path in directory.iterdir() if _is_ours(path, home))


def _is_ours(link: Path, home: Path) -> bool:
    """Whether *link* leads into *home*, from which other links may lead elsewhere."""
    where = os.path.realpath(home)
    return link.is_symlink() and any(
        os.path.realpath(above) == where for above in Path(os.readlink(link)).parents
    )


def _point(link: Path, target: Path) -> None:
    """Make *link* point to *target*; users see the old link or the new one, nothing between."""
    with _new(link) as new:
        new.symlink_to(target)


def _remove(links: Iterable[Path], home: Path, prefix: Optional[Path]) -> None:
    """Remove *home* and all links into it, and what is then empty of it and of *prefix*."""
    for link in list(_ours(links, home)):
        _unlink(link)
    copies = (home / copy for copy in _COPIES)
    for file in (*copies, home / "bin" / "treepool", home / "libraries", home / "treepool"):
        for path in (_beside(file), file):  # the first is of an installation that was killed
            with suppress(FileNotFoundError):
                _unlink(path)
    above = () if prefix is None else (home.parent, prefix / "bin", prefix)
    _remove_empty(*(home / name for name in _DIRECTORIES), home, *above)


def _unlink(file: Path) -> None:
    """Remove *file*, and the bytecode that Python cached beside it."""
    file.unlink()
    cached = Path(cache_from_source(str(file))).parent
    if file.suffix == ".py" and cached.is_dir():
        for code in cached.glob(f"{file.stem}.*.pyc"):
            code.unlink()
        _remove_empty(cached)


def _remove_empty(*directories: Path) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()


def _failure(error: OSError, prefix: Optional[Path]) -> SetupError:
    where, why = error.filename, error.strerror or str(error)
    if isinstance(error, PermissionError) and not prefix:
        why += ": run it as root, or give --prefix DIR"
    return SetupError(f"{where}: {why}" if where else why)
