"""Which schedulers a Flux has, and which one an instance starts; imports no flux.

Flux reads it from the files of ``flux modprobe`` (flux-modprobe(1)): of the modules that provide
``sched``, an instance loads the one of the highest priority, or the one that its configuration
names (``modules.alternatives.sched``). rc1.d/treepool.py takes Fluxion out where R has a key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Optional

from treepool.errors import InvalidInput
from treepool.flux import toml

#: The service that a scheduler provides, and the priority of a module that has none of its own.
_SERVICE, _PRIORITY = "sched", 100

#: How the modules of Fluxion are called, which cannot read a key of treepool's.
FLUXION = "sched-fluxion-"


def installed(files: Iterable[Path]) -> list[str]:
    """The schedulers in *files* in the order in which Flux prefers them; raises SetupError.

    Files that cannot be read are skipped. SetupError: no module of this Python reads TOML.
    """
    modules: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            tables = toml.read(file.read_text())
        except (OSError, UnicodeDecodeError, InvalidInput):
            continue
        entries = tables.pop("modules", [])
        changes = [{**table, "name": name} for name, table in tables.items() if _is_table(table)]
        for entry in [*(entries if isinstance(entries, list) else []), *changes]:
            if _is_table(entry) and isinstance(entry.get("name"), str):
                modules.setdefault(entry["name"], {}).update(entry)
    given = [name for name, entry in modules.items() if _SERVICE in entry.get("provides", ())]
    given.sort(key=lambda name: _priority(modules[name]))
    return given[::-1]  # of those of one priority, Flux takes the last


def chosen(modules: object) -> Optional[str]:
    """The scheduler that the table *modules* of a configuration names; None if it names none."""
    alternatives = modules.get("alternatives") if isinstance(modules, Mapping) else None
    name = alternatives.get(_SERVICE) if isinstance(alternatives, Mapping) else None
    return name if isinstance(name, str) else None


def _priority(entry: Mapping[str, Any]) -> float:
    priority = entry.get("priority", _PRIORITY)
    return priority if isinstance(priority, (int, float)) else _PRIORITY


def _is_table(value: object) -> bool:
    return isinstance(value, dict)
