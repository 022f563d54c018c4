"""The windows of an instance: where they are kept, who may change them, how queue and clock follow.

Windows that were added by RPC are in the KVS and survive reloads and restarts. Those of the table
``[sched-treepool]`` of the configuration change with it. Changes are made one after the other. Each
is written to the KVS first, and then applied in steps of a few milliseconds. Of one that comes
again the next times are in the plan. Chosen nodes are chosen anew where one is down for long.
"""

from __future__ import annotations

import errno
import math
import time
from collections import deque
from typing import Any, Callable, Generator, Iterable, Optional

import attrs
from flux.kvs import KVSTxn, commit, commit_async, get_key_direct

from treepool.errors import InfeasibleRequest, InvalidInput, InvalidJobspec, InvalidWindow
from treepool.flux import sent
from treepool.flux.callbacks import Refused, payload_of, refuse, then
from treepool.flux.context import Context
from treepool.flux.questions import request_watcher
from treepool.flux.runner import Work
from treepool.flux.windownames import window_of
from treepool.placement.plan.jobs import Holder
from treepool.placement.plan.profile import PRESENT
from treepool.placement.plan.spares import Spares
from treepool.placement.plan.windows import (
    Conflicts,
    Owner,
    OwnerOf,
    Window,
    admitting,
    change_windows,
    choose,
    conflicts,
)
from treepool.placement.request.vertices import Request
from treepool.rfc import hostlist, jobspec, windows
from treepool.rfc.findings import shown
from treepool.rfc.quote import did_you_mean
from treepool.rfc.requires import constraint_of
from treepool.rfc.shape import parse_shape
from treepool.rfc.times import LATEST
from treepool.rfc.windows import SPARES, WindowEntry

#: The key in the KVS.
KEY = "sched-treepool.windows"

#: The RPCs are ``sched-treepool.window-add`` and ``-remove``; answers.py answers ``-list``.
TOPIC = "sched-treepool.window-"

#: Seconds between two looks at the clock and the nodes, at least and at most; and for which a node
#: of a window is down before another takes its place.
_PAUSE, _LOOK, _DOWN = 0.1, 60.0, 300.0


@attrs.define(eq=False)
class _Change:
    """A change of the windows.

    ``msg`` is a request to add the window ``added``, or if that is None, to remove the window
    called ``name``. If it ``replaces`` one, there must be one of that name, otherwise none. If it
    is a ``test``, nothing is changed. Without a message, ``fixed`` are the windows of a new
    configuration, or nodes of ``added`` are down.
    """

    msg: Any = None
    name: str = ""
    added: Optional[WindowEntry] = None
    fixed: Optional[tuple[WindowEntry, ...]] = None
    replaces: bool = False
    test: bool = False


class Windows:
    """The windows of an instance, in its queue, which has no jobs yet.

    The configuration has windows of its own; *kept* are those in the KVS. *owner_of* gives the
    user, the queues and the bank of a job. *changed* is called when there may be something to
    start.
    """

    def __init__(
        self,
        context: Context,
        kept: tuple[WindowEntry, ...],
        owner_of: OwnerOf,
        changed: Callable[[], None],
    ) -> None:
        self._handle, self._log, self._queue = context.handle, context.log, context.queue
        self._configuration = context.configuration
        self._owner_of = owner_of
        self._changed = changed
        self._fixed = self._configuration.windows
        self._kept = kept
        self._spares = Spares(self._queue)
        self._made: dict[WindowEntry, Window] = {}
        self._changes: deque[_Change] = deque()
        #: Whether the queue gets other windows: the old are gone, the new are still to come.
        self.changing = False
        self._ended = False
        #: The names of the windows that were open at the last look; and since when nodes are down.
        self._open: set[str] = set()
        self._down: dict[str, float] = {}
        self._task = context.runner.task("windows", self._work)
        valid = self._beside(self._fixed)
        if valid != kept:
            self._kept = valid
            transaction = _transaction(self._handle, valid)
            commit(self._handle, _kvstxn=transaction)
        #: All windows that the queue has once the current change is applied.
        self._goal = self._windows(self._kept, self._log.warning)
        self._queue.set_windows(self._goal)
        self._spares.keep(self._configuration.options.spares)
        self._watchers = [
            request_watcher(self._handle, f"{TOPIC}add", self._on_add, guests=False),
            request_watcher(self._handle, f"{TOPIC}remove", self._on_remove, guests=False),
        ]
        self._task.wake()

    def configure(self, fixed: tuple[WindowEntry, ...]) -> None:
        """Make *fixed* the windows of the configuration, and keep as many spares as it says."""
        self._spares.keep(self._configuration.options.spares)
        if fixed != self._fixed or self._changes:
            self._enqueue(_Change(fixed=fixed))

    def follow(self) -> None:
        """Follow the pool: where nodes fail, spares serve, and others are kept when they return."""
        if not self.changing and self._spares.follow(time.time()):
            self._log.info(f"spare nodes: {self._spared or 'none left'}")

    def _beside(self, fixed: tuple[WindowEntry, ...]) -> tuple[WindowEntry, ...]:
        """The windows in the KVS, without those that are over or that *fixed* has as well."""
        taken = {entry.name for entry in fixed}
        kept = _not_over(self._kept)
        for entry in kept:
            if entry.name in taken:
                self._log.warning(f"window {entry.name}: the one in the configuration counts")
        return tuple(entry for entry in kept if entry.name not in taken)

    def admitted(self, user: int, queues: tuple[str, ...], bank: str) -> frozenset[Holder]:
        """The windows that do not keep away a job of *user* (numeric id) in *queues*, of *bank*."""
        return admitting(self._goal, user, queues, bank)

    def of_job(self, name: str, owner: Owner) -> Window:
        """The window *name*, at its first time that is not over, for a job submitted for it.

        Raises InvalidJobspec if there is none, or if it does not admit a job of *owner*.
        """
        now, place = time.time(), "/attributes/system/treepool/window"
        its = [window for window in self._goal if window.title == name and window.end > now]
        if not its:
            hint = did_you_mean(name, {window.title for window in self._goal})
            raise InvalidJobspec(f"{place}: there is no window {shown(name)}, or it is over{hint}")
        first = min(its, key=lambda window: window.start)
        if not first.admits(*owner):
            raise InvalidJobspec(
                f"{place}: window {name} is for others (flux treepool window list)"
            )
        return first

    def listed(self) -> list[dict[str, Any]]:
        """The windows that are not over, by their start, where each is kept, and hosts not up."""
        now, pool = time.time(), self._queue.pool
        down = {w.title: pool.inventory.hosts_of(w.ranks & ~pool.up) for w in self._goal}
        found = [
            {
                **entry.at(now).to_dict(),
                "source": source,
                "down": hostlist.encode(dict.fromkeys(down.get(entry.name, ()))),
            }
            for source, entries in (("configuration", self._own), ("kvs", self._kept))
            for entry in _not_over(entries)
        ]
        return sorted(found, key=lambda entry: (entry["start"], entry["name"]))

    @property
    def _own(self) -> tuple[WindowEntry, ...]:
        """The windows of the configuration, and that of the spares."""
        if not self._spares.number:
            return self._fixed
        shape = f"slot={self._spares.number}/node{{x}}"
        return (*self._fixed, WindowEntry(SPARES, self._spared, 0.0, float(LATEST), shape=shape))

    @property
    def _spared(self) -> str:
        return self._queue.pool.inventory.hostlist(self._spares.kept)

    def end(self) -> None:
        """Refuse the requests, those to come too, because the module is being unloaded."""
        self._ended = True
        changes, self._changes = self._changes, deque()
        for change in filter(lambda change: change.msg, changes):
            text = "the scheduler is being unloaded"
            self._handle.respond_error(change.msg, errno.ENOSYS, text)

    # -- requests

    def _on_add(self, msg: Any) -> None:
        payload, replaces, test = payload_of(msg), False, False
        if isinstance(payload, dict):
            payload = dict(payload)
            replaces, test = (payload.pop(name, False) is True for name in ("replaces", "test"))
        entry = windows.read(payload)
        if entry.at(time.time()).end <= time.time():
            raise InvalidWindow("/end: has passed")
        self._window(entry, _fail)
        if entry.shape:
            self._request(entry)
        self._enqueue(_Change(msg, entry.name, entry, None, replaces, test))

    def _on_remove(self, msg: Any) -> None:
        payload = payload_of(msg)
        name = payload.get("name") if isinstance(payload, dict) else None
        if not isinstance(name, str):
            raise InvalidWindow("/name: must be a string")
        if any(entry.name == name for entry in self._own):
            raise InvalidWindow(f"window {name} is in the configuration: remove it there")
        self._enqueue(_Change(msg, name))

    # -- changes

    def _enqueue(self, change: _Change) -> None:
        self._changes.append(change)
        if self._ended:
            self.end()
        else:
            self._task.wake()

    def _work(self) -> Work:
        """Make the first change, or look at the clock and the nodes."""
        if self._changes:
            yield from self._change_first(self._changes[0])
        else:
            yield from self._look()
        if self._changes:
            self._task.wake()
        elif self._goal:
            now = time.time()
            times = [t for w in self._goal for t in (w.start, w.end) if t > now]
            self._task.wake(max(_PAUSE, min([t - now for t in times] + [_LOOK])))

    def _change_first(self, change: _Change) -> Work:
        """Write the windows as they are after *change* to the KVS, then apply it; or only test it.

        The others must not wait for one that fails.
        """
        try:
            kept = self._after(change)  # before a long choice of nodes
            if change.added is not None and not change.added.hosts:
                change.added = yield from self._chosen(change.added, change.msg is None)
                kept = self._after(change)
            if change.added is not None and change.test:
                its = self._times(change.added, _fail)
                self._answer(change, (yield from conflicts(self._queue, its, self._owner_of)))
            else:
                yield from self._write(kept)
                self._kept = kept
                if change.fixed is not None:
                    self._fixed = change.fixed
                yield from self._apply(change)
            self._changes.popleft()
        except Exception as e:
            self._give_up(e)

    def _write(self, kept: tuple[WindowEntry, ...]) -> Work:
        """Make *kept* the windows in the KVS; yields until they are there."""
        arrived: list[Any] = []

        def arrive(future: Any) -> None:
            arrived.append(future)
            self._task.wake()

        transaction = _transaction(self._handle, kept)
        then(self._handle, commit_async(self._handle, _kvstxn=transaction), arrive)
        while not arrived:
            yield math.inf
        try:
            arrived[0].get()
        except OSError as e:
            raise OSError(e.errno or errno.EIO, f"KVS: {e.strerror or e}") from None

    def _chosen(self, entry: WindowEntry, stays: bool) -> Generator[None, None, WindowEntry]:
        """*entry* with the nodes that are the least in the way, those that it had if it *stays*."""
        now, pool = time.time(), self._queue.pool
        first = entry.at(now)
        span = PRESENT if first.start <= now else first.start, first.end
        keep = pool.up & next((w.ranks for w in self._goal if w.title == entry.name and stays), 0)
        request = self._request(entry)
        ranks = yield from choose(self._queue, request, entry.within, span, entry.name, keep)
        if not ranks:
            raise InvalidWindow("there are no such nodes that are up and in no other window then")
        return attrs.evolve(entry, hosts=hostlist.encode(pool.inventory.hosts_of(ranks)))

    def _request(self, entry: WindowEntry) -> Request:
        """What a window asks for whose nodes are chosen; raises InvalidWindow."""
        try:
            options = {"within": entry.within} if entry.within else None
            constraints = constraint_of(entry.requires) if entry.requires else None
            spec = jobspec.from_resources(parse_shape(entry.shape), 0.0, constraints, options)
            request = self._queue.pool.parse_resource_request(spec)
            self._queue.pool.check_feasibility(request)
        except (InvalidInput, InfeasibleRequest) as e:
            raise InvalidWindow(str(e)) from None
        return request

    def _look(self) -> Generator[None, None, None]:
        """Follow the clock: windows that come again, open or are over; and nodes that are down."""
        now = time.time()
        goal = self._windows(self._kept, self._log.warning)
        if goal != self._goal:
            self._goal = goal
            yield from self._change_queue()
        self._note_open(now)
        ranks = {window.title: window.ranks for window in goal}
        for entry in self._kept:
            if not entry.shape or not ranks.get(entry.name, 0) & ~self._queue.pool.up:
                self._down.pop(entry.name, None)
            elif now >= self._down.setdefault(entry.name, now) + _DOWN:
                self._down[entry.name] = now
                anew = attrs.evolve(entry, hosts="")
                self._changes.append(_Change(None, entry.name, anew, replaces=True))

    def _note_open(self, now: float) -> None:
        """There may be something to start where a window is open, or is over."""
        is_open = {window.name for window in self._goal if window.start <= now}
        if is_open != self._open:
            self._open = is_open
            self._changed()

    def _after(self, change: _Change) -> tuple[WindowEntry, ...]:
        if change.fixed is not None:
            return self._beside(change.fixed)
        kept = _not_over(self._kept)
        if change.added is None or change.replaces:
            rest = tuple(entry for entry in kept if entry.name != change.name)
            if rest == kept:
                hint = did_you_mean(change.name, (entry.name for entry in kept))
                raise InvalidWindow(f"there is no window {shown(change.name)}{hint}")
            kept = rest
        if change.added is None:
            return kept
        both = [entry.to_dict() for entry in (*self._own, *kept)]
        if any(entry["name"] == change.name for entry in both):
            said = f"/name: there is a window {shown(change.name)} already"
            raise Refused(errno.EEXIST, said)
        added = change.added.to_dict() if change.added.hosts else None
        windows.read_all([*both, *filter(None, (added,))], closed=False)  # the limits of all
        return (*kept, change.added)

    def _apply(self, change: _Change) -> Generator[None, None, None]:
        """Give the queue the windows as they are now, and answer *change*."""
        self._goal = self._windows(self._kept, self._log.warning)
        told = yield from self._change_queue(change.name)
        if change.fixed is not None:
            self._log.info(f"windows of the configuration: {len(change.fixed)}")
        else:
            self._answer(change, told)
            done = "changed" if change.replaces else "added"
            what = "removed" if change.added is None else f"{done}, {change.added.hosts:.200}"
            self._log.info(f"window {change.name}: {what}")
        self._open = set()

    def _change_queue(self, name: str = "") -> Generator[None, None, Conflicts]:
        """Give the queue the windows of the goal; returns the conflicts with those called *name*.

        No job may start meanwhile: it could get nodes of a window that is replaced.
        """
        self.changing = True
        try:
            return (yield from change_windows(self._queue, self._goal, self._owner_of, name))
        finally:
            self.changing = False
            if not self._ended:
                self._changed()

    def _answer(self, change: _Change, told: Conflicts) -> None:
        if change.msg is not None:
            hosts = "" if change.added is None else change.added.hosts
            self._handle.respond(change.msg, {**attrs.asdict(told), "hosts": hosts})

    def _give_up(self, error: Exception) -> None:
        """Report that the first change is not made because of *error*, and drop it."""
        change = self._changes.popleft()
        if change.msg is None:
            what = f"window {change.name}" if change.name else "windows of the configuration"
            self._log.error(f"{what}: {str(error) or type(error).__name__}")
        else:
            refuse(self._handle, change.msg, error)

    def _windows(
        self, kept: Iterable[WindowEntry], problem: Callable[[str], None]
    ) -> tuple[Window, ...]:
        """The windows of the configuration and those *kept*, without those that are over."""
        entries = _not_over((*self._fixed, *kept))
        self._made = {e: self._made.get(e) or self._window(e, problem) for e in entries}
        return tuple(window for e in entries for window in self._times(e, problem))

    def _times(self, entry: WindowEntry, problem: Callable[[str], None]) -> list[Window]:
        """The window of *entry*, or one for each of its times."""
        made = self._made.get(entry) or self._window(entry, problem)
        if not entry.every:
            return [made]
        return [
            attrs.evolve(made, name=f"{made.name}@{at.start:.0f}", start=at.start, end=at.end)
            for at in entry.times(time.time())
        ]

    def _window(self, entry: WindowEntry, problem: Callable[[str], None]) -> Window:
        queues = self._configuration.get("queues", {}) if entry.queues else ()
        return window_of(entry, self._queue.pool.inventory.resource_set, queues, problem)


def _fail(message: str) -> None:
    raise InvalidWindow(message)


def _not_over(entries: Iterable[WindowEntry]) -> tuple[WindowEntry, ...]:
    now = time.time()
    return tuple(entry for entry in entries if entry.at(now).end > now)


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
