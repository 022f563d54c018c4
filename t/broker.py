"""Real Flux instances for tests: fake nodes, simulated execution, a few seconds each."""

import atexit
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
VECTORS = REPOSITORY / "testvectors"

#: The environment of another user, as flux-core's own tests act as one.
GUEST = {"FLUX_HANDLE_USERID": str(os.getuid() + 100), "FLUX_HANDLE_ROLEMASK": "0x2"}

#: Prints the states of jobs once sched-treepool has been asked for each of them, and rests.
WAITS = """
import sys, time, flux

handle = flux.Flux()

def states():
    asked = [handle.rpc("sched-treepool.job", {"id": int(job)}, nodeid=0) for job in sys.argv[1:]]
    return [future.get()["state"] for future in asked]

end = time.monotonic() + 20
while "unknown" in states() and time.monotonic() < end:
    time.sleep(0.02)
if "waiting" in states():
    handle.rpc("sched.quiescent", nodeid=0).get()
print(*states())
"""

#: Options of brokers of which all but the first start and end in a third of the time.
QUICK_BROKERS = [f"-Sbroker.{rc}_path={HERE}/flux/rc.sh {rc}" for rc in ("rc1", "rc3")]

#: Seconds until a command that should take less than one is given up.
PATIENCE = 60


@lru_cache(None)
def installed():
    """Where this treepool is installed for the Flux on the PATH, for these tests."""
    directory = tempfile.mkdtemp(prefix="treepool-test-")
    atexit.register(shutil.rmtree, directory)
    treepool("flux-env", "--install", "--prefix", directory)
    return Path(directory)


def treepool(*words):
    """What this checkout's ``treepool WORDS...`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "treepool", *words],
        env={**bare(), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bare():
    """This process's environment with nothing of its Flux and its Python."""
    no = ("FLUX_", "PYTHON", "PYTEST", "COV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(no)}


def environment(**more):
    """The environment that ``treepool flux-env`` asks for, with nothing of this process's Flux."""
    exports = subprocess.run(
        ["sh", "-c", 'eval "$1"; env -0', "sh", _exports()],
        env=bare(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    shown = dict(item.split("=", 1) for item in exports.split("\0") if "=" in item)
    flux = {name: value for name, value in shown.items() if name.startswith("FLUX_")}
    # No module that the site added, such as those of flux-sched, which would be the scheduler.
    flux["FLUX_MODPROBE_PATH"] = os.devnull
    return {**bare(), **flux, "TREEPOOL_TEST_ROOT": str(REPOSITORY), **more}


@lru_cache(None)
def _exports():
    return treepool("flux-env", "--prefix", str(installed()))


#: Commands of Flux that are programs in Python, which takes a tenth of a second to start.
IN_PYTHON = ("submit", "bulksubmit", "run", "alloc", "batch", "jobs", "cancel", "update", "queue",
             "resource", "treepool", "uri")  # fmt: skip


class Commands:
    """A process that has what Flux's commands need; a copy of it is one: see flux_commands.py."""

    def __init__(self):
        self.env = environment()
        self.process = subprocess.Popen(
            ["flux", "python", HERE / "flux/flux_commands.py"],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.process.communicate)

    def has(self, words, env):
        """Whether ``flux WORDS...`` is one of them, and its Python the same in *env*."""
        names = {name for name in {*env, *self.env} if name.startswith("PYTHON")}
        alike = all(env.get(name) == self.env.get(name) for name in names)
        return alike and (words[0] in IN_PYTHON or words[:2] == ["python", "-c"])

    def run(self, words, env, stdin, timeout):
        """The finished process of ``flux WORDS...``."""
        changed = {name: None for name in self.env if name not in env}
        changed.update((k, value) for k, value in env.items() if self.env.get(k) != value)
        self.process.stdin.write(json.dumps([words, changed, stdin]) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:  # it takes too long, or the process is gone
            os.killpg(self.process.pid, signal.SIGKILL)
            _commands.cache_clear()
            raise subprocess.TimeoutExpired(words, timeout)
        return subprocess.CompletedProcess(words, *json.loads(answer))


@lru_cache(None)
def _commands():
    return Commands()


def run_command(words, env, stdin="", timeout=PATIENCE):
    """The finished process of ``flux WORDS...`` in the environment *env*."""
    if _commands().has(words, env):
        return _commands().run(words, env, stdin, timeout)
    return subprocess.run(
        ["flux", *words], env=env, input=stdin, capture_output=True, text=True, timeout=timeout
    )


def key_of(cluster):
    """The scheduling key of a vector file's cluster."""
    return json.loads((VECTORS / f"{cluster}.json").read_text())["cluster"]["R"]["scheduling"]


class Failed(Exception):
    """A command of Flux ended with another status than 0."""


class Instance:
    """A Flux instance of *nodes* fake nodes; ``with`` it, and give it commands.

    *key* is a scheduling key, whose first topo all nodes get; *size* how many brokers there are;
    *conf* lines of configuration, *env* variables of environment, of which None is unset;
    *options* are those of ``flux start``. An *R* says what there is in place of fake nodes, and
    without nodes *conf* does.
    """

    #: Seconds until a start or a stop is given up.
    patience = PATIENCE

    def __init__(
        self, nodes=16, cores=120, gpus=8, key=None, size=1, conf=(), env=None, options=(), R=None
    ):
        given = {**environment(), **(env or {})}
        self.env = {name: value for name, value in given.items() if value is not None}
        if key is not None:
            self.env["TREEPOOL_TEST_KEY"] = json.dumps(key)
        options = [f"--test-size={size}", "--test-exit-mode=leader", *options]
        if size > 1:
            options.append(f"--test-hosts=fake[0-{size - 1}]")
            options += QUICK_BROKERS
        if R is not None:
            self.file = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115 (kept open)
            json.dump(R, self.file)
            self.file.flush()
            conf = [*conf, f"resource.path={self.file.name}", "resource.noverify=true"]
        elif nodes:
            fake = {"nnodes": nodes, "cores-per-node": cores, "amend-r": HERE / "flux/amend.py"}
            fake.update({"gpus-per-node": gpus} if gpus else {})
            options += [f"--conf=fake-resources.{name}={value}" for name, value in fake.items()]
        options += [f"--conf={line}" for line in conf]
        self.begin(options)

    def begin(self, options, errors=subprocess.PIPE):
        """Start the instance with these options of ``flux start``; *errors* gets its stderr."""
        # The first program of the instance tells where it is and waits until the test is over.
        waiting = ["sh", "-c", "echo $FLUX_URI; exec cat"]
        self.process = subprocess.Popen(
            [shutil.which("flux"), "start", *options, *waiting],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
        uri = self.process.stdout.readline().strip() if ready else ""
        if not uri:
            self.close()
            raise Failed(f"flux start: {self.errors or getattr(errors, 'name', '')}")
        self.env["FLUX_URI"] = uri

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the instance, by force if it hangs."""
        try:
            _, self.errors = self.process.communicate(timeout=self.patience)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            _, self.errors = self.process.communicate()

    def with_env(self, **variables):
        """The same instance, for commands with other *variables* of environment; None is unset."""
        other = copy(self)
        env = {**self.env, **variables}
        other.env = {name: value for name, value in env.items() if value is not None}
        return other

    def run(self, *words, stdin="", timeout=PATIENCE):
        """The finished process of ``flux WORDS...``."""
        return run_command(list(map(str, words)), self.env, stdin, timeout)

    def sh(self, script, cwd=None):
        """The finished process of what somebody types into a shell of the instance."""
        return subprocess.run(
            ["sh", "-ec", script],
            env=self.env,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )

    def flux(self, *words, stdin="", timeout=PATIENCE):
        """What ``flux WORDS...`` prints; raises Failed with what it says if it fails."""
        done = self.run(*words, stdin=stdin, timeout=timeout)
        if done.returncode != 0:
            raise Failed(f"flux {' '.join(map(str, words))}: {done.stderr}{done.stdout}")
        return done.stdout.strip()

    def inside(self, job):
        """The instance that *job* is, once its program has put "ready" into its KVS."""
        self.wait(job, "memo")  # it tells where it is
        instance = self.with_env(FLUX_URI=self.flux("uri", "--local", job))
        assert instance.soon(lambda: instance.run("kvs", "get", "ready").stdout)
        return instance

    # -- the scheduler

    def load(self, *words):
        """Make ``flux module load WORDS...`` the scheduler instead of what is."""
        for line in self.flux("module", "list").splitlines():
            if line.startswith("sched-"):
                self.flux("module", "remove", line.split()[0])
        self.flux("module", "load", *words)
        self.scheduler = words[0]

    def stats(self):
        """The scheduler's statistics."""
        return json.loads(self.flux("module", "stats", self.scheduler))

    def log(self):
        """The log so far."""
        return self.flux("dmesg")

    def ready(self):
        """The log of the last scheduler that got ready, from the one before it on; "" if none did.

        flux-core 0.87 and later tell in their line ``ready:`` which pool it has, and on 0.86
        treepool itself does, before that line.
        """
        before, ready, after = self.log().rpartition("ready: ")
        return before.rpartition("ready: ")[2].partition("\n")[2] + ready + after

    @contextmanager
    def configured(self, *words, **conf):
        """The instance with another configuration, loaded with *words*; at the end without jobs."""
        self.flux("config", "load", stdin=json.dumps(conf))
        self.load("sched-treepool", *words)
        if "queues" in conf:
            self.flux("queue", "start", "--all", "--quiet")
        yield self
        self.cancel_all()
        self.flux("config", "load", stdin="{}")

    # -- jobs

    def submit(self, *words, seconds=3600, command=("true",)):
        """Submit a job that will seem to run for so many *seconds*; returns its id."""
        simulated = f"--setattr=system.exec.test.run_duration={seconds}s"
        return self.flux("submit", simulated, *words, *command)

    def shape(self, shape, *words, **more):
        """Submit a job by RFC 46 shape; returns its id."""
        return self.submit(f"--resources-shape={shape}", *words, **more)

    def wait(self, job, event, timeout=20, path="eventlog"):
        """Wait for *job*'s event, in the log *path*, and return its context."""
        options = (f"--timeout={timeout}", f"--path={path}", "--format=json")
        words = ("job", "wait-event", *options, job, event)
        return json.loads(self.flux(*words)).get("context", {})

    def R(self, job):
        """The R of *job* in the KVS, once it has one."""
        self.wait(job, "alloc")
        return json.loads(self.flux("job", "info", job, "R"))

    def placed(self, job):
        """(rank, cores, GPUs) of each R_lite entry of *job*, as texts."""
        return [
            (e["rank"], e["children"]["core"], e["children"].get("gpu", ""))
            for e in self.R(job)["execution"]["R_lite"]
        ]

    def set_R(self, job, text):
        """Let the KVS have *text* as the R of *job*."""
        key = f"{self.flux('job', 'id', '--to=kvs', job)}.R"
        self.flux("kvs", "put", "--raw", f"{key}=-", stdin=text)

    def state(self, job):
        """PENDING, RUNNING or INACTIVE, as ``flux jobs`` abbreviates: S, R, CD, ..."""
        return self.flux("jobs", "-no", "{status_abbrev}", job)

    def annotation(self, job, name):
        """Annotation ``sched.NAME`` of *job*, "" if it has none."""
        return self.flux("jobs", "-no", f"{{annotations.sched.{name}}}", job)

    def soon(self, question, seconds=PATIENCE):
        """The first answer of *question()* that is true, or the last one."""
        pause, end = 0.05, time.monotonic() + seconds
        while not (answer := question()) and time.monotonic() < end:
            time.sleep(pause)
            pause = min(1.5 * pause, 0.5)
        return answer

    def waits(self, *jobs):
        """Whether sched-treepool knows all *jobs* and starts none of them, if nothing changes."""
        numbers = self.flux("job", "id", "--to=dec", *jobs).split()
        return set(self.flux("python", "-c", WAITS, *numbers).split()) <= {"waiting", "deferred"}

    def urgency(self, job, urgency):
        """Give *job* another urgency, as the job manager has told the scheduler."""
        self.flux("job", "urgency", job, urgency)
        priority = 0xFFFFFFFF if urgency == 31 else urgency
        match = f"--match-context=priority={priority}"
        self.flux("job", "wait-event", "--quiet", "--timeout=20", match, job, "priority")

    def cancel_all(self):
        """Cancel all jobs and wait until they are gone."""
        self.run("cancel", "--all")
        self.flux("queue", "drain", "--timeout=30")

    def resources(self, state):
        """(nodes, cores, GPUs) that ``flux resource list`` counts in *state*."""
        line = self.flux("resource", "list", "-s", state, "-no", "{nnodes} {ncores} {ngpus}")
        return tuple(map(int, line.split()))
