"""The Flux on the PATH: directories and variables by which it finds treepool; imports no flux.

The files that Flux finds by their names are in directories of their own beside this file. A Flux
finds them by links in its own directories, or by the variables of ``variables``.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Mapping, Optional

import attrs

from treepool.errors import SetupError

#: The directories of a home that Flux's variables can name.
MODULES = "modules"
COMMANDS = "treepool/flux/bin"
PLUGINS = "treepool/flux/cliplugin"
POOLS = "treepool/flux/pools"
MODPROBE = "treepool/flux/modprobe"

#: Seconds that a command of Flux may take.
_PATIENCE = 60

#: Prints what Flux's Python is, and where it finds the pool of a key's writer.
_PYTHON = """
import json, sys
from importlib.util import find_spec
pool = find_spec("TreePool")
print(json.dumps([sys.executable, sys.version.split()[0], pool and pool.origin]))
"""


@attrs.frozen
class FluxSite:
    """A Flux: its ``command`` and version, its Python, and the directories in which it looks.

    ``libraries`` has Flux's own Python modules, ``configuration`` the site's files. ``pool`` is the
    file that its Python loads as module TreePool, None if there is none.
    """

    command: Path
    version: str
    python: Path
    python_version: str
    pool: Optional[Path]
    libraries: Path
    modules: Path
    commands: Path
    plugins: Path
    modprobe: Path
    rc1: Path
    configuration: Path
    help: Path

    @property
    def home(self) -> Path:
        """Where the home belongs of a treepool that is installed into this Flux."""
        return self.modules.parent / "treepool"

    @classmethod
    def here(cls) -> FluxSite:
        """The Flux on the PATH; raises SetupError if there is none, or if it does not work."""
        found = shutil.which("flux")
        if found is None:
            raise SetupError("flux is not on the PATH")
        names = ("module_path", "exec_path", "python_path", "libexecdir", "datadir", "confdir")
        paths = [_first(_flux(found, "config", "builtin", name)) for name in names]
        modules, commands, libraries, libexec, data, configuration = paths
        said = _flux(found, "version")
        version = next((w[1] for w in map(str.split, said.splitlines()) if "core" in w[0]), "?")
        try:
            python, python_version, pool = json.loads(_flux(found, "python", "-c", _PYTHON))
        except ValueError:
            raise SetupError("flux python: does not work") from None
        return cls(
            command=Path(found),
            version=version,
            python=Path(python),
            python_version=python_version,
            pool=Path(pool) if pool else None,
            libraries=libraries,
            modules=modules,
            commands=commands,
            plugins=libexec / "cli" / "plugins",
            modprobe=data / "modprobe" / "modprobe.d",
            rc1=libexec / "modprobe" / "rc1.d",
            configuration=configuration,
            help=data / "help.d",
        )


def variables(home: Path) -> Mapping[str, Path]:
    """The variables by which a Flux finds the *home*, outside its own directories."""
    return {
        "FLUX_MODULE_PATH_PREPEND": home / MODULES,
        "FLUX_EXEC_PATH_PREPEND": home / COMMANDS,
        "FLUX_CLI_PLUGINPATH": home / PLUGINS,
        "FLUX_PYTHONPATH_PREPEND": home / POOLS,
        "FLUX_MODPROBE_PATH_APPEND": home / MODPROBE,
    }


def homes(env: Mapping[str, str]) -> list[Path]:
    """Where the homes should be to which the ``variables`` in *env* lead, in Flux's order."""
    modules = env.get("FLUX_MODULE_PATH_PREPEND", "").split(":")
    return [Path(path[: -len(MODULES)]) for path in modules if path.endswith(f"/{MODULES}")]


def exports(home: Path, commands: Path) -> list[str]:
    """Shell commands that set ``variables``, and put *commands* at the end of the PATH."""
    lines = [
        f'export {name}={shlex.quote(str(path))}"${{{name}:+:${name}}}"'
        for name, path in variables(home).items()
    ]
    return [*lines, f'export PATH="$PATH":{shlex.quote(str(commands))}']


def systemd(home: Path) -> list[str]:
    """The lines of a drop-in for the unit of Flux that sets ``variables``."""
    lines = (f"{name}={path}" for name, path in variables(home).items())
    return ["[Service]", *(f"Environment={_systemd_quoted(line)}" for line in lines)]


def _systemd_quoted(text: str) -> str:
    for character, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        text = text.replace(character, instead)
    return f'"{text}"'


def _first(paths: str) -> Path:
    return Path(paths.strip().partition(":")[0])


def _flux(command: str, *words: str) -> str:
    """What ``flux WORDS...`` prints."""
    what = f"flux {' '.join(words[:3] if words[0] == 'config' else words[:1])}"
    try:
        done = subprocess.run(
            [command, *words], cwd=os.sep, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise SetupError(f"{what}: {e}") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise SetupError(f"{what}: {''.join(last) or 'failed'}")
    return done.stdout
