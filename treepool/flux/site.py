"""Where Flux finds treepool, and how a site configures that; does not import Flux.

``modules``, ``bin`` and ``cliplugin`` beside this file hold one file each, because Flux names
broker modules and subcommands after their files.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Iterable

import attrs

#: The directory that ``import treepool`` and ``import TreePool`` need on the path.
ROOT = Path(__file__).resolve().parents[2]

#: For FLUX_MODULE_PATH, FLUX_EXEC_PATH and FLUX_CLI_PLUGINPATH.
MODULES = ROOT / "treepool" / "flux" / "modules"
COMMANDS = ROOT / "treepool" / "flux" / "bin"
PLUGINS = ROOT / "treepool" / "flux" / "cliplugin"

MODULE = MODULES / "sched-treepool.py"


def python_path() -> list[Path]:
    """What Flux's Python needs on its path: treepool, and its dependencies if elsewhere."""
    needed = Path(attrs.__file__).resolve().parents[1]
    return [ROOT] if needed == ROOT else [ROOT, needed]


def environment() -> dict[str, list[Path]]:
    """The variables to extend before Flux starts, and what to put in front of their old values."""
    return {
        "FLUX_MODULE_PATH_PREPEND": [MODULES],
        "FLUX_EXEC_PATH_PREPEND": [COMMANDS],
        "FLUX_CLI_PLUGINPATH": [PLUGINS],
        "PYTHONPATH": python_path(),
    }


def exports() -> str:
    """Shell commands that extend the environment."""
    lines = []
    for name, paths in environment().items():
        text = ":".join(shlex.quote(str(path)) for path in paths)
        lines.append(f'export {name}={text}"${{{name}:+:${name}}}"')
    return "\n".join(lines)


def modprobe(arguments: Iterable[str] = ()) -> str:
    """TOML for Flux's modprobe.d that makes sched-treepool, with *arguments*, the scheduler.

    Its priority is above that of flux-core's own scheduler (sched-simple has 50).
    """
    lines = [
        "[[modules]]",
        'name = "sched-treepool"',
        f"module = {json.dumps(str(MODULE))}",
        'provides = ["sched", "feasibility"]',
        'after = ["job-manager", "resource"]',
        'requires = ["job-manager", "resource"]',
        'ranks = "0"',
        "priority = 100",
    ]
    shown = ", ".join(json.dumps(argument) for argument in arguments)
    return "\n".join([*lines, *([f"args = [{shown}]"] if shown else [])])
