"""What ``treepool flux-env --check`` says of the parts of treepool that a Flux finds."""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional

import attrs

from treepool.errors import InvalidInput, SetupError
from treepool.flux import schedulers, site
from treepool.flux.install import Installed, unreadable
from treepool.flux.site import FluxSite
from treepool.rfc import document
from treepool.rfc.quote import shortened

#: Seconds that a command may take to answer.
_PATIENCE = 20


@attrs.frozen
class Finding:
    """A part, where it was found or what is known of it, and the problem with it, if any."""

    part: str
    found: str
    problem: str = ""


def findings(installed: Installed, flux: FluxSite, env: Mapping[str, str]) -> Iterator[Finding]:
    """The findings about *installed* for *flux*, in the environment *env*."""
    home = installed.home
    gone = "" if installed.version else f"{installed.package} is not there: install it again"
    yield Finding("treepool", f"{installed.version or '?'} in {home}", gone)
    yield Finding("flux-core", f"{flux.version}: {flux.command}")
    yield Finding("Flux's Python", f"{flux.python_version}: {flux.python}")
    if installed.prefix and home.resolve() not in map(Path.resolve, site.homes(env)):
        how = f"treepool flux-env --prefix {shlex.quote(str(installed.prefix))}"
        yield Finding("variables", "", f'not set: eval "$({how})"')
    yield _command(installed, env)
    for part, variable, builtin, name in (
        ("flux treepool", "FLUX_EXEC_PATH_PREPEND", flux.commands, "flux-treepool.py"),
        ("sched-treepool", "FLUX_MODULE_PATH_PREPEND", flux.modules, "sched-treepool.py"),
        ("options of submit", "FLUX_CLI_PLUGINPATH", flux.plugins, ""),
    ):
        given = _paths(env, variable)
        names = (name,) if name else ("topology.py", "treepool.py")
        candidates = [d / n for d in (*given, builtin) for n in names]
        yield _place(part, _first(candidates), installed)
    more = _paths(env, "FLUX_MODPROBE_PATH_APPEND")
    files = [flux.modprobe / "treepool.toml"]
    files += [path / "modprobe.d" / "treepool.toml" for path in more]
    yield _place("modprobe", _first(files), installed)
    scripts = [flux.rc1 / "treepool.py", *(path / "rc1.d" / "treepool.py" for path in more)]
    script = _first(scripts)
    yield _place("start inside jobs", script, installed)
    yield _place("pool of a key", flux.pool, installed)
    yield from _harm(installed, env)
    yield from _schedulers(flux, env, script is not None)
    yield from _feasibility(flux)
    yield from _instance(flux, installed)


def _paths(env: Mapping[str, str], variable: str) -> list[Path]:
    return [Path(path) for path in env.get(variable, "").split(":") if path]


def _first(files: Iterable[Path]) -> Optional[Path]:
    """The first of *files* that exists and can be read; None if there is none."""
    return next(filter(os.path.isfile, files), None)


def _place(part: str, found: Optional[Path], installed: Installed) -> Finding:
    if found is None:
        return Finding(part, "", "not found")
    is_ours = not {installed.home.resolve(), installed.package}.isdisjoint(found.resolve().parents)
    return Finding(part, str(found), "" if is_ours else "another treepool")


def _command(installed: Installed, env: Mapping[str, str]) -> Finding:
    """The command ``treepool``: that of the copy, or another one of its version."""
    on_path = shutil.which("treepool", path=env.get("PATH"))
    place = _place("command treepool", Path(on_path) if on_path else None, installed)
    if on_path is None or not place.problem:
        return place
    version = (_ask(on_path, "--version") or "").replace("treepool", "").strip()
    problem = "" if version == installed.version else f"{place.problem}: {shortened(version)}"
    return attrs.evolve(place, problem=problem)


def _harm(installed: Installed, env: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that affect unrelated programs, and directories that other users cannot read."""
    for path in _paths(env, "PYTHONPATH"):
        if os.path.isdir(path / "treepool"):
            yield Finding("PYTHONPATH", str(path), "reaches every Python: take it out")
    if installed.prefix is None:
        libraries = installed.home / "libraries"
        for directory in unreadable(installed.home, installed.package, libraries.resolve()):
            yield Finding("modes", str(directory), "other users cannot read it")


def _schedulers(flux: FluxSite, env: Mapping[str, str], chooses: bool) -> Iterator[Finding]:
    """Which schedulers there are, and which one instances start.

    *chooses* says whether Flux finds rc1.d/treepool.py.
    """
    own = [flux.modprobe.parent, flux.configuration / "modprobe"]
    path = _paths(env, "FLUX_MODPROBE_PATH") if "FLUX_MODPROBE_PATH" in env else own
    path += _paths(env, "FLUX_MODPROBE_PATH_APPEND")
    files = [flux.modprobe.parent / "modprobe.toml"]
    for place in path:  # Path.glob() raises an error where it may not look
        files += map(Path, sorted(glob.glob(f"{glob.escape(str(place))}/modprobe.d/*.toml")))
    try:
        found = schedulers.installed(files)
    except SetupError as e:
        yield Finding("schedulers", f"not known: {e}")
        return
    if not found:
        yield Finding("schedulers", "", "none is found")
        return
    first, *_ = found
    yield Finding("schedulers", ", ".join(found))
    yield Finding("an instance", f"starts {first}, unless its configuration names another one")
    words = ("config", "get", "--config-path=system", "--default={}", "modules")
    named = schedulers.chosen(_table(_ask(str(flux.command), *words)))
    if named is not None:
        yield Finding("system instance", f"starts {named}, which its configuration names")
    inside = f"starts {first}"
    if first.startswith(schedulers.FLUXION):
        others = [name for name in found if not name.startswith(schedulers.FLUXION)]
        if chooses and others:
            inside = f"starts {others[0]} where R has a key of treepool's, else {first}"
        else:
            inside += ", which cannot start where R has a key of treepool's"
    yield Finding("inside a job", inside)


def _feasibility(flux: FluxSite) -> Iterator[Finding]:
    """Whether a job that can never run is refused before it has an id, if a Flux tells.

    That is the site's choice: without it, such a job is refused when the scheduler sees it.
    """
    of = {"this instance": (), "the system's configuration": ("--config-path=system",)}
    for where, options in of.items():
        words = ("config", "get", *options, "--default={}", "ingest.validator")
        table = _table(_ask(str(flux.command), *words))
        if table is None:
            continue
        plugins = table.get("plugins", ["jobspec"])
        plugins = plugins if isinstance(plugins, list) else []
        found = f"on in {where}"
        if table.get("disable") or "feasibility" not in plugins:
            wanted = shortened(json.dumps([*plugins, "feasibility"]), 200)
            found = f"off in {where}: on with ingest.validator.plugins = {wanted}"
        yield Finding("feasibility check", found)
        return


def _instance(flux: FluxSite, installed: Installed) -> Iterator[Finding]:
    """The scheduler of the instance of this environment, if there is one that answers."""
    stats = _ask(str(flux.command), "module", "stats", "sched-treepool")
    if stats is not None:
        version = _version(stats)
        old = "" if version == installed.version else "flux module reload sched-treepool"
        yield Finding("this instance", f"sched-treepool {version}", old)
    elif (listed := _ask(str(flux.command), "module", "list")) is not None:
        other = [line.split()[0] for line in listed.splitlines() if "sched" in line.split()[-1]]
        yield Finding("this instance", f"{', '.join(other) or 'no scheduler'}")


def _ask(*words: str) -> Optional[str]:
    """What a command prints; None if it fails, or does not answer."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, ValueError, subprocess.TimeoutExpired):  # ValueError: it is not text
        return None
    return done.stdout if done.returncode == 0 else None


def _version(stats: str) -> str:
    """The version in the statistics of a module, which may be another user's."""
    found = _table(stats)
    return "?" if found is None else str(found.get("version", "0.1"))


def _table(text: Optional[str]) -> Optional[dict[str, Any]]:
    """The JSON object in what a command printed; None if it is none."""
    try:
        found = document.load(text or "", InvalidInput, "answer")
    except InvalidInput:
        return None
    return found if isinstance(found, dict) else None
