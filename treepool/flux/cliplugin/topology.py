"""The options of ``flux submit``, ``run``, ``alloc``, ``batch``, and their help: a Flux CLI plugin.

Flux loads each file of this folder whenever one of these commands starts, and in the validator of
each instance. This module therefore imports treepool only if one of the options is used. Without
these options a command does not wait for the import, and works even if the import would fail.

``placement/request/job_options.py`` defines the values of the options, which are stored in
``attributes.system.treepool`` of the jobspec.

Flux loads it for the jobs of all schedulers: it changes a job only if one of the options is used or
the instance's scheduler is sched-treepool.

The plugin is one file because Flux loads each file of the folder as a plugin of its own.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, NoReturn, Optional

import flux
from flux.cli.plugin import CLIPlugin, CLIPluginOption

#: Each option, the placeholder of its value in the help (None if it has no value), and its help.
OPTIONS = (
    ("--locality", "MODE", "How near a slot's cores and GPUs are: preferred, required or none"),
    ("--level", "NAME", "Each slot in one domain of this locality, such as numa or socket"),
    ("--gpu-link", "LINK", "Least link between the GPUs of a slot: GB/s, nvlink, ..., fast"),
    ("--same", "FAMILY[:MODE]", "All nodes alike, e.g. in driver; MODE is required or preferred"),
    ("--same-numa", "MODE", "Cores of a slot in one NUMA domain: preferred or required"),
    ("--memory", "SIZE", "Least memory near each slot, such as 64GB"),
    ("--allow-cxl", None, "Let CXL memory count for memory"),
    ("--unified-memory", None, "Only nodes whose CPUs and GPUs share one memory"),
    ("--within", "LOCALITY[:N]", "All nodes in one domain above the nodes, or in N at most"),
    (
        "--segment",
        "LOCALITY:N[,...]",
        "Nodes in groups of N, each in one domain: switch:16, or block:16,switch:4",
    ),
    ("--locality-wait", "TIME", "Wait so long, such as 10m, for a close place, as if required"),
    ("--switches", "N[@TIME]", "All nodes in N lowest domains at most, as in Slurm"),
    ("--gpu", "SPEC", "GPUs per slot in the form of LSF: num=4:nvlink=yes:gmodel=A100:gmem=40GB"),
)

#: The options whose values come to something else in the jobspec.
_READ = ("gpu", "memory", "locality_wait", "switches")

#: The options that are options in the jobspec, too, of the same name.
_NAMES = tuple(flag[2:].replace("-", "_") for flag, _, _ in OPTIONS)
_PLAIN = tuple(name for name in _NAMES if name not in _READ)

#: Options of Flux that say how many GPUs there are.
_COUNTS = {
    "gpus_per_task": "-g",
    "gpus_per_slot": "-g",
    "gpus_per_node": "--gpus-per-node",
    "resources_shape": "--resources-shape",
    "resources_json": "--resources-json",
}

#: Those that replace all other resources, after this plugin has seen the jobspec.
_REPLACING = ("resources_shape", "resources_json")

#: Options of Flux with which a slot is not a task.
_PER_RESOURCE = ("cores", "tasks_per_node", "tasks_per_core")

#: What is in a slot and is no locality.
_IDS = {"core", "gpu", "memory", "storage"}

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)

#: Where the options are kept from ``preinit`` to ``modify_jobspec``.
_GIVEN = "treepool_given"


class _Gpu(NamedTuple):
    """The text of ``--gpu``, the other options that count GPUs, and whether any is per resource."""

    text: str
    counted: list[str]
    per_resource: bool


class _Option(NamedTuple):
    """A value for ``attributes.system.treepool``, and the option that gave it."""

    value: Any
    flag: str


class TopologyPlugin(CLIPlugin):  # type: ignore[misc]  # flux has no types
    """What treepool's scheduler can be told about a job (doc/submit.md has more).

    --locality=MODE       preferred: the nearest cores and GPUs that are free
                          required:  wait for the nearest; none: any
    --level=NAME          each slot in one domain of a locality: numa, socket, ...
    --gpu-link=LINK       between any two GPUs of a slot: at least so many GB/s,
                          or nvlink, xgmi, xelink; fast is any of these three
    --same=FAMILY[:MODE]  all nodes have the same property FAMILY:..., such as
                          driver:550; MODE is required (the default) or preferred
    --same-numa=MODE      the slot's cores in one NUMA domain: preferred, required
    --memory=SIZE         at least so much memory, such as 64GB or 64G (GiB), in the
                          domain that each slot sits in
    --allow-cxl           CXL memory counts where the job asks for memory
    --unified-memory      only nodes whose CPUs and GPUs share one memory
    --within=LOCALITY[:N] all nodes in one domain of a locality above the nodes,
                          such as switch or rack; or in N such domains at most
    --segment=LOCALITY:N  the nodes in groups of N, each group in one such domain;
                          block:16,switch:4 for groups in groups
    --locality-wait=TIME  wait so long (10m, 1h) for local slots, and for nodes in
                          the smallest kind of domain that can have them all
    --switches=N[@TIME]   as in Slurm: the nodes in N of the lowest domains at most;
                          with TIME only until it has passed (10:00 are minutes)
    --gpu=SPEC            pairs KEY=VALUE with colons between them:
      num=N[/task]        GPUs per slot, as -g (1 if neither is given)
      mode=exclusive, mode=exclusive_process, j_exclusive=yes, mps=no
                          as always: GPUs are not shared
      nvlink=yes          as --gpu-link=nvlink
      xgmi=yes            as --gpu-link=xgmi
      glink=yes           as --gpu-link=fast
      gmodel=NAME         only nodes with the property gpu-NAME, such as gpu-a100
      gmem=SIZE           least memory of each GPU, such as 40GB, or 40G (GiB)
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, prefix=None)
        del self.options  # Flux reads them when it has made all plugins, see below

    @cached_property
    def options(self) -> list[Any]:
        """The options; one that another plugin has, too, has flux-core's prefix ``--ex-``.

        Flux would drop the plugin that it loaded last, with all its options.
        """
        others = list(_options_of_others(self))
        taken = {option.name for option in others} | {option.dest for option in others}
        made = []
        for name, value, text in OPTIONS:
            kind = {"action": "store_true"} if value is None else {"metavar": value}
            prefix = None
            if name in taken or _dest(name) in taken:
                prefix, text = "ex", f"{text} (another plugin has {name})"
            made.append(CLIPluginOption(name, prefix, help=text, **kind))
        return made

    def preinit(self, args: Any) -> None:
        """Store the values of the options.

        With ``--cc``, and in ``bulksubmit``, only values set here reach ``modify_jobspec``.
        """
        dests = {name: option.dest for name, option in zip(_NAMES, self.options)}
        values = {name: getattr(args, dest, None) for name, dest in dests.items()}
        given = {name: value for name, value in values.items() if value not in (None, False)}
        if not given:
            return
        given.update({name: getattr(args, name, None) for name in _REPLACING})
        if "gpu" in given:
            counted = [flag for name, flag in _COUNTS.items() if _is_set(args, name)]
            per_resource = any(_is_set(args, name) for name in _PER_RESOURCE)
            given["gpu"] = _Gpu(str(given["gpu"]), counted, per_resource)
        setattr(args, _GIVEN, given)

    def modify_jobspec(self, args: Any, jobspec: Any) -> None:
        """Write the options into *jobspec*; raises ValueError, with one line, for an error."""
        given = getattr(args, _GIVEN, None)
        if given:
            try:
                _add_options(given, jobspec)
            except ValueError as e:
                flag, colon, message = str(e).partition(": ")
                names = {name: option.name for (name, _, _), option in zip(OPTIONS, self.options)}
                raise ValueError(f"{names.get(flag, flag)}{colon}{message}") from None
        shape = getattr(args, "resources_shape", None)
        ours = given or "treepool" in jobspec.attributes["system"]
        if shape and _has_slot_of_nodes(shape, jobspec) and (ours or _is_scheduler()):
            jobspec.setattr_shell_option("per-resource.type", "node")


def _options_of_others(plugin: CLIPlugin) -> Iterator[Any]:
    """The options of the other plugins that Flux has loaded for the command of *plugin*.

    Flux gives a plugin no list of the others, but each has a class, and makes its options with it.
    """
    mine = type(plugin)
    classes = list(CLIPlugin.__subclasses__())
    for cls in classes:
        classes += cls.__subclasses__()
    # A program has loaded each file as often as it has made jobspecs, and this one, too.
    different = {(cls.__module__, cls.__qualname__): cls for cls in classes}
    different.pop((mine.__module__, mine.__qualname__))
    for cls in different.values():
        try:
            yield from cls(plugin.prog).options
        except Exception:  # Flux has made it, or says why it cannot
            continue


def _dest(flag: str) -> str:
    """The name of an option in Python."""
    return flag[2:].replace("-", "_")


def _add_options(given: Mapping[str, Any], jobspec: Any) -> None:
    """Write the options that are *given* into *jobspec*."""
    _find_treepool()
    system = jobspec.attributes["system"]
    options = {
        name: _Option(_value(name, given[name]), f"--{name.replace('_', '-')}")
        for name in _PLAIN
        if name in given
    }
    if "gpu" in given:
        _add_gpu(given["gpu"], jobspec, options)
    _add_wait(given, options)
    if "memory" in given:
        _add_memory(given, list(_vertices(jobspec.resources)))
    _check(options, system.get("treepool"))
    resources = _resources(given, jobspec)
    if resources is not None:
        _check_use(options, resources)
    _write(system, options)


def _is_set(args: Any, name: str) -> bool:
    return getattr(args, name, None) is not None


def _has_slot_of_nodes(shape: str, jobspec: Any) -> bool:
    """Whether *shape* has a slot of several nodes, and *jobspec* does not say where tasks start.

    Flux's shell starts one task for each slot, and fails if there are more nodes than slots. Such a
    slot needs a task on each node, as ``flux alloc`` and ``batch`` have it.
    """
    if "per-resource" in jobspec.attributes["system"].get("shell", {}).get("options", {}):
        return False
    from flux.shape.parser import ShapeParser

    top = ShapeParser().parse(shape)
    for slot in (vertex for vertex in _vertices(top) if vertex["type"] == "slot"):
        inside = {vertex["type"] for vertex in _vertices(slot.get("with"))}
        # Only the scheduler knows which localities are above nodes. With one slot it is the same.
        one = slot is top[0] and slot["count"] == 1 and inside - _IDS
        if "node" in inside or one:
            return True
    return False


def _is_scheduler() -> bool:
    """Whether the command's instance runs sched-treepool; False if there is no instance."""
    try:  # some milliseconds; every user may ask
        modules = flux.Flux().rpc("module.list", nodeid=0).get()["mods"]
    except OSError:
        return False
    return any(module["name"] == "sched-treepool" for module in modules)


def _find_treepool() -> None:
    """Make treepool and what it needs importable, also from an installation's copy of this file."""
    here = Path(__file__)
    real = here.parent / os.readlink(here) if here.is_symlink() else here
    home = next(above for above in real.parents if os.path.lexists(above / "treepool"))
    if str(home) not in sys.path:
        sys.path[:0] = [str(home), str(home / "libraries")]
    try:
        import_module("treepool.placement.request.job_options")
    except ImportError as e:
        raise ValueError(
            f"treepool's options cannot be used: {e} (see: treepool flux-env --check)"
        ) from None


def _value(name: str, given: Any) -> Any:
    """The value for the jobspec of an option's value on the command line."""
    if given is True:
        return True
    text = str(given)
    if name == "gpu_link" and _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _add_gpu(given: _Gpu, jobspec: Any, options: dict[str, _Option]) -> None:
    """Add what ``--gpu`` asks for to *jobspec* and *options*."""
    from treepool.errors import InvalidOption
    from treepool.flux import gpuopt

    try:
        gpu = gpuopt.parse(given.text)
    except InvalidOption as e:
        _refuse("--gpu", str(e))
    if gpu.link is not None:
        other = options.get("gpu_link")
        if other is not None and other.value != gpu.link:
            name = "glink" if gpu.link == "fast" else gpu.link
            _refuse("--gpu", f"{name}=yes contradicts --gpu-link")
        options["gpu_link"] = _Option(gpu.link, "--gpu")
    if gpu.memory is not None:
        options["gpu_memory"] = _Option(gpu.memory, "--gpu")
    if gpu.model is not None:
        _require(jobspec.attributes["system"], _property(gpu.model))
    _count(gpu.num, given, list(_vertices(jobspec.resources)))


def _add_wait(given: Mapping[str, Any], options: dict[str, _Option]) -> None:
    """Add what ``--locality-wait`` and ``--switches`` ask for to *options*."""
    for name in ("locality_wait", "switches"):
        if name not in given:
            continue
        from treepool.errors import InvalidOption
        from treepool.flux import waitopt

        flag, text = f"--{name.replace('_', '-')}", str(given[name])
        try:
            number, wait = (
                waitopt.switches(text) if name == "switches" else (None, waitopt.wait(text))
            )
        except InvalidOption as e:
            _refuse(flag, str(e))
        if number is not None:
            options["switches"] = _Option(number, flag)
        if wait is not None:
            if "wait" in options:
                _refuse(flag, "--locality-wait says already how long to wait")
            options["wait"] = _Option(wait, flag)


def _count(num: Optional[int], given: _Gpu, vertices: list[dict[str, Any]]) -> None:
    """Give the slot in *vertices* *num* GPUs, or one if *num* is None, as in LSF."""
    counted = given.counted
    if not counted and any(vertex.get("type") == "gpu" for vertex in vertices):
        counted = ["the request"]  # a program made it, without options of Flux
    if counted:
        if num is not None:
            _refuse("--gpu", f"num={num}: {counted[0]} says already how many GPUs there are")
        return
    if given.per_resource:
        _refuse("--gpu", "num counts GPUs per task: with options per resource take --gpus-per-node")
    _add("--gpu", vertices, {"type": "gpu", "count": num or 1})


def _resources(given: Mapping[str, Any], jobspec: Any) -> Optional[list[dict[str, Any]]]:
    """The vertices that *jobspec* will have; None if that is not known yet."""
    from treepool.errors import InvalidInput
    from treepool.rfc.shape import parse_shape

    if given["resources_json"]:  # a file that can perhaps be read only once
        return None
    try:
        shape = given["resources_shape"]
        return list(_vertices(parse_shape(shape) if shape else jobspec.resources))
    except InvalidInput:  # Flux says so
        return None


def _add_memory(given: Mapping[str, Any], vertices: list[dict[str, Any]]) -> None:
    """Let the slot in *vertices* ask for memory."""
    from treepool.errors import InvalidOption
    from treepool.flux import gpuopt

    for name in _REPLACING:
        if given[name]:
            _refuse("--memory", f"--{name.replace('_', '-')} says all that the job asks for")
    if any(vertex.get("type") == "memory" for vertex in vertices):
        _refuse("--memory", "the request says already how much memory")
    try:
        _add("--memory", vertices, {"type": "memory", "count": gpuopt.gib(str(given["memory"]))})
    except InvalidOption as e:
        _refuse("--memory", str(e))


def _add(flag: str, vertices: list[dict[str, Any]], child: dict[str, Any]) -> None:
    """Give the only slot in *vertices* a child."""
    slots = [vertex for vertex in vertices if vertex.get("type") == "slot"]
    if len(slots) != 1:
        _refuse(flag, f"the request has {len(slots)} slots, and this is for one")
    slots[0].setdefault("with", []).append(child)


def _property(model: str) -> str:
    """The property that ``treepool encode --properties`` gives nodes with GPUs of *model*."""
    from treepool.discovery import properties

    name = properties.model_name(model)
    if not name:
        _refuse("--gpu", f"gmodel={model} names no model, such as A100")
    if name != model.lower():
        _refuse(
            "--gpu",
            f"gmodel={model}: nodes are known by the short name of a model: write gmodel={name}, "
            "and gmem for its memory",
        )
    return f"gpu-{name}"


def _require(system: dict[str, Any], name: str) -> None:
    """Add property *name* to the RFC 31 constraint of *system*."""
    ours = {"properties": [name]}
    theirs = system.get("constraints")
    system["constraints"] = {"and": [theirs, ours]} if theirs else ours


def _check(options: Mapping[str, _Option], there: Any) -> None:
    """Raise ValueError for the first of *options* that the scheduler would refuse.

    *there* are the options that the jobspec has already.
    """
    from treepool.errors import InvalidJobspec
    from treepool.placement.request import job_options

    given = {name: option.value for name, option in options.items()}
    others = there if isinstance(there, dict) else {}
    for values in (*({name: value} for name, value in given.items()), {**others, **given}):
        # Which localities there are, only the scheduler knows.
        texts = {name: value for name, value in values.items() if isinstance(value, str)}
        levels = [texts[name] for name in ("level",) if name in texts]
        above = job_options.named_above(texts) or ["switch"]
        try:
            job_options.read(values, levels, "preferred", above)
        except InvalidJobspec as e:
            # The user typed an option, not a jobspec: name the option instead of the JSON pointer.
            pointer, _, message = str(e).partition(": ")
            name = pointer.rpartition("/")[2]
            if name in options:
                _refuse(options[name].flag, message)
            raise


def _check_use(options: Mapping[str, _Option], vertices: list[dict[str, Any]]) -> None:
    """Raise ValueError for the first of *options* that says nothing of what *vertices* ask for."""
    from treepool.placement.request import job_options

    wanted = {vertex.get("type") for vertex in vertices}
    whole = any(vertex.get("exclusive") for vertex in vertices)
    for name, option in options.items():
        kind = job_options.SPEAKS_OF.get(name)
        if kind and kind not in wanted and not (kind == "gpu" and whole):
            _refuse(option.flag, f"the job asks for no {'GPU' if kind == 'gpu' else kind}")


def _write(system: dict[str, Any], options: Mapping[str, _Option]) -> None:
    """Write *options* into ``attributes.system.treepool``, besides those of ``--setattr``."""
    if not options:
        return
    there = system.setdefault("treepool", {})
    if not isinstance(there, dict):
        raise ValueError("--setattr=treepool is not an object of options")
    for name, option in options.items():
        if there.get(name, option.value) != option.value:
            _refuse(option.flag, f"contradicts --setattr=treepool.{name}")
        there[name] = option.value


def _vertices(resources: Any) -> Iterator[dict[str, Any]]:
    """Every vertex of an RFC 14 resource list that Flux made."""
    for vertex in resources or ():
        yield vertex
        yield from _vertices(vertex.get("with"))


def _refuse(flag: str, message: str) -> NoReturn:
    raise ValueError(f"{flag}: {message}")
