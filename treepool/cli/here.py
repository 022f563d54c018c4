"""Which task this is, and which CPUs Linux allows it: from the job's environment or from files."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

import attrs

from treepool.cli import files, instance
from treepool.cli.screen import USAGE, Stop
from treepool.discovery.machine import Machine
from treepool.discovery.task import (
    MAX_TASKS,
    Task,
    has_instances,
    has_renumbered_gpus,
    task_of,
    with_ids_of_node,
)
from treepool.discovery.visible import is_contained
from treepool.errors import InvalidHardware, InvalidInput
from treepool.rfc import idset
from treepool.rfc.findings import shown_ids
from treepool.rfc.rset import ResourceSet

if TYPE_CHECKING:
    from treepool.flux.job import Job

_PART = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)

#: How long nvidia-smi may take; its driver may have to be loaded first.
_SECONDS = 60


@attrs.frozen
class Here:
    """A task, its job, the rank of its node, and its number in the job ("" if none)."""

    task: Task
    job: str
    rank: int
    number: str
    host: str


def about(place: Here) -> dict[str, Any]:
    """What ``--json`` tells of a task: its place, and what its job has on the node."""
    return {
        "job": place.job or None,
        "task": int(place.number) if place.number else None,
        "rank": place.rank,
        "host": place.host or None,
        "allocated": {
            "cores": idset.encode(place.task.cores),
            "gpus": idset.encode(place.task.gpus),
        },
    }


def add_options(parser: Any) -> None:
    """Add the options that say which task it is, for use without Flux."""
    group = parser.add_argument_group(
        "without Flux", "by default the job, the node and the task are those of the environment"
    )
    group.add_argument("--R", dest="R_file", metavar="FILE", help='the R of the job, "-" for stdin')
    group.add_argument(
        "--xml", metavar="FILE", help="hwloc XML of the whole node (default: this machine's)"
    )
    group.add_argument(
        "--mig",
        metavar="FILE",
        help='what "nvidia-smi -L" prints on the node (default: it is run where the job has MIG '
        "instances)",
    )
    group.add_argument("--rank", metavar="N", help="with --R: the rank of the node")
    group.add_argument(
        "--task", metavar="I/N", help="with --R: local task I, from 0, of N (default: 0/1)"
    )


def find(arguments: Namespace, environment: Mapping[str, str]) -> Here:
    """The task given by *arguments*, otherwise by *environment*; raises Stop."""
    try:
        if arguments.R_file is not None:
            return _from_files(arguments, environment)
        for name in ("xml", "rank", "task"):
            if getattr(arguments, name) is not None:
                raise Stop(f"--{name} goes with --R", USAGE)
        return _from_flux(arguments, environment)
    except InvalidInput as e:
        raise Stop(str(e)) from None


def _from_flux(arguments: Namespace, environment: Mapping[str, str]) -> Here:
    job, number, local = (
        environment.get(name, "")
        for name in ("FLUX_JOB_ID", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID")
    )
    if not job:
        raise Stop("not in a Flux job: FLUX_JOB_ID is not set (or use --R)", USAGE)
    if not _NUMBER.fullmatch(number) or not _NUMBER.fullmatch(local):
        raise Stop(
            "not in a task of a Flux job: FLUX_TASK_RANK and FLUX_TASK_LOCAL_ID are no numbers",
            USAGE,
        )
    with instance.asking(f"job {job:.40}: "):
        from treepool.flux.job import read

        found = read(environment)
    if not found.R.mask >> found.rank & 1:
        raise Stop(f"job {job:.40} is on ranks {shown_ids(found.R.mask)}, this is {found.rank}")
    machine = _machine(found)
    machine = _divided(machine, found.R, found.rank, arguments.mig)
    nested = found.instance_cores
    # Inside a job, R has the ids by which the programs of that job number its GPUs.
    kept = nested is None and is_contained(environment)
    task = task_of(found.R, found.rank, machine, int(local), found.tasks, nested, kept)
    return Here(task, job, found.rank, number, _host(found.R, found.rank))


def _machine(job: Job) -> Machine:
    """The machine in the broker's XML, or this one; in a sub-instance the XML may have a part."""
    if job.xml is None:
        return _this_machine()
    # Imported here, because a usage error or --help does not need an XML parser.
    from treepool.discovery.hwloc import read_hwloc

    machine = read_hwloc(job.xml, "this broker's hwloc XML")
    if job.instance_cores is None or not machine.gpus:
        return machine
    from treepool.discovery.gpus import bus_ids

    return with_ids_of_node(machine, bus_ids(), has_renumbered_gpus(job.R, job.rank))


def _divided(machine: Machine, R: ResourceSet, rank: int, file: Optional[str]) -> Machine:
    """*machine* with the MIG instances that the job has there, from *file* or ``nvidia-smi -L``."""
    if file is None and not has_instances(R, rank):
        return machine
    from treepool.discovery.reports.mig import read_list, with_instances

    if file is not None:
        with files.naming(file):
            return _known(with_instances(machine, read_list(files.read_text(file))), machine)
    import subprocess

    try:
        told = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as e:
        why = getattr(e, "strerror", None) or type(e).__name__
        raise Stop(
            f"the job has MIG instances, and nvidia-smi -L cannot name them: {why}"
        ) from None
    return _known(with_instances(machine, read_list(told.stdout)), machine)


def _known(divided: Machine, machine: Machine) -> Machine:
    """*divided*, made of *machine*; raises Stop with what was wrong, if anything was."""
    if len(divided.warnings) > len(machine.warnings):
        raise Stop(divided.warnings[-1])
    return divided


def allowed_pus(root: Path = Path("/")) -> int:
    """The PUs that this process's cpuset allows (bitmask), 0 if Linux does not say.

    *root* is where the file system is. A cgroup without a cpuset has that of the one around it.
    """
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            unified = number == "0"
            if unified or "cpuset" in controllers.split(","):
                top = root / "sys/fs/cgroup" / ("" if unified else "cpuset")
                name = "cpuset.cpus.effective" if unified else "cpuset.effective_cpus"
                inner = top / path.lstrip("/") / name
                for folder in inner.parents:
                    if (folder / name).exists():
                        return idset.decode((folder / name).read_text().strip())
                    if folder == top:
                        break
    except (OSError, ValueError):
        pass
    return 0


def _this_machine() -> Machine:
    from treepool.discovery.hwloc import read_hwloc
    from treepool.discovery.libhwloc import local_xml

    return read_hwloc(local_xml(whole=True), "this machine's hwloc")


def _described(argument: str) -> Machine:
    """The machine of ``--xml`` *argument*."""
    from treepool.cli import hardware
    from treepool.discovery.hwloc import read_hwloc

    description = next(hardware.read(argument))
    if description.ranks or description.hosts:
        raise Stop(f"--xml {argument:.60}: must be one file", USAGE)
    return read_hwloc(description.xml, description.name)


def _from_files(arguments: Namespace, environment: Mapping[str, str]) -> Here:
    name = files.shown(arguments.R_file)
    files.check_stdin(arguments.R_file, arguments.xml)
    R = files.read_resource_set(arguments.R_file)
    if not R.ranks:
        raise Stop(f"{name}: /execution/R_lite: is empty, so no task can be on any of its nodes")
    rank, (index, tasks) = _rank(arguments.rank, R), _part(arguments.task)
    machine = _this_machine() if arguments.xml is None else _described(arguments.xml)
    machine = _divided(machine, R, rank, arguments.mig)
    try:
        task = task_of(R, rank, machine, index, tasks, contained=is_contained(environment))
    except InvalidHardware:
        raise
    except InvalidInput as e:
        raise Stop(f"{name}: {e}") from None
    return Here(task, environment.get("FLUX_JOB_ID", ""), rank, "", _host(R, rank))


def _rank(text: Optional[str], R: ResourceSet) -> int:
    if text is None:
        if idset.size(R.mask) > 1:
            raise Stop(f"which of the ranks {shown_ids(R.mask)}? (--rank)", USAGE)
        return idset.lowest(R.mask)
    if not _NUMBER.fullmatch(text):
        raise Stop(f"--rank {text:.40}: is not a rank", USAGE)
    return int(text)


def _part(text: Optional[str]) -> tuple[int, int]:
    match = _PART.fullmatch("0/1" if text is None else text)
    index, tasks = (int(match[1]), int(match[2])) if match else (0, 0)
    if not index < tasks <= MAX_TASKS:
        raise Stop(f"--task {text or '':.40}: must be I/N, with I from 0 to N - 1", USAGE)
    return index, tasks


def _host(R: ResourceSet, rank: int) -> str:
    place = idset.size(R.mask & ((1 << rank) - 1))
    return R.hosts[place] if place < len(R.hosts) else ""
