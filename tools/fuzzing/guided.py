"""The coverage-guided fuzzer: ``python guided.py TARGET SECONDS``, in an environment with atheris.

It starts from the seeds and the corpus, and keeps what it finds in ``found/TARGET``, one input for
each place in the code where a target misbehaved. ``long.py`` runs it over all targets; what is
fixed moves to ``t/fuzz/corpus/TARGET``, where ``test_corpus.py`` tries it forever.
"""

import hashlib
import json
import sys
import tempfile
import time
import traceback
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [str(REPOSITORY / "t"), str(REPOSITORY)]

with atheris.instrument_imports(include=["treepool"]):
    from fuzz import targets

#: Longest input tried, in bytes; large inputs are for large.py.
MAX_LENGTH = 4096

#: Most CPU time that one input may take, in seconds; instrumented code is three times as slow.
MAX_SECONDS = 3.0

#: How often the figures are written, in seconds.
REPORT = 0.5

#: Words that mean something to some parser, for libFuzzer to put in.
WORDS = (
    *("slot", "node", "core", "gpu", "memory", "storage", "numa", "socket", "unit", "exclusive"),
    *(
        "{x}",
        "0-3",
        "1-4611686018427387904",
        "4294967295",
        ":*",
        ":^",
        "+",
        "^",
        "[0-9]",
        "][",
        ",",
    ),
    *('"min"', '"max"', '"operator"', '"operand"', '"with"', '"type"', '"count"', '"label"'),
    *('"and"', '"or"', '"not"', '"properties"', '"hostlist"', '"ranks"', '"treepool"'),
    *("null", "true", "NaN", "Infinity", "1e999", "-1", "1.0", "\\ud800", "\ud800", "\x1b[31m"),
    *("<object", "type=", "cpuset=", "0xf...f", "<!ENTITY", "NV12", "PIX", "MIG ", "GPU0", "X"),
)


class Run:
    """One target under the fuzzer: how many inputs there were, and where it misbehaved."""

    def __init__(self, name):
        self.name = name
        self.inputs = 0
        self.slowest = 0.0
        self.outcomes = {}
        self.found = set()
        self.started = time.monotonic()
        self.reported = self.started

    def one(self, data):
        """Try one input, and remember it if it is the first to misbehave where it does."""
        self.inputs += 1
        start = time.process_time()
        try:
            outcome = targets.attempt(self.name, data)
        except Exception as e:
            outcome = "misbehaved"
            self.keep(data, e)
        took = time.process_time() - start
        self.slowest = max(self.slowest, took)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if took > MAX_SECONDS:
            self.keep(data, TimeoutError(f"{took:.1f} s"))
        if time.monotonic() - self.reported > REPORT:
            self.report()

    def keep(self, data, error):
        """Write *data* to ``found``, unless an input is there that ends at the same place."""
        frames = traceback.extract_tb(error.__traceback__)
        place = [(type(error).__name__, *((f.filename, f.lineno) for f in frames[-3:]))]
        digest = hashlib.sha256(repr(place).encode()).hexdigest()[:12]
        if digest in self.found:
            return
        self.found.add(digest)
        folder = HERE / "found" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / digest).write_bytes(data)
        (folder / f"{digest}.why").write_text(
            "".join(traceback.format_exception(type(error), error, error.__traceback__)),
            errors="replace",
        )

    def report(self):
        """Write the figures; libFuzzer leaves no time at the end."""
        self.reported = time.monotonic()
        figures = {
            "target": self.name,
            "inputs": self.inputs,
            "seconds": round(self.reported - self.started),
            "slowest": round(self.slowest, 3),
            "outcomes": self.outcomes,
            "misbehaved": len(self.found),
        }
        (HERE / "found" / f"{self.name}.json").write_text(json.dumps(figures) + "\n")


def main():
    name, seconds = sys.argv[1:]
    (HERE / "found").mkdir(exist_ok=True)
    run = Run(name)
    with tempfile.TemporaryDirectory() as folder:
        new, seeds, words = (Path(folder) / part for part in ("new", "seeds", "words"))
        new.mkdir()
        seeds.mkdir()
        for i, seed in enumerate(targets.TARGETS[name].seeds):
            (seeds / str(i)).write_bytes(seed)
        escaped = (
            "".join(f"\\x{byte:02x}" for byte in w.encode("utf-8", "surrogatepass")) for w in WORDS
        )
        words.write_text("".join(f'"{word}"\n' for word in escaped))
        for case in (REPOSITORY / "t" / "fuzz" / "corpus" / name).glob("*"):
            (seeds / f"corpus-{case.name}").write_bytes(case.read_bytes())
        arguments = [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={MAX_LENGTH}",
            f"-dict={words}",
            "-rss_limit_mb=1024",
            "-timeout=60",
            f"-artifact_prefix={HERE}/found/{name}-",
            *map(str, (new, seeds)),
        ]
        atheris.Setup(arguments, run.one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
