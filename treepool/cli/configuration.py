"""What ``treepool validate`` says of a configuration of Flux: problems, warnings, a summary.

A mistake that ``flux config reload`` refuses ends the broker when it starts, so ``treepool
validate`` finds it before.
"""

from __future__ import annotations

import shlex
from itertools import islice
from os.path import isdir
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from treepool.cli import files
from treepool.cli.screen import USAGE, Stop
from treepool.errors import InvalidInput, InvalidOption, Problem, SetupError
from treepool.flux import config, toml
from treepool.flux.config import QUEUES, WINDOWS
from treepool.flux.options import OF_POOL, TABLE, InvalidSetting
from treepool.rfc import document
from treepool.rfc.findings import limited, pointer_to, shown
from treepool.rfc.quote import amount, did_you_mean

#: How the name of a file in TOML ends.
SUFFIX = ".toml"

#: The name of the scheduler in ``modules.alternatives.sched``.
_SCHEDULER = "sched-treepool"

#: Most queues, and most other tables, of which one warning each is given.
_MOST = 20


def read(path: str) -> Any:
    """The tables of file *path* in TOML, or in the JSON of ``flux config get``; raises Stop."""
    text = files.read_text(path)
    with files.naming(path):
        if text.lstrip().startswith("{"):
            return document.load(text, InvalidInput, "configuration")
        try:
            return toml.read(text)
        except SetupError as e:
            raise Stop(str(e), USAGE) from None


def read_all(paths: Iterable[str]) -> dict[str, Any]:
    """The tables of each file of *paths*, by its name, in the order in which Flux reads them.

    A directory stands for its files in TOML. Raises Stop.
    """
    found: dict[str, Any] = {}
    for path in paths:
        if not isdir(path):
            found[path] = read(path)
            continue
        inside = sorted(str(file) for file in Path(path).glob(f"*{SUFFIX}"))
        if not inside:
            raise Stop(f"{files.shown(path)}: has no file that ends in {SUFFIX}", USAGE)
        found.update((file, read(file)) for file in inside)
    return found


def merged(confs: Iterable[Any]) -> Any:
    """*confs* as one: tables are put together, and of any other key the last one counts."""
    whole: dict[str, Any] = {}
    for conf in confs:
        for key, value in conf.items() if isinstance(conf, dict) else ():
            known = whole.get(key)
            both = isinstance(known, dict) and isinstance(value, dict)
            whole[key] = merged((known, value)) if both else value
    return whole


def placed(problem: Problem, parts: Mapping[str, Any]) -> Problem:
    """*problem* with the file among *parts* that has most of its pointer, of several the last."""
    if not parts:
        return problem

    def depth(conf: Any) -> int:
        keys = problem.pointer.split("/")[1:]
        for number, key in enumerate(keys):
            if not isinstance(conf, dict) or key not in conf:
                return number
            conf = conf[key]
        return len(keys)

    file = max(reversed(list(parts)), key=lambda name: depth(parts[name]))
    return Problem(problem.pointer, f"{problem.message} (in {files.shown(file)})")


def problems(conf: Any) -> list[Problem]:
    """What is wrong in *conf*: in each entry alone, or together if that finds nothing."""
    if not isinstance(conf, dict):
        return [Problem("", f"must be an object, not {shown(conf)}")]
    alone = [problem for entry in _entries(conf) for problem in _wrong(entry)]
    return limited(alone or list(_wrong({**conf, QUEUES: _queues(conf)})))


def warnings(conf: Mapping[str, Any]) -> list[str]:
    """What is wrong in *conf* unless other files of the instance say more."""
    lines = []
    chosen = _scheduler(conf)
    hint = did_you_mean(chosen, (_SCHEDULER,))
    if isinstance(chosen, str) and chosen != _SCHEDULER and hint:
        lines.append(f"/modules/alternatives/sched: no scheduler is called {shown(chosen)}{hint}")
    misspelt = (
        f"{pointer_to('', name)}: sched-treepool does not read this table{meant}"
        for name in conf
        if name != TABLE and (meant := did_you_mean(name, (TABLE,)))
    )
    lines += islice(misspelt, _MOST)
    if QUEUES not in conf:
        lines += [
            f"{pointer_to('', TABLE, QUEUES, name)}: an instance without this queue refuses it, "
            "and there is no table [queues] here"
            for name in list(_queues(conf))[:_MOST]
        ]
    return lines + _elsewhere(conf)


def summary(conf: Mapping[str, Any]) -> str:
    """What valid *conf* chooses."""
    options, windows = config.read({**conf, QUEUES: _queues(conf)})
    parts = [f"policy {options.rule.policy}"]
    pool = options.pool
    parts += [f"{name} {pool[own]}" for name, own in OF_POOL.items() if own in pool]
    if options.queues:
        parts.append(f"{amount(len(options.queues), 'queue')} with own rules")
    if options.spares:
        parts.append(amount(options.spares, "spare node"))
    if windows:
        parts.append(amount(len(windows), "window"))
    scheduler = _scheduler(conf)
    start = f"the next start has {shown(scheduler)}" if scheduler else "no scheduler is chosen"
    return f"{', '.join(parts)}; {start}"


def _elsewhere(conf: Mapping[str, Any]) -> list[str]:
    """How to check the R of *conf* and its key, which Flux puts together from several files."""
    resource = conf.get("resource")
    if not isinstance(resource, dict):
        return []
    if "config" in resource or "scheduling" in resource:
        how = "flux R parse-config DIRECTORY | treepool validate -"
    elif isinstance(resource.get("path"), str):
        how = f"treepool validate {shlex.quote(resource['path'])}"
    else:
        return []
    return [f"/resource: R and its key are not looked at here: {how}"]


def _entries(conf: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Configurations of a single queue, or of a single option and all queues."""
    queues, table = _queues(conf), conf.get(TABLE)
    known: dict[str, Any] = {}
    if isinstance(queues, dict):
        known = {name: value if isinstance(value, dict) else {} for name, value in queues.items()}
        for name, value in queues.items():
            yield {QUEUES: {name: value}}
    else:
        yield {QUEUES: queues}
    for name, value in table.items() if isinstance(table, dict) else ():
        yield {QUEUES: known, TABLE: {name: value}}


def _wrong(conf: Mapping[str, Any]) -> Iterator[Problem]:
    """The first problem of *conf*, if there is one."""
    try:
        config.read(conf)
    except InvalidSetting as e:
        inner = Problem("", e.reason)
        if e.keys == (TABLE, WINDOWS):
            inner = Problem.of(InvalidInput(e.reason))
        yield Problem(pointer_to("", *e.keys) + inner.pointer, inner.message)
    except InvalidOption as e:
        yield Problem(pointer_to("", TABLE), str(e))


def _queues(conf: Mapping[str, Any]) -> Any:
    """The queues of the instance; without a table of them, those that the scheduler's names."""
    if QUEUES in conf:
        return conf[QUEUES]
    table = conf.get(TABLE)
    named = table.get(QUEUES) if isinstance(table, dict) else None
    return {name: {} for name in named} if isinstance(named, dict) else {}


def _scheduler(conf: Mapping[str, Any]) -> Any:
    """``modules.alternatives.sched``; None if that is not there."""
    found: Any = conf
    for key in ("modules", "alternatives", "sched"):
        found = found.get(key) if isinstance(found, dict) else None
    return found
