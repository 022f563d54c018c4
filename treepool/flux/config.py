"""Table ``[sched-treepool]`` at load and at a reload of the configuration: what changes, errors.

``treepool validate`` reads it with the same function. Imports no flux.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Optional

from treepool.errors import InvalidOption, InvalidWindow
from treepool.flux import options, toml
from treepool.flux.options import TABLE, InvalidSetting, Options
from treepool.placement.plan.queue import Queue
from treepool.placement.pool import Pool
from treepool.rfc import windows
from treepool.rfc.findings import shown
from treepool.rfc.queues import Queues
from treepool.rfc.windows import WindowEntry

#: The key of windows in the table, and the table of the instance's queues.
WINDOWS = "windows"
QUEUES = "queues"

#: Most bytes of an error that ``flux config reload`` prints: a flux_error_t has 159, of which it
#: uses some to name the module.
_LONGEST = 159 - len("error updating sched-treepool: ")

#: What ends an error that is longer, all of which is in the log.
_MORE = "... (flux dmesg)"


class Configuration:
    """The options in the table and in the *arguments* of the module, now and after each reload.

    Raises InvalidOption, which names the file and key of an error in the table.
    """

    def __init__(self, handle: Any, log: Any, arguments: Iterable[str]) -> None:
        self._handle = handle
        self._log = log
        self._arguments = tuple(arguments)
        self._conf: Mapping[str, Any] = handle.conf_get()
        self.options, self.windows = self._read(self._conf)

    def get(self, key: str, default: Any) -> Any:
        """The value of a key in dotted form, *default* if there is none.

        Do not ask Flux for it while the module runs: Flux answers nobody until each module has
        followed a new configuration, so that both would wait for ever.
        """
        try:
            return _at(self._conf, key.split("."))
        except (KeyError, TypeError):
            return default

    @property
    def queues(self) -> Queues:
        """The instance's queues."""
        return Queues.of(self.get)

    def follow(self, conf: Mapping[str, Any], queue: Queue, complete: bool) -> bool:
        """Apply *conf*, the whole new configuration, to *queue* and its pool.

        *complete* says whether the topology of all nodes is known. Returns whether requests may
        mean something else now, or jobs stand in another line. If it raises InvalidOption, nothing
        has changed.
        """
        if not isinstance(conf, dict):
            raise InvalidOption(f"configuration: must be a table, not {shown(conf)}")
        old, parents = self.options, self.queues.parents
        new, windows = self._read(conf)
        changed = new.pool != old.pool
        if changed:
            self._set(queue.pool, new, conf, complete)
        self.options, self.windows, self._conf = new, windows, conf
        queue.set_rules(self.options.rule, self.options.queues)
        for name in ("discover", "queue_depth"):
            if getattr(self.options, name) != getattr(old, name):
                said = name.replace("_", "-")
                self._log.warning(f"{said}: holds from the next reload of this module on")
        # The locality is part of what a request asks for.
        changed = changed or self.queues.parents != parents or new.spares != old.spares
        return changed or new.preemption != old.preemption

    def set_options(self, pool: Pool, complete: bool) -> None:
        """Give *pool* its options; raises InvalidOption.

        The mix can only be judged where *complete*: where the topology of all nodes is known.
        """
        self._set(pool, self.options, self._conf, complete)

    def _set(self, pool: Pool, chosen: Options, conf: Mapping[str, Any], complete: bool) -> None:
        if not complete:
            pool.follow_options(**chosen.pool)
            return
        try:
            pool.set_options(**chosen.pool)
        except InvalidOption as e:  # of the mix: options.read has checked all else
            if any(argument.startswith("mix=") for argument in self._arguments):
                raise
            place = _file(self._handle, conf, (TABLE, "mix")) or "configuration"
            raise InvalidOption(f"{place}: {TABLE}.{e}") from None

    def _read(self, conf: Mapping[str, Any]) -> tuple[Options, tuple[WindowEntry, ...]]:
        try:
            return read(conf, self._arguments)
        except InvalidSetting as e:
            place = _file(self._handle, conf, e.keys) or "configuration"
            raise InvalidOption(f"{place}: {e}") from None


def read(
    conf: Mapping[str, Any], arguments: Iterable[str] = ()
) -> tuple[Options, tuple[WindowEntry, ...]]:
    """The options and windows of configuration *conf*; raises InvalidSetting.

    Raises InvalidOption if the *arguments* of the module are wrong, which override the options.
    """
    table, queues = conf.get(TABLE), _queues(conf)
    chosen = options.read(arguments, table, queues)
    for name, parent in Queues(queues, {}).parents.items():
        if name in chosen.queues:
            message = f"a virtual queue has the rules of its parent, {shown(parent)}"
            raise InvalidSetting(message, TABLE, options.QUEUES, name)
    try:
        return chosen, windows.read_all((table or {}).get(WINDOWS, []))
    except InvalidWindow as e:
        raise InvalidSetting(str(e), TABLE, WINDOWS) from None


def refusal(text: str) -> str:
    """The error *text* as ``flux config reload`` can print it, which cuts what is too long."""
    data = text.encode()
    if len(data) <= _LONGEST:
        return text
    return data[: _LONGEST - len(_MORE)].decode(errors="ignore") + _MORE


def _queues(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The instance's queues: a table of tables, or else this raises InvalidSetting."""
    queues = conf.get(QUEUES, {})
    tables: dict[tuple[str, ...], Any] = {(QUEUES,): queues}
    if isinstance(queues, dict):
        tables.update({(QUEUES, name): value for name, value in queues.items()})
    for keys, value in tables.items():
        if not isinstance(value, dict):
            raise InvalidSetting(f"must be a table, not {shown(value)}", *keys)
    return dict(queues)


def _file(handle: Any, conf: Mapping[str, Any], keys: Iterable[str]) -> Optional[Path]:
    """The file from which *conf* has the value of *keys*; None if it is not known.

    The last file with these keys counts. Values that were loaded in another way override all files.
    """
    try:
        path = Path(handle.attr_get("config.path"))
    except OSError:  # there are no files
        return None
    wanted, last = _at(conf, keys), None
    for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
        try:
            found = _at(toml.read(file.read_text()), keys)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        last = file if found == wanted or isinstance(wanted, (dict, list)) else None
    return last


def _at(conf: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        conf = conf[key]
    return conf
