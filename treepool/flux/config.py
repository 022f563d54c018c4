"""Table ``[sched-treepool]`` of an instance's configuration: at load, and when it is reloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Optional

from flux.utils import tomli

from treepool.errors import InvalidOption, InvalidWindow
from treepool.flux import options
from treepool.flux.options import TABLE, InvalidSetting, Options
from treepool.placement.plan.queue import Queue
from treepool.rfc import windows
from treepool.rfc.windows import WindowEntry

#: The key of windows in the table.
WINDOWS = "windows"


class Configuration:
    """What the table and the *arguments* of the module say, now and after each reload.

    Raises InvalidOption; what is wrong in the table is told with its file and key.
    """

    def __init__(self, handle: Any, log: Any, arguments: Iterable[str]) -> None:
        self._handle = handle
        self._log = log
        self._arguments = tuple(arguments)
        self.options, self.windows = self._read(handle.conf_get())

    def follow(self, conf: Mapping[str, Any], queue: Queue) -> bool:
        """Let *queue* and its pool have the options in *conf*, the whole new configuration.

        Returns whether requests may mean something else now. Raises InvalidOption, and changes
        nothing.
        """
        old = self.options
        self.options, self.windows = self._read(conf)
        queue.set_rules(self.options.rule, self.options.queues)
        for name in ("discover", "queue_depth"):
            if getattr(self.options, name) != getattr(old, name):
                said = name.replace("_", "-")
                self._log.warning(f"{said}: holds from the next reload of this module on")
        changed = self.options.pool != old.pool
        if changed:
            queue.plan.pool.set_options(**self.options.pool)
        return changed  # the locality is part of what a request asks for

    def _read(self, conf: Mapping[str, Any]) -> tuple[Options, tuple[WindowEntry, ...]]:
        table, queues = conf.get(TABLE), conf.get("queues")
        try:
            known = queues if isinstance(queues, dict) else {}
            chosen = options.read(self._arguments, table, known)
            try:
                entries = windows.read_all((table or {}).get(WINDOWS, []))
            except InvalidWindow as e:
                raise InvalidSetting(str(e), TABLE, WINDOWS) from None
        except InvalidSetting as e:
            place = _file(self._handle, conf, e.keys) or "configuration"
            raise InvalidOption(f"{place}: {e}") from None
        return chosen, entries


def _file(handle: Any, conf: Mapping[str, Any], keys: Iterable[str]) -> Optional[Path]:
    """The file that *conf* has the value of *keys* from; None if none is known to.

    Of files with the same key the last one counts, and what is loaded otherwise overrides all.
    """
    try:
        there = Path(handle.attr_get("config.path"))
    except OSError:  # there are no files
        return None
    wanted, last = _at(conf, keys), None
    for file in sorted(there.glob("*.toml")) if there.is_dir() else [there]:
        try:
            found = _at(tomli.loads(file.read_text()), keys)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        last = file if found == wanted or isinstance(wanted, (dict, list)) else None
    return last


def _at(conf: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        conf = conf[key]
    return conf
