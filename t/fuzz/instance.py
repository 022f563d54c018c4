"""A Flux instance in which everything has the same odd name, for commands that ask one.

It stands in for ``treepool.flux.client`` and its like, so no Flux is needed.
"""

import sys
import time
from types import ModuleType, SimpleNamespace

from made import alloc
from metrics import counted
from treepool import parse_shape
from treepool.placement.pool import Pool
from treepool.rfc.jobspec import from_resources
from treepool.rfc.rset import ResourceSet
from treepool.rfc.windows import WindowEntry
from treepool.view.jobs import Job, JobLine, Running
from treepool.view.jobstory import Closed, Facts
from treepool.view.picture import Picture
from treepool.view.totals import Drained, LocalityLine, Overview
from view.hostile import HOSTS, cluster

NUMBERS, TOTALS = counted()

WAITS = {"id": 1, "state": "waiting", "code": "window", "t_estimate": None, "no_estimate": None}
WAITS.update(reserved=False, ahead=1, behind=None, hosts="", summary="")


def pretend(monkeypatch, name):
    """Have commands ask this instance."""
    R = cluster(name)
    pool = Pool(R)
    parts = alloc(pool, 1, "slot/[core=1;gpu=1]").parts
    pool.mark_down("2-3")
    running = Running(Job(name, name, parts), name, name, name, 1.0, name, 0.5, 1)
    waits = Running(Job(f"{name}2", name, ()), name, name, "SCHED", 1.0, name, None, 2)
    entry = WindowEntry(name, HOSTS[0], 1.0, time.time() + 9, (name,), (name,))
    live = SimpleNamespace(
        preemptible=(0, 0),
        pool=pool,
        jobs=(running, waits),
        drained=4,
        windows=(entry,),
        held_back=((0b1, 0b1, 0),),
        drains=(Drained((2,), (HOSTS[2],), name),),
        rules={name: {"policy": "fifo", "depth": 1}},
        stopped="no scheduler is loaded",
        other=name,
        picture=Picture.of(pool, [running.job], drained=4),
    )
    answer = {**WAITS, "reason": name, "subject": name, "queue": name, "policy": name}
    closed = Closed(name, None, None, "")
    names = {name: 1}
    totals = {**TOTALS}
    totals.update(waiting={name: names}, reserved=names, kinds={name: TOTALS["all"]})
    replace(
        monkeypatch,
        "client",
        connected=lambda: None,
        ask=lambda handle, question, payload=None: NUMBERS if question == "numbers" else answer,
        totals=lambda handle, users=False: totals,
        other_scheduler=lambda: name,
        user_name=lambda _: name,
        job_id=lambda _: 1,
        facts=lambda jobid, called: Facts(
            called, "SCHED", queue=name, dependencies=(name,), answer=answer
        ),
        question=lambda spec: {},
        tries=lambda specs, with_R: [
            {"parts": [["0", "0", ""]], "where": [name], "nslots": 1, "R": cluster(name)},
            {"error": "infeasible", "message": name, "code": name, "subject": name},
        ],
        conditions=lambda spec: [],
        ask_for=lambda question: ({**answer, "verdict": "later"}, closed),
        jobspec_of=lambda jobid: from_resources(parse_shape("slot=1/gpu=9")),
        windows_now=lambda handle=None: (SimpleNamespace(entry=entry, source=name, down=name),),
        add_window=lambda entry, **_: SimpleNamespace(
            hosts=name, reserved=1, running=(name,), names=(name,)
        ),
        time_of=float,
        seconds_of=float,
    )
    line = LocalityLine(name, 1, 1, 1, name)
    live.overview = Overview(
        live.picture.totals,
        *(0, (0, 0), (line,), (name, name, name)),
        *(live.windows, live.drains, live.stopped, live.other),
    )
    replace(
        monkeypatch,
        "standing",
        overview=lambda: live.overview,
        job_lines=lambda: [JobLine.of(one, name, name, name) for one in live.jobs],
    )
    replace(
        monkeypatch,
        "live",
        Live=SimpleNamespace(now=lambda waiting: live),
        about=list,
        waiting=list,
    )
    taken = SimpleNamespace(text=f"{name!a}\n", summary=name, unreadable=1)
    replace(monkeypatch, "snapshot", now=lambda names: taken)
    replace(monkeypatch, "hardware", local_xml=lambda: None)
    located = ResourceSet.read(R), ((0, 4, 1, 1),), 1, 15
    replace(monkeypatch, "job", located=lambda job, environment: located)


def replace(monkeypatch, module, **functions):
    """Have ``treepool.flux``'s *module* these *functions* alone."""
    import treepool.flux

    found = ModuleType(f"treepool.flux.{module}")
    vars(found).update(functions)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    monkeypatch.setattr(treepool.flux, module, found, raising=False)
