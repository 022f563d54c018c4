"""Table ``[sched-treepool]`` of an instance's configuration: at load, and when it is reloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Optional

import attrs
from flux.utils import tomli

from treepool.errors import InvalidOption, InvalidWindow
from treepool.flux import options
from treepool.flux.options import TABLE, InvalidSetting, Options
from treepool.rfc import windows
from treepool.rfc.windows import WindowEntry

#: The key of windows in the table.
WINDOWS = "windows"


@attrs.frozen
class Settings:
    """What the configuration and the arguments of the module say."""

    options: Options
    windows: tuple[WindowEntry, ...]


def read(handle: Any, conf: Mapping[str, Any], arguments: Iterable[str]) -> Settings:
    """The settings in *conf*, the whole configuration, and *arguments* of the module.

    Raises InvalidOption; what is wrong in the configuration is told with its file and key.
    """
    table, queues = conf.get(TABLE), conf.get("queues")
    try:
        chosen = options.read(arguments, table, queues if isinstance(queues, dict) else {})
        try:
            entries = windows.read_all((table or {}).get(WINDOWS, []))
        except InvalidWindow as e:
            raise InvalidSetting(str(e), TABLE, WINDOWS) from None
    except InvalidSetting as e:
        raise InvalidOption(f"{_file(handle, e.keys) or 'configuration'}: {e}") from None
    return Settings(chosen, entries)


def _file(handle: Any, keys: Iterable[str]) -> Optional[Path]:
    """The file of the configuration that has *keys*; None if none is known to."""
    try:
        there = Path(handle.attr_get("config.path"))
    except OSError:  # there are no files
        return None
    for file in sorted(there.glob("*.toml")) if there.is_dir() else [there]:
        try:
            found: Any = tomli.loads(file.read_text())
            for key in keys:
                found = found[key]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        return file
    return None
