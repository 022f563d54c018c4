"""Install treepool into a Flux, or into a directory of the user's, and uninstall it.

An installation is one directory, the *copy* (``copying.py``), and links to its files in the
directories where Flux looks. Its receipt (``receipt.py``) says which links and directories were
made. Installing again replaces the copy and the links. No step depends on the umask.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Iterator, Optional, Sequence

from treepool import __version__
from treepool.errors import SetupError
from treepool.flux import copying, receipt, site
from treepool.flux.receipt import Installed
from treepool.flux.site import FluxSite

#: The names of directories beside the copy while it is made or removed.
_NEW, _OLD = ".treepool-install.new", ".treepool-install.old"


def home_of(prefix: Optional[Path]) -> Path:
    """Where the copy for *prefix* is.

    Without a prefix it is this treepool, or that to which the variables of the shell lead, or
    Flux's.
    """
    if prefix is not None:
        return receipt.home_below(prefix)
    for home in (copying.PACKAGE.parent, *site.homes(os.environ)):
        if Installed.at(home):
            return home
    return FluxSite.here().home


def install(prefix: Optional[Path]) -> Installed:
    """Install for the Flux on the PATH, in its own directories or in *prefix*.

    An earlier installation there is replaced. If it raises SetupError, nothing has changed.
    """
    flux = FluxSite.here()
    home = flux.home if prefix is None else home_of(prefix)
    if home.resolve() == copying.PACKAGE.parent:
        raise SetupError("this is the installed treepool: use another one to install that")
    links = _links(flux, home, prefix)
    made: list[Path] = []
    umask = os.umask(0o022)
    try:
        for directory in (home.parent, *(link.parent for link in links)):
            made += _make(directory)
        with _alone(home):
            return _replace(flux, home, prefix, links, made)
    except BaseException as e:  # including Ctrl-C
        _remove_empty(made)
        if isinstance(e, OSError):
            raise _failure(e, prefix) from None
        raise
    finally:
        os.umask(umask)


def uninstall(prefix: Optional[Path]) -> Installed:
    """Remove a copy, its links, and the directories made for them; return what was there.

    It is the copy below *prefix*, or without one that of ``home_of``.
    """
    home = home_of(prefix)
    found = None
    if not home.parent.is_dir():
        raise SetupError(f"no treepool is installed in {home}")
    try:
        with _alone(home):
            found = _before(home, prefix)
            if found is None:
                raise SetupError(f"no treepool is installed in {home}")
            unlinked = [link for link in found.links if _unlink(link, home)]
            old = home.with_name(_OLD)
            home.rename(old)  # now there is no receipt at home, even if the removal is interrupted
            shutil.rmtree(old)
    except OSError as e:
        raise _failure(e, found.prefix if found else None) from None
    held = [Path(os.path.realpath(path.parent), path.name) for path in (home, *unlinked)]
    ours = {directory for path in held for directory in path.parents}
    _remove_empty([d for d in found.directories if Path(os.path.realpath(d)) in ours])
    return found


def _replace(
    flux: FluxSite, home: Path, prefix: Optional[Path], links: dict[Path, Path], made: list[Path]
) -> Installed:
    """Replace the copy at *home* and its links; *made* are directories that were made for them."""
    before = _before(home, prefix)
    if home.exists() and before is None:
        raise SetupError(f"{home}: exists, and has no receipt of treepool")
    for link in links:
        if os.path.lexists(link) and not _is_ours(link, home):
            raise SetupError(f"{link}: exists, and is not treepool's")
    stage, old = home.with_name(_NEW), home.with_name(_OLD)
    old_links = set(before.links if before else ())
    replaced = False
    try:
        for rest in (stage, old):
            shutil.rmtree(rest, ignore_errors=True)
        stage.mkdir()
        copying.make(stage, home, flux)
        kept = before.directories if before else ()
        above = () if prefix is None else prefix.parents  # these stay
        directories = (*kept, *(directory for directory in made if directory not in above))
        done = Installed(home, prefix, __version__, tuple(links), directories)
        done.write(stage)
        if before is not None:
            home.rename(old)
        stage.rename(home)
        replaced = True
        for link, target in links.items():
            _point(link, target)
        for link in old_links - set(links):
            _unlink(link, home)
    except BaseException:
        if replaced:
            for link in set(links) - old_links:
                _unlink(link, home)
            home.rename(stage)
        shutil.rmtree(stage, ignore_errors=True)
        if old.exists() and not home.exists():
            old.rename(home)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return done


def _before(home: Path, prefix: Optional[Path]) -> Optional[Installed]:
    """What is installed at *home*, where an interrupted command may have left it beside it."""
    if home.is_symlink():
        raise SetupError(f"{home}: is a link, which is not replaced")
    old = home.with_name(_OLD)
    if not home.exists() and (old / receipt.NAME).exists():
        old.rename(home)
    return Installed.at(home, prefix)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep other commands from installing or removing at *home* meanwhile."""
    directory = os.open(home.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise SetupError(f"{home}: another treepool flux-env is at work there") from None
    except OSError:  # some network file systems cannot lock directories
        pass
    try:
        yield
    finally:
        os.close(directory)


def _links(flux: FluxSite, home: Path, prefix: Optional[Path]) -> dict[Path, Path]:
    """The links to the copy at *home*; with a prefix, variables replace all but the command's."""
    if prefix is not None:
        return {prefix / "bin" / "treepool": home / "bin" / "treepool"}
    return {
        flux.command.parent / "treepool": home / "bin" / "treepool",
        flux.modules / "sched-treepool.py": home / site.MODULES / "sched-treepool.py",
        flux.commands / "flux-treepool.py": home / site.COMMANDS / "flux-treepool.py",
        flux.plugins / "treepool.py": home / site.PLUGINS / "topology.py",
        flux.libraries / "TreePool.py": home / site.POOLS / "TreePool.py",
        flux.modprobe / "treepool.toml": home / site.MODPROBE / "modprobe.d" / "treepool.toml",
        flux.help / "treepool.json": home / "treepool/flux/help.d/treepool.json",
    }


def _is_ours(link: Path, home: Path) -> bool:
    return link.is_symlink() and home.resolve() in Path(os.path.realpath(link)).parents


def _make(directory: Path) -> Iterator[Path]:
    """Make *directory* and any missing directories above it; yield these, outermost first."""
    missing = [d for d in (directory, *directory.parents) if not d.is_dir()]
    for each in reversed(missing):
        each.mkdir()
        yield each
    if not os.access(directory, os.W_OK):
        raise PermissionError(0, "Permission denied", str(directory))


def _point(link: Path, target: Path) -> None:
    """Make *link* point to *target*; users see the old link or the new one, nothing between."""
    new = link.with_name(f".{link.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(target)
    new.replace(link)


def _unlink(link: Path, home: Path) -> bool:
    """Remove *link*, if it leads to *home*, and the bytecode that Python cached beside it."""
    if not _is_ours(link, home):
        return False
    link.unlink()
    cached = Path(cache_from_source(str(link))).parent
    if link.suffix == ".py" and cached.is_dir():
        for file in cached.glob(f"{link.stem}.*.pyc"):
            file.unlink()
        _remove_empty([cached])
    return True


def _remove_empty(directories: Sequence[Path]) -> None:
    for directory in reversed(directories):
        with suppress(OSError):
            directory.rmdir()


def _failure(error: OSError, prefix: Optional[Path]) -> SetupError:
    if isinstance(error, SetupError):
        return error
    where, why = error.filename, error.strerror or str(error)
    hint = "" if prefix or not isinstance(error, PermissionError) else ": give --prefix DIR"
    return SetupError(f"{where}: {why}{hint}" if where else why)
