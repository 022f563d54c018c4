"""A soak: legs of random work in one Flux instance that is stopped or killed and started again.

Everything is kept in one directory: Flux's own state, and what ``soakhand.py`` and the
housekeeping scripts note. At the end ``record`` makes of it what ``checker.py`` judges.

Flux's testexec runs the jobs: they take their time and do nothing. It takes up jobs again that
ran when the instance was stopped; there are always some that run for longer than a restart takes.
When the brokers are killed Flux itself ends running jobs with an exception, and has the rest of its
state from the checkpoint that is written just before.
"""

import json
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from broker import GUEST, HERE, Instance, environment, key_of
from features import HAS_VIRTUAL_QUEUES
from soakcluster import CLUSTERS, PARENTS, QUEUES, rset
from treepool.errors import InvalidInput
from treepool.placement.nodes.inventory import Inventory
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet
from treepool.view import swf

HAND, GUEST_HAND = (Path(__file__).with_name(f"soak{name}.py") for name in ("hand", "guest"))

#: Brokers unless told otherwise, on the first of the nodes. Housekeeping runs on these, and ends at
#: once on the others; only these can be excluded.
BROKERS = 4

#: The parents of virtual queues.
VIRTUAL = PARENTS if HAS_VIRTUAL_QUEUES else {}

#: Options of sched-treepool when the instance starts.
STARTS = ([], ["policy=easy"], ["policy=conservative"], ["policy=easy", "locality=required"])

#: The housekeeping script: notes when it begins and ends on a rank, up to 1.6 s apart.
_HOUSEKEEPING = """
rank=$(flux getattr rank)
note() { echo "$FLUX_JOB_ID $rank $1 $(date +%s.%N)" >>DIRECTORY/housekeeping; }
note start
sleep $(( (FLUX_JOB_ID / 16777216 + rank) % 3 )).$(( FLUX_JOB_ID / 33554432 % 7 ))
note end
"""


class Site(Instance):
    """An instance of fake nodes with saved state and sched-treepool from the start.

    Nodes beyond the brokers can be drained too, because the broker is told all their names. They
    are always up. Where each node has a broker, it is up as long as its broker is. The ranks of
    the idset *gone* are excluded. Jobs run on when it is closed.
    """

    #: A start checks the saved state, and reads all jobs that ever were: 64 s for 13,115, load 10.
    patience = 600

    def __init__(self, soak, options, housekeeping, gone):
        self.housekeeping, self.gone = housekeeping, gone
        directory, nodes, brokers = soak.directory, soak.nodes, soak.brokers
        self.env = environment(FLUX_DISABLE_JOB_CLEANUP="t")
        (directory / "state").mkdir(exist_ok=True)
        if brokers == nodes:
            (directory / "R").write_text(json.dumps(soak.R))
            conf = {"resource.path": json.dumps(str(directory / "R"))}
        else:
            cores, gpus = CLUSTERS[soak.cluster]
            fake = {"nnodes": nodes, "cores-per-node": cores, "gpus-per-node": gpus}
            conf = {f"fake-resources.{name}": value for name, value in fake.items()}
            conf["fake-resources.amend-r"] = HERE / "flux" / "amend.py"
            self.env["TREEPOOL_TEST_KEY"] = json.dumps(soak.R["scheduling"])
            properties = soak.R["execution"]["properties"]
            self.env["TREEPOOL_TEST_PROPERTIES"] = json.dumps(properties)
        conf["resource.noverify"] = "true"
        if gone:
            conf["resource.exclude"] = json.dumps(gone)
        for queue in QUEUES:
            if queue in VIRTUAL:
                conf[f"queues.{queue}.parent"] = json.dumps(VIRTUAL[queue])
            else:
                conf[f"queues.{queue}.requires"] = '["debug"]' if queue == "debug" else "[]"
        # Where there are queues, it refuses counts that are ranges, and slots of whole domains.
        conf["job-manager.plugins"] = '[{"remove": ".limit-job-size"}]'
        conf["modules.alternatives.sched"] = "sched-treepool"
        conf["modules.sched-treepool.args"] = json.dumps(options)
        if housekeeping:
            script = _HOUSEKEEPING.replace("DIRECTORY", str(directory))
            conf["job-manager.housekeeping.release-after"] = '"0s"'
            conf["job-manager.housekeeping.command"] = json.dumps(["sh", "-c", script])
        options = [
            *(f"--test-size={brokers}", "--test-exit-mode=leader", "-Stbon.topo=kary:0"),
            *(f"--test-hosts=fake[0-{brokers - 1}]", f"-Shostlist=fake[0-{nodes - 1}]"),
            *(f"-Sstatedir={directory / 'state'}", "-Slog-stderr-level=6"),
            *(f"--conf={name}={value}" for name, value in conf.items()),
        ]
        with (directory / "errors").open("a") as errors:
            self.begin(options, errors)
        self.scheduler = "sched-treepool"
        self.flux("queue", "start", "--all", "--quiet")

    def kill(self, hand, told):
        """End all brokers at once, with the state of this moment in the checkpoint.

        *hand* does so from inside, because the moment may be that at which a job got its R.
        """
        # Not those of brokers that are lost, for which exec fails.
        pids = self.run("exec", "-r", "all", "flux", "getattr", "broker.pid").stdout.split()
        told = {**told, "pids": [self.process.pid, *map(int, pids)]}
        self.run("python", hand, "kill", json.dumps(told))
        self.process.communicate()


class Soak:
    """A soak in *directory*; ``run`` it, then look at ``record``.

    *housekeeping* is the chance that an instance has it, *longest* how many seconds a job runs.
    *promises* jobs that keep their limits run after a leg that settles.
    """

    def __init__(
        self,
        directory,
        seed,
        nodes,
        cluster,
        leg_seconds=30.0,
        housekeeping=0.6,
        longest=20.0,
        promises=60,
        brokers=BROKERS,
    ):
        self.directory = Path(directory)
        self.seed, self.nodes, self.cluster = seed, nodes, cluster
        self.leg_seconds = leg_seconds
        self.housekeeping = housekeeping
        self.longest = longest
        self.promises = promises
        self.brokers = brokers
        self.R = rset(nodes, cluster, key_of(f"rfc49-cluster-{cluster}"))
        self.chance = random.Random(seed)
        self.stops = []
        #: When the instance of each of these was gone.
        self.gone = []
        #: [ranks, from, to] of ranks that are excluded.
        self.excluded = []
        self.counts = Counter()

    def take_day_of(self, text):
        """Let most jobs be like those of a random day of a trace in Standard Workload Format."""
        read = swf.read(text)
        first = self.chance.choice(read.jobs).submit
        day = [job for job in read.jobs if first <= job.submit < first + 86400]
        processors = read.machine.nodes * read.machine.cores(1)
        told = [[int(job.shape[5:-7]) / processors, job.runs, job.limit] for job in day]
        (self.directory / "day").write_text(json.dumps(told))
        self.counts["jobs of the day"] = len(day)

    def ends(self, seconds):
        """Random ends of legs for so many *seconds*, then the last one."""
        end = time.monotonic() + seconds - self.leg_seconds
        while time.monotonic() < end:
            yield self.chance.choice(["settle", "stop", "stop", "crash"])
        yield "last"

    def run(self, ends, say=print):
        """A leg for each of *ends* (settle, stop, crash; in the end last); then read the KVS."""
        instance = self.start()
        try:
            for leg, how in enumerate(ends):
                say(f"leg {leg}, then {how}")
                self.act(instance, leg, how in ("settle", "last"))
                if how != "last":
                    instance = self.again(instance, how)
            self.hand(instance, "collect", {})
        finally:
            instance.close()

    def start(self):
        """The instance, with other options and with or without housekeeping."""
        housekeeping = self.chance.random() < self.housekeeping
        options = self.chance.choice(STARTS)
        some = self.chance.sample(range(1, self.brokers), self.chance.choice([0, 0, 1, 2]))
        gone = idset.encode_ids(sorted(some))
        began = time.time()
        if self.excluded:
            self.excluded[-1][2] = began
        self.excluded.append([gone, began, None])
        return Site(self, options, housekeeping, gone)

    def again(self, instance, how):
        """Another instance from the state of this one."""
        down = time.time()
        if how == "crash":
            self.counts["crashes"] += 1
            told = self.told(f"{self.seed}/crash {down}")
            told["at_R"] = self.counts["crashes"] % 5 == 1
            instance.kill(HAND, told)
            # What the brokers started may live a moment longer than they.
            time.sleep(2.5)
        else:
            instance.close()
        self.gone.append(time.time())
        instance = self.start()
        self.stops.append([down, time.time(), "crash" if how == "crash" else "stop"])
        return instance

    def act(self, instance, leg, settle):
        """One leg; its time is what a leg is set to, and what it takes to settle."""
        told = self.told(f"{self.seed}/{leg}")
        told.update(seconds=self.leg_seconds, settle=settle, gone=instance.gone, lost="")
        if self.brokers == self.nodes:  # the leader must stay, and enough for all jobs
            told["lost"] = f"{self.nodes - self.nodes // 8}-{self.nodes - 1}"
        # Housekeeping keeps nodes beyond the limits of the jobs that had them.
        told["promises"] = 0 if instance.housekeeping else self.promises
        asked = json.dumps({"directory": str(self.directory), **told})
        guest = subprocess.Popen(
            ["flux", "python", GUEST_HAND, asked],
            env={**instance.env, **GUEST},
            stdin=subprocess.PIPE,
        )
        try:
            self.counts.update(self.hand(instance, "act", told))
        finally:
            guest.communicate(timeout=900)

    def told(self, seed):
        """What each hand is told."""
        return {
            "directory": str(self.directory),
            "seed": seed,
            "nodes": self.nodes,
            "cluster": self.cluster,
            "longest": self.longest,
            "gone": "",
        }

    def hand(self, instance, what, told):
        """Run soakhand.py inside; returns what it says."""
        told = json.dumps({"directory": str(self.directory), **told})
        said = instance.flux("python", HAND, what, told, timeout=self.leg_seconds + 900)
        return json.loads(said.splitlines()[-1])

    def lines(self, name):
        """The lines of a file of the directory, none if there is no such file."""
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def record(self):
        """What happened, for ``checker.check``."""
        cores, gpus = CLUSTERS[self.cluster]
        topos = [child["topo"] for child in self.R["scheduling"]["children"]]
        return {
            "cluster": {
                "nodes": self.nodes,
                "cores": cores,
                "gpus": gpus,
                "topos": [json.dumps(topo, sort_keys=True) for topo in topos],
                "fabric": self.R["scheduling"]["fabric"],
                "parents": VIRTUAL,
            },
            "jobs": [json.loads(line) for line in self.lines("jobs")],
            "submitted": [int(line) for line in self.lines("submitted")],
            "resource": [json.loads(line) for line in self.lines("resource")],
            "housekeeping": scripts(self.lines("housekeeping")),
            "stops": self.stops,
            "gone": [entry for entry in self.excluded if entry[0]] + self.lost(),
            "windows": windows(map(json.loads, self.lines("windows"))),
            "answers": list(map(json.loads, self.lines("answers"))),
            "steps": [json.loads(line)["steps"]["worst"] for line in self.lines("measured")],
            "quiet": [json.loads(line) for line in self.lines("quiet")],
            "promises": {
                jobid: job
                for line in self.lines("promises")
                for jobid, job in json.loads(line).items()
            },
            "problems": self.lines("problems"),
        }

    def lost(self):
        """[rank, from, to] of brokers that were lost until the instance was gone."""
        found = []
        for line in self.lines("lost"):
            rank, since = json.loads(line)
            found.append([str(rank), since, min(gone for gone in self.gone if gone > since)])
        return found


def windows(told):
    """The windows of a record, of what the hand noted when it added and removed them."""
    found = {}
    for entry in told:
        window = found.setdefault(entry["name"], {"queues": [], "removed": None})
        window.update(entry)
    return list(found.values())


def problems(R):
    """What ``treepool validate`` finds in *R*, as texts."""
    found = list(map(str, ResourceSet.problems(R)))
    if not found:
        try:
            Inventory.of(ResourceSet.read(R))
        except InvalidInput as e:
            found.append(str(e))
    return found


def scripts(lines):
    """[job, rank, start, end] of what the housekeeping scripts noted."""
    found, running = [], {}
    whole = (words for words in map(str.split, lines) if len(words) == 4)  # the broker may be gone
    for jobid, rank, what, at in whole:
        key = int(jobid), int(rank)
        if what == "start":
            running[key] = float(at)
        elif key in running:
            found.append([*key, running.pop(key), float(at)])
    return found + [[*key, start, None] for key, start in running.items()]
