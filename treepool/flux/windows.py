"""The windows of an instance: where they are kept, who may change them, and how the queue follows.

Windows that were added by RPC are in the KVS and survive reloads and restarts. Those of the table
``[sched-treepool]`` of the configuration change with it. Changes are made one after the other. Each
is written to the KVS first, and then applied in steps of a few milliseconds.
"""

from __future__ import annotations

import errno
import time
from collections import deque
from typing import Any, Callable, Generator, Iterable, Optional

import attrs
from flux.kvs import KVSTxn, commit, commit_async, get_key_direct

from treepool.errors import InvalidWindow
from treepool.flux import sent
from treepool.flux.callbacks import Refused, payload_of, refuse, then
from treepool.flux.config import Configuration
from treepool.flux.questions import request_watcher
from treepool.flux.runner import Runner, Work
from treepool.flux.windownames import window_of
from treepool.placement.held import HELD_BACK
from treepool.placement.plan.jobs import Holder
from treepool.placement.plan.queue import Queue
from treepool.placement.plan.windows import OwnerOf, Window, admitting, change_windows
from treepool.rfc import windows
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.windows import WindowEntry

#: The key in the KVS.
KEY = "sched-treepool.windows"

#: The RPCs are ``sched-treepool.window-add`` and ``-remove``; answers.py answers ``-list``.
TOPIC = "sched-treepool.window-"


@attrs.frozen
class _Change:
    """A change of the windows.

    ``msg`` is a request to add the window ``added``, or if that is None, to remove the window
    called ``name``. Without a message, ``fixed`` are the windows of a new configuration.
    """

    msg: Any = None
    name: str = ""
    added: Optional[WindowEntry] = None
    fixed: Optional[tuple[WindowEntry, ...]] = None


class Windows:
    """The windows of an instance, in *queue*, which has no jobs yet.

    *configuration* has windows of its own, and the queues; *kept* are those in the KVS. *owner_of*
    gives the user and the queues of a waiting job, *changed* is called when there may be something
    to start.
    """

    def __init__(
        self,
        handle: Any,
        log: Any,
        runner: Runner,
        queue: Queue,
        configuration: Configuration,
        kept: tuple[WindowEntry, ...],
        owner_of: OwnerOf,
        changed: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._log = log
        self._queue = queue
        self._configuration = configuration
        self._owner_of = owner_of
        self._changed = changed
        self._fixed = configuration.windows
        self._kept = kept
        self._made: dict[WindowEntry, Window] = {}
        self._changes: deque[_Change] = deque()
        self._ended = False
        self._task = runner.task("windows", self._apply_first)
        valid = self._beside(self._fixed)
        if valid != kept:
            self._kept = valid
            transaction = _transaction(handle, valid)
            commit(handle, _kvstxn=transaction)
        #: All windows that the queue has once the current change is applied.
        self._goal = self._windows(self._kept, log.warning)
        queue.set_windows(self._goal)
        self._watchers = [
            request_watcher(handle, f"{TOPIC}add", self._on_add, guests=False),
            request_watcher(handle, f"{TOPIC}remove", self._on_remove, guests=False),
        ]
        for watcher in self._watchers:
            watcher.start()

    def configure(self, fixed: tuple[WindowEntry, ...]) -> None:
        """Make *fixed* the windows of the configuration."""
        if fixed != self._fixed or self._changes:
            self._enqueue(_Change(fixed=fixed))

    def _beside(self, fixed: tuple[WindowEntry, ...]) -> tuple[WindowEntry, ...]:
        """The windows in the KVS, without those that are over or that *fixed* has as well."""
        taken = {entry.name for entry in fixed}
        kept = _not_over(self._kept)
        for entry in kept:
            if entry.name in taken:
                self._log.warning(f"window {entry.name}: the one in the configuration counts")
        return tuple(entry for entry in kept if entry.name not in taken)

    def admitted(self, user: int, queues: tuple[str, ...]) -> frozenset[Holder]:
        """The windows that do not keep away a job of *user* (numeric id) in *queues*."""
        return admitting(self._goal, user, queues)

    def listed(self) -> list[dict[str, Any]]:
        """The windows that are not over, by their start, and where each is kept."""
        found = [
            {**entry.to_dict(), "source": source}
            for source, entries in (("configuration", self._fixed), ("kvs", self._kept))
            for entry in _not_over(entries)
        ]
        return sorted(found, key=lambda entry: (entry["start"], entry["name"]))

    def end(self) -> None:
        """Refuse the requests, those to come too, because the module is being unloaded."""
        self._ended = True
        changes, self._changes = self._changes, deque()
        for change in filter(lambda change: change.msg, changes):
            text = "the scheduler is being unloaded"
            self._handle.respond_error(change.msg, errno.ENOSYS, text)

    # -- requests

    def _on_add(self, msg: Any) -> None:
        entry = windows.read(payload_of(msg))
        if entry.end <= time.time():
            raise InvalidWindow("/end: has passed")
        self._window(entry, _fail)
        self._enqueue(_Change(msg, entry.name, entry))

    def _on_remove(self, msg: Any) -> None:
        payload = payload_of(msg)
        name = payload.get("name") if isinstance(payload, dict) else None
        if not isinstance(name, str):
            raise InvalidWindow("/name: must be a string")
        if any(entry.name == name for entry in self._fixed):
            raise InvalidWindow(f"window {name} is in the configuration: remove it there")
        self._enqueue(_Change(msg, name))

    # -- changes

    def _enqueue(self, change: _Change) -> None:
        self._changes.append(change)
        if self._ended:
            self.end()
        elif len(self._changes) == 1:
            self._next()

    def _next(self) -> None:
        """Write the windows as they are after the first change to the KVS."""
        while self._changes:
            change = self._changes[0]
            try:
                kept = self._after(change)
                transaction = _transaction(self._handle, kept)
                future = commit_async(self._handle, _kvstxn=transaction)
                then(self._handle, future, self._on_written, change, kept)
            except Exception as e:
                self._give_up(e)
            else:
                return

    def _after(self, change: _Change) -> tuple[WindowEntry, ...]:
        if change.fixed is not None:
            return self._beside(change.fixed)
        kept = _not_over(self._kept)
        if change.added is None:
            rest = tuple(entry for entry in kept if entry.name != change.name)
            if rest == kept:
                hint = did_you_mean(change.name, (entry.name for entry in kept))
                raise InvalidWindow(f"there is no window {shown(change.name)}{hint}")
            return rest
        both = [entry.to_dict() for entry in (*self._fixed, *kept)]
        if any(entry["name"] == change.name for entry in both):
            said = f"/name: there is a window {shown(change.name)} already"
            raise Refused(errno.EEXIST, said)
        windows.read_all([*both, change.added.to_dict()])  # the limits of all together
        return (*kept, change.added)

    def _on_written(self, future: Any, change: _Change, kept: tuple[WindowEntry, ...]) -> None:
        if not self._changes or self._changes[0] is not change:
            return  # the module is being unloaded
        try:
            future.get()
        except OSError as e:
            self._give_up(OSError(e.errno or errno.EIO, f"KVS: {e.strerror or e}"))
            self._next()
            return
        self._kept = kept
        if change.fixed is not None:
            self._fixed = change.fixed
        self._task.wake()

    def _apply_first(self) -> Work:
        """Apply the first change, which is in the KVS."""
        change = self._changes[0]
        try:
            yield from self._apply(change)
            self._changes.popleft()
        except Exception as e:  # the others must not wait for it
            self._give_up(e)
        self._next()

    def _apply(self, change: _Change) -> Generator[None, None, None]:
        """Give the queue the windows as they are now, and answer *change*."""
        self._goal = self._windows(self._kept, self._log.warning)
        conflicts = yield from change_windows(self._queue, self._goal, self._owner_of, change.name)
        if change.fixed is not None:
            self._log.info(f"windows of the configuration: {len(change.fixed)}")
        else:
            running = [jobid for jobid in conflicts.running if jobid != HELD_BACK]
            self._handle.respond(change.msg, {**attrs.asdict(conflicts), "running": running})
            what = "removed" if change.added is None else f"added, {change.added.hosts:.200}"
            self._log.info(f"window {change.name}: {what}")
        self._changed()

    def _give_up(self, error: Exception) -> None:
        """Report that the first change is not made because of *error*, and drop it."""
        change = self._changes.popleft()
        if change.msg is None:
            self._log.error(f"windows of the configuration: {str(error) or type(error).__name__}")
        else:
            refuse(self._handle, change.msg, error)

    def _windows(
        self, kept: Iterable[WindowEntry], problem: Callable[[str], None]
    ) -> tuple[Window, ...]:
        """The windows of the configuration and those *kept*, without those that are over."""
        self._made = {
            entry: self._made.get(entry) or self._window(entry, problem)
            for entry in _not_over((*self._fixed, *kept))
        }
        return tuple(self._made.values())

    def _window(self, entry: WindowEntry, problem: Callable[[str], None]) -> Window:
        queues = self._configuration.get("queues", {}) if entry.queues else ()
        return window_of(entry, self._queue.pool.inventory.resource_set, queues, problem)


def _fail(message: str) -> None:
    raise InvalidWindow(message)


def _not_over(entries: Iterable[WindowEntry]) -> tuple[WindowEntry, ...]:
    now = time.time()
    return tuple(entry for entry in entries if entry.end > now)


def in_kvs(handle: Any) -> tuple[WindowEntry, ...]:
    """The windows in the KVS; raises InvalidWindow."""
    try:
        return sent.windows_in(get_key_direct(handle, KEY))
    except OSError as e:
        if e.errno == errno.ENOENT:
            return ()
        raise InvalidWindow(f"KVS: {KEY}: {e.strerror or e}") from None
    except RecursionError:  # of the json module
        raise InvalidWindow(f"KVS: {KEY}: windows are nested too deep") from None
    except InvalidWindow as e:
        raise InvalidWindow(f"KVS: {KEY}: {e}") from None


def _transaction(handle: Any, kept: Iterable[WindowEntry]) -> Any:
    """A transaction that makes *kept* the windows in the KVS.

    The object frees the transaction when it is collected, and a commit does not keep it alive. Give
    it a name that lives until the commit has returned.
    """
    transaction = KVSTxn(handle)
    transaction.put(KEY, [entry.to_dict() for entry in kept])
    return transaction
