"""Run by Flux's Python: questions to the scheduler, as fast as they can be sent, or politely.

``flooding.py flood OPEN`` keeps so many questions open until stdin ends, ``flooding.py polite``
asks one after another with a pause between. Prints one JSON object: how many were ``answered`` and
``refused``, and for the polite the ``seconds`` of each answer.
"""

import json
import select
import sys
import time

import flux

#: What is asked: an answer that costs the module next to nothing, and one that costs more.
QUESTIONS = (
    ("sched-treepool.numbers", {}),
    ("sched-treepool.totals", {}),
    (
        "sched-treepool.ask",
        {
            "resources": [
                {
                    "type": "slot",
                    "count": 4,
                    "label": "task",
                    "with": [{"type": "core", "count": 2}],
                }
            ],
            "duration": 60,
        },
    ),
)

#: Seconds between two questions of the polite.
PAUSE = 0.1


def over():
    """Whether stdin has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


class Flood:
    """Keeps *number* questions open."""

    def __init__(self, number):
        self.handle = flux.Flux()
        self.answered = self.refused = 0
        self.ending = False
        for _ in range(number):
            self.ask()

    def ask(self):
        """Ask one more."""
        topic, payload = QUESTIONS[(self.answered + self.refused) % len(QUESTIONS)]
        self.handle.rpc(topic, payload, nodeid=0).then(self.on_answer)

    def on_answer(self, future, _=None):
        """Count an answer, and ask again."""
        try:
            future.get()
            self.answered += 1
        except OSError:
            self.refused += 1
        if not self.ending:
            self.ask()
        if (self.answered + self.refused) % 64 == 0 and over():
            self.ending = True
            self.handle.reactor_stop()

    def run(self):
        """Ask until stdin ends."""
        self.handle.reactor_run()
        return {"answered": self.answered, "refused": self.refused}


def polite():
    """Ask until stdin ends."""
    handle, found = flux.Flux(), {"answered": 0, "refused": 0, "seconds": []}
    while not over():
        for topic, payload in QUESTIONS:
            began = time.monotonic()
            try:
                handle.rpc(topic, payload, nodeid=0).get()
                found["answered"] += 1
            except OSError:
                found["refused"] += 1
            found["seconds"].append(time.monotonic() - began)
            time.sleep(PAUSE)
    return found


if __name__ == "__main__":
    print(json.dumps(polite() if sys.argv[1] == "polite" else Flood(int(sys.argv[2])).run()))
