"""Run by Flux's Python: commands told by a scheduler that is newer, whose every object has more."""

from unittest.mock import patch

import checks
from loaded import Loaded, name_of

from treepool.flux import client

#: Formats of their own: an R (RFC 20), what a job asks for (RFC 14, 31).
FORMATS = ("R", "constraints")

#: Keys whose objects are tables by name, and how many tables deep; all else has fixed keys.
TABLES = {
    "rules": 1,
    "queues": 1,
    "kinds": 1,
    "levels": 1,
    "inside": 1,
    "waiting": 2,
    "reserved": 1,
    "users": 1,
    **dict.fromkeys(("nodes", "cores", "gpus", "domains"), 1),  # by state
}


def more(value, tables=0):
    """*value* with an unknown key in each of its objects, below so many *tables*."""
    if isinstance(value, list):
        return [more(one) for one in value]
    if not isinstance(value, dict):
        return value
    if tables:
        return {key: more(one, tables - 1) for key, one in value.items()}
    found = {
        key: one if key in FORMATS else more(one, TABLES.get(key, 0)) for key, one in value.items()
    }
    return {**found, "newer": {"x": [1]}}


def check_what_a_newer_scheduler_adds_changes_no_answer():
    here = Loaded(nodes=4, fabric=True, policy="easy", **{"gpu-cores": "1"})
    runs = here.started("slot=4/node{x}", duration=3600)
    waits = here.waits("slot=4/node{x}", duration=3600)
    times = (f"--start={here.clock.now:.0f}", f"--end={here.clock.now + 60:.0f}")
    assert here.typed("window", "add", "--hosts=n0", *times, "--user=root").status == 0
    here.wait(6)
    ask, answers = client.ask, client.answers
    for words in (
        "status --gpus --jobs --domains --users --json",
        "status --jobs --domains --users",
        "show --instance --json",
        f"explain {name_of(waits)} --json",
        f"explain {name_of(runs)}",
        "explain --instance slot=1/gpu --json",
        "explain --instance slot=1/gpu=99",
        "window list --json",
        "snapshot -",
    ):
        mine = here.typed(*words.split())
        with (
            patch.object(client, "ask", lambda *asked: more(ask(*asked))),
            patch.object(client, "answers", lambda *asked: map(more, answers(*asked))),
        ):
            newer = here.typed(*words.split())
        assert (newer.status, newer.err) == (mine.status, mine.err), words
        assert len(newer.out) > 50
        assert "--json" in words or newer.out == mine.out, words


if __name__ == "__main__":
    checks.run(globals())
