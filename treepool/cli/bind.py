"""Inside a Flux job, run COMMAND bound to what the job has.
Each task is pinned to its share of the job's cores on the node, sees the GPUs
nearest to them first, and has the memory policy that --memory asks for. Cores are
shared among tasks in contiguous pieces, in order. What the job shell has given a
task already (cpu-affinity=per-task, gpu-affinity=per-task) does not change.

examples:
  flux run -n8 -c4 -g1 flux treepool bind -- ./solve input
  flux run -n2 -c16 flux treepool bind --memory interleave -- ./solve input
  flux run -n8 -c4 -g1 flux treepool bind --env NCCL_IB_HCA -- ./train
  flux run -n8 -c4 -g1 --label-io flux treepool bind --print

exit status:
  that of COMMAND; 126 if it cannot be run, 127 if there is no such command;
  1 it cannot be bound; 2 usage, such as outside a job
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from typing import Iterator, Mapping, NoReturn, Optional, Sequence

from treepool.cli import here
from treepool.cli.here import Here
from treepool.cli.screen import DONE, USAGE, Stop, complain, out, out_json
from treepool.discovery import binding, visible
from treepool.discovery.binding import Binding
from treepool.errors import InvalidHardware
from treepool.rfc import idset

#: Exit statuses of env(1), nice(1) and the like: COMMAND cannot be run, COMMAND is not found.
CANNOT_RUN, NOT_FOUND = 126, 127


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    parser.usage = "treepool bind [OPTION...] [--] COMMAND [ARGUMENT...]"
    parser.add_argument(
        "--memory",
        choices=binding.MEMORY,
        help="where memory comes from, by numactl: the NUMA node a thread runs on (local), those "
        "of the task's cores in turn (interleave), that of most of them if it can (preferred), "
        "those of the cores and no other (bind); default: as it is, in Linux local",
    )
    parser.add_argument(
        "--gpus",
        choices=binding.GPU_ORDER,
        default="nearest",
        help="which of the job's GPUs a task gets: the nearest to its cores, the nearest first "
        "(default), or by their ids in order",
    )
    parser.add_argument(
        "--env",
        metavar="NAME,...",
        type=_variables,
        default=[],
        help="also name the NICs nearest to the task's GPUs: "
        + ", ".join(f"{name} ({who})" for name, who in binding.NIC_VARIABLES.items()),
    )
    parser.add_argument(
        "--print",
        action="store_true",
        help="print what would be done, a line for each fact; run nothing",
    )
    parser.add_argument("--json", action="store_true", help="with --print: a line of JSON")
    here.add_options(parser)
    # All words after the first belong to COMMAND, whatever they look like.
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns, with the exit status, only if there is no program to run."""
    program = list(arguments.program)
    if program[:1] == ["--"]:
        del program[0]
    if arguments.json and not arguments.print:
        raise Stop("--json needs --print", USAGE)
    if not program and not arguments.print:
        raise Stop("a COMMAND is needed (see treepool bind --help)", USAGE)
    environment = dict(os.environ)
    if environment.get("TREEPOOL_DEMO") and program and not arguments.print:
        if environment.get("FLUX_TASK_RANK") == "0":
            complain("treepool bind", "the nodes of the demo have no cores: tasks are not bound")
        return _run(program, environment)
    place = here.find(arguments, environment)
    bound, told, notes = _bound(place, arguments, environment)
    try:
        nics = binding.nic_settings(place.task.machine, bound.gpus, arguments.env)
        changes = {**(told or {}), **nics}
        prefix = _numactl(place, bound, arguments.memory, environment)
    except InvalidHardware as e:
        raise Stop(str(e)) from None
    if arguments.json:
        fact = {
            **here.about(place),
            "cores": idset.encode(bound.cores),
            "pus": idset.encode(bound.pus),
            "numa": idset.encode(bound.numa),
            "gpus": None if told is None else list(bound.gpus),
            "environment": dict(changes),
            "memory": arguments.memory,
            "command": [*prefix, *program],
            "notes": notes,
        }
        out_json(fact)
        return DONE
    if arguments.print:
        policy, command = arguments.memory, [*prefix, *program]
        out(*_facts(place, bound, told is not None, changes, notes, policy, command))
        return DONE
    for note in notes:
        complain("treepool bind", f"warning: {note}")
    return _run(program, {**environment, **changes}, prefix, bound)


def _bound(
    place: Here, arguments: Namespace, environment: Mapping[str, str]
) -> tuple[Binding, Optional[Mapping[str, str]], list[str]]:
    """The binding, the variables that tell its GPUs, and notes on what stays unchanged.

    The variables are None if GPUs are left as they are.
    """
    task, affinity, allowed, given = place.task, 0, 0, None
    own = arguments.xml is None  # otherwise this process and its affinity are of another machine
    if own:
        affinity, allowed = idset.from_ids(os.sched_getaffinity(0)), here.allowed_pus()
    try:
        if own:
            given = visible.given_to(task, environment)
        bound = binding.bind(task, affinity, given, arguments.gpus, allowed)
        told = visible.settings_of(task, bound.gpus, environment)
        notes = [*visible.notes(task, idset.from_ids(bound.gpus), environment)]
    except InvalidHardware as e:
        unchanged = binding.bind(task, affinity, allowed=allowed)
        return unchanged, None, [f"{e}: GPUs are left as they are"]
    return bound, told, notes


def _variables(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in binding.NIC_VARIABLES:
            known = ", ".join(binding.NIC_VARIABLES)
            raise argparse.ArgumentTypeError(f"{name[:40]!r} is none of {known}")
    return names


def _numactl(
    place: Here, bound: Binding, policy: Optional[str], environment: Mapping[str, str]
) -> list[str]:
    if policy is None:
        return []
    option = binding.numactl_option(place.task.machine, bound, policy)
    program = shutil.which("numactl", path=environment.get("PATH"))
    if program is None:
        raise Stop(f"--memory {policy}: numactl is needed and not on the PATH")
    return [program, option, "--"]


def _facts(
    place: Here,
    bound: Binding,
    gpus_told: bool,
    changes: Mapping[str, str],
    notes: Sequence[str],
    policy: Optional[str],
    command: Sequence[str],
) -> Iterator[str]:
    task = place.task
    yield f"task: {place.number or '-'} of job {place.job or '-'}"
    yield f"local task: {task.index} of {task.tasks}"
    yield f"node: {place.host or '-'}, rank {place.rank}"
    yield f"cores: {idset.encode(bound.cores)} of the job's {idset.encode(task.cores)}"
    yield f"PUs: {idset.encode(bound.pus)}"
    yield f"NUMA nodes: {idset.encode(bound.numa) or 'unknown'}"
    if gpus_told:
        mine = " ".join(map(str, bound.gpus)) or "none"
        yield f"GPUs: {mine} of the job's {idset.encode(task.gpus) or 'none'}"
    for note in notes:
        yield f"note: {note}" if gpus_told else f"GPUs: as they are: {note}"
    for name, value in sorted(changes.items()):
        yield f"{name}={value}"
    if policy is None:
        why = "one memory for CPUs and GPUs" if task.machine.unified_memory else "in Linux local"
        yield f"memory: as it is ({why})"
    else:
        yield f"memory: {policy}"
    if command:
        yield f"run: {' '.join(command)}"


def _find_program(program: str, environment: Mapping[str, str]) -> None:
    """Raise Stop for a command that cannot be run; numactl would exit with a status of its own."""
    path = environment.get("PATH", os.defpath)
    if shutil.which(program, path=path) is not None:
        return
    places = [program] if "/" in program else [f"{d or '.'}/{program}" for d in path.split(":")]
    if program and any(os.path.exists(place) for place in places):
        raise Stop(f"{program:.80}: cannot be run: no executable file", CANNOT_RUN)
    raise Stop(f"{program:.80}: no such command", NOT_FOUND)


def _run(
    program: Sequence[str],
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
    bound: Optional[Binding] = None,
) -> NoReturn:
    _find_program(program[0], environment)
    if bound is not None:
        _pin(bound)
    _execute([*prefix, *program], environment)


def _pin(bound: Binding) -> None:
    pus = idset.encode(bound.pus)
    try:
        os.sched_setaffinity(0, idset.iterate(bound.pus))
    except (OSError, ValueError, OverflowError) as e:
        why = getattr(e, "strerror", None) or e
        raise Stop(f"cannot pin to PUs {pus:.80}: {why}") from None


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    # Python ignores these signals, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(environment))
    except (OSError, ValueError) as e:
        missing = getattr(e, "errno", None) == errno.ENOENT
        why = getattr(e, "strerror", None) or e
        status = NOT_FOUND if missing else CANNOT_RUN
        raise Stop(f"{command[0]:.80}: cannot be run: {why}", status) from None
