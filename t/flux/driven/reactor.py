"""A stand-in for the broker: flux-core's handle and reactor, without any process.

The scheduler module runs in it as it is, on flux-core's own base class. Time is a number that the
test sets. In each turn of the reactor a source of chance decides which of the things that may come
next come: a message, a timer, a step of a generator. Any such order can come in a real broker.
"""

import errno
import json
import math
import os
from collections import deque

import flux.message
from _flux._core import ffi, lib
from flux.constants import FLUX_POLLIN

#: The roles of the owner of an instance, and of any user.
OWNER, USER = 1, 2

#: Turns after which a reactor that never rests is taken to hang.
MOST_TURNS = 20_000


class Clock:
    """Seconds since the epoch, and monotonic ones: these also pass while the module works."""

    def __init__(self, chance, now):
        self.chance, self.now, self.more = chance, now, 0.0

    def monotonic(self):
        self.more += self.chance.choice([0.0, 0.0, 0.002, 0.02]) if self.chance else 0.0
        return self.elapsed

    @property
    def elapsed(self):
        return self.now + self.more


class Watcher:
    """A watcher of any kind; a timer has a time at which it goes off."""

    def __init__(self, handle, callback):
        self.reactor, self.callback = handle, callback
        self.handle = ffi.NULL
        self.due, self.started = None, False

    def reset(self, after=0.0, repeat=0.0):
        self.due = self.reactor.clock.elapsed + after

    def start(self):
        self.started = True

    def stop(self):
        self.started, self.due = False, None


class Timer(Watcher):
    """Goes off ``after`` seconds, once it is started."""

    def __init__(self, handle, after, callback):
        super().__init__(handle, callback)
        self.after = after

    def start(self):
        self.reset(self.after)


class Future:
    """An RPC: its *answers*, in order; an exception is raised by ``get``."""

    def __init__(self, reactor, answers):
        self.reactor, self.answers = reactor, deque(answers)
        self.callback = None

    def get(self):
        if isinstance(self.answers[0], Exception):
            raise self.answers[0]
        return self.answers[0]

    def reset(self):
        self.answers.popleft()
        if self.answers and self.callback:
            self.reactor.inbox.append(self.call)

    def add(self, answer):
        """One more answer of a stream."""
        self.answers.append(answer)
        if len(self.answers) == 1 and self.callback:
            self.reactor.inbox.append(self.call)

    def call(self):
        self.callback(self, *self.args)

    def then(self, callback, *args):
        self.callback, self.args = callback, args
        if self.answers:
            self.reactor.inbox.append(self.call)


class Message:
    """A request to the module, and what it has answered."""

    def __init__(self, topic, payload, userid=0, rolemask=OWNER, streams=False):
        self.topic, self.userid, self.rolemask = topic, userid, rolemask
        self.payload_str = payload if isinstance(payload, str) else json.dumps(payload)
        self._flux = flux.message.Message()  # wants a response
        self.handle = self._flux.handle
        self.streams = streams
        if streams:
            lib.flux_msg_set_streaming(ffi.cast("flux_msg_t *", self.handle))
        self.answers, self.errors = [], []
        self.delivered = False

    @property
    def payload(self):
        return json.loads(self.payload_str)

    @property
    def responses(self):
        """How many responses it got that it may have one of."""
        return len(self.errors) + (0 if self.streams else len(self.answers))


class Transaction:
    """A KVS transaction; ``Handle.breaks`` says which keys cannot be put into one."""

    def __init__(self, handle):
        self.handle, self.puts = handle, {}

    def put(self, key, value):
        if self.handle.breaks(key):
            raise OSError(errno.ENOMEM, "no memory")
        self.puts[key] = json.loads(json.dumps(value))


def commit_async(handle, _kvstxn):
    """Commit a transaction; the KVS answers in its own time."""
    handle.kvs.update(_kvstxn.puts)
    for key, value in _kvstxn.puts.items():
        handle.on_commit(key, value)
    future = Future(handle, ())
    handle.commits.append(future)
    return future


def get_key(handle, key):
    """A value in the KVS."""
    if key not in handle.kvs:
        raise OSError(errno.ENOENT, "no such key")
    return handle.kvs[key]


def raise_async(handle, jobid, kind, severity, note):
    """Raise an exception of a job."""
    return handle.rpc("job-manager.raise", {"id": jobid, "type": kind, "severity": severity})


def get_keys(handle, keys):
    """Texts of values in the KVS, or errors."""
    found = []
    for key in keys:
        try:
            value = get_key(handle, key)
        except OSError as e:
            value = e
        found.append(value if isinstance(value, (str, OSError)) else json.dumps(value))
    return found


class Handle:
    """What the module takes for its handle of a broker.

    ``services`` answer RPCs by topic. *chance*, a random.Random, decides what comes first; without
    it messages come first, then timers, then generators.
    """

    def __init__(self, clock, chance=None, kvs=None, conf=None):
        self.clock, self.chance = clock, chance
        self.handle = ffi.NULL
        self.inbox, self.commits = deque(), deque()
        self.timers, self.checks, self.prepares = [], [], []
        self.handlers, self.services = {}, {}
        self.kvs, self.conf = {} if kvs is None else kvs, conf or {}
        self.logged = []
        self.stopped = self.failed = False
        #: Called when nothing is left to do now, and before each turn.
        self.on_idle = self.on_turn = lambda: None
        self.on_commit = lambda key, value: None
        self.on_answer = lambda msg: None
        self.breaks = lambda key: False

    # -- what the module calls

    def log(self, level, text):
        self.logged.append((level, text))

    def conf_get(self, key=None, default=None, update=False):
        found = self.conf
        for name in key.split(".") if key else ():
            if not isinstance(found, dict) or name not in found:
                return default
            found = found[name]
        return found

    def attr_get(self, name):
        if name == "instance-level":
            return "0"
        raise OSError(errno.ENOENT, name)

    def service_register(self, name):
        return Future(self, [None])

    def event_subscribe(self, topic):
        pass

    def timer_watcher_create(self, after, callback, repeat=0.0, args=None):
        self.timers.append(Timer(self, after, callback))
        return self.timers[-1]

    def idle_watcher_create(self, callback=None, args=None):
        return Watcher(self, callback)

    def prepare_watcher_create(self, callback, args=None):
        self.prepares.append(Watcher(self, callback))
        return self.prepares[-1]

    def check_watcher_create(self, callback, args=None):
        self.checks.append(Watcher(self, callback))
        return self.checks[-1]

    def msg_watcher_create(self, callback, type_mask, topic, args=None, rolemask=None):
        watcher = Watcher(self, callback)
        watcher.handle, watcher.rolemask = watcher, OWNER | (rolemask or 0)
        self.handlers[topic.replace("unknown.", "sched-treepool.")] = watcher
        return watcher

    def msg_handler_allow_rolemask(self, watcher, rolemask):
        watcher.rolemask |= rolemask

    def rpc(self, topic, payload=None, nodeid=0, flags=0):
        answers = self.services[topic](payload)
        return answers if isinstance(answers, Future) else Future(self, answers)

    def pollevents(self):
        return FLUX_POLLIN if self.inbox else 0

    def respond(self, msg, payload=None):
        msg.answers.append(json.loads(json.dumps(payload)))
        self.on_answer(msg)

    def respond_error(self, msg, number, text=""):
        assert isinstance(number, int) and number > 0, number
        msg.errors.append((number, text))
        self.on_answer(msg)

    def reactor_stop(self):
        self.stopped = True

    def reactor_stop_error(self):
        self.stopped = self.failed = True

    def reactor_run(self):
        self.stopped = False
        turns = 0
        while not self.stopped:
            self.on_turn()
            if not self.stopped and not self.turn():
                turns = 0
                self.on_idle()
            turns += 1
            assert turns < MOST_TURNS, "the module never rests"
        return -1 if self.failed else 0

    # -- what the test calls

    def send(self, msg):
        """Let a request be on its way to the module."""

        def deliver():
            msg.delivered = True
            watcher = self.handlers[msg.topic]
            if msg.rolemask & watcher.rolemask:
                watcher.callback(self, 0, msg, None)
            else:
                msg.errors.append((errno.EPERM, os.strerror(errno.EPERM)))

        self.inbox.append(deliver)
        return msg

    @property
    def next_timer(self):
        """When the next timer goes off at the latest, in whole seconds; infinity if none is set."""
        due = min((t.due for t in self.timers if t.due is not None), default=math.inf)
        return due if due == math.inf else math.ceil(due - self.clock.more)

    def hurry(self):
        """Let the time pass until the next timer goes off, while the clock stands still."""
        due = min(t.due for t in self.timers if t.due is not None)
        self.clock.more = max(self.clock.more, due - self.clock.now)

    def turn(self):
        """One turn of the reactor; returns whether there was anything to do."""
        for prepare in self.prepares:
            if prepare.started:
                prepare.callback(self, prepare, 0, None)
        now = self.clock.elapsed
        due = [t for t in self.timers if t.due is not None and t.due <= now]
        steps = [self.checks_of] if any(c.started for c in self.checks) else []
        if due:
            steps.insert(0, lambda: self.expire(due))
        if self.commits:
            steps.insert(0, self.commit)
        if self.inbox:
            steps.insert(0, lambda: self.inbox.popleft()())
        if not steps:
            return False
        chosen = steps[:1]
        if self.chance:
            chosen = [s for s in steps if self.chance.random() < 0.5] or [self.chance.choice(steps)]
        for step in chosen:
            step()
        return True

    def expire(self, due):
        for timer in due:
            if timer.due is not None and timer.due <= self.clock.elapsed:
                timer.due = None
                timer.callback(self, timer, 0, None)

    def commit(self):
        self.commits.popleft().add(None)

    def checks_of(self):
        for check in list(self.checks):
            if check.started:
                check.callback(self, check, 0, None)
