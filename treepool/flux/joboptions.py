"""The options of ``flux submit`` and its like that say how close: their list, and what they mean.

The plugin of these commands has them (``cliplugin/topology.py``), and ``treepool alloc`` and
``explain`` have those that a shape does not say itself. The plugin loads this file by its path,
whenever such a command starts: it imports treepool only where an option is read, and no Flux.

``placement/request/job_options.py`` defines the values, which are stored in
``attributes.system.treepool`` of the jobspec.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple, NoReturn, Optional

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
    ("--window", "NAME", "Start in this window (a reservation, a DAT), and end with it"),
    ("--gpu", "SPEC", "GPUs per slot in the form of LSF: num=4:nvlink=yes:gmodel=A100:gmem=40GB"),
)

#: Not for the jobspec: the job is not submitted.
TEST_ONLY = (
    "--test-only",
    None,
    "Submit nothing; say what the job would get now, or when",
)

#: The options that add to what a job asks for: a shape says so itself.
ADDING = ("gpu", "memory")


def dest(flag: str) -> str:
    """The name of an option in Python."""
    return flag[2:].replace("-", "_")


def flag(name: str) -> str:
    """The option with this name in Python."""
    return f"--{name.replace('_', '-')}"


#: The options whose values come to something else in the jobspec.
_READ = ("gpu", "memory", "locality_wait", "switches")

#: The options that are options in the jobspec, too, of the same name.
NAMES = tuple(dest(flag) for flag, _, _ in OPTIONS)
_PLAIN = tuple(name for name in NAMES if name not in _READ)

#: Those that replace all other resources, after the plugin has seen the jobspec.
REPLACING = ("resources_shape", "resources_json")

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


class Gpu(NamedTuple):
    """The text of ``--gpu``, the other options that count GPUs, and whether any is per resource."""

    text: str
    counted: list[str]
    per_resource: bool


class _Option(NamedTuple):
    """A value for ``attributes.system.treepool``, and the option that gave it."""

    value: Any
    flag: str


def add(given: Mapping[str, Any], jobspec: Any) -> None:
    """Write the options that are *given* into *jobspec*."""
    system = jobspec.attributes["system"]
    options = {
        name: _Option(_value(name, given[name]), flag(name)) for name in _PLAIN if name in given
    }
    if "gpu" in given:
        _add_gpu(given["gpu"], jobspec, options)
    _add_wait(given, options)
    if "memory" in given:
        _add_memory(given, list(vertices(jobspec.resources)))
    if options or system.get("treepool"):
        _check(options, system.get("treepool"))
    resources = _resources(given, jobspec) if options else None
    if resources is not None:
        _check_use(options, resources)
    _write(system, options)


def named(message: str) -> str:
    """*message* of the scheduler with the option that a user gave instead of a JSON pointer."""
    place, _, rest = message.partition(": ")
    above, _, name = place.rpartition("/")
    if place[:1] != "/" or above not in ("", "/attributes/system/treepool"):
        return message
    return f"{flag({'wait': 'locality_wait'}.get(name, name))}: {rest}"


def _value(name: str, given: Any) -> Any:
    """The value for the jobspec of an option's value on the command line."""
    if given is True:
        return True
    text = str(given)
    if name == "gpu_link" and _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _add_gpu(given: Gpu, jobspec: Any, options: dict[str, _Option]) -> None:
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
    _count(gpu.num, given, list(vertices(jobspec.resources)))


def _add_wait(given: Mapping[str, Any], options: dict[str, _Option]) -> None:
    """Add what ``--locality-wait`` and ``--switches`` ask for to *options*."""
    for name in ("locality_wait", "switches"):
        if name not in given:
            continue
        from treepool.errors import InvalidOption
        from treepool.flux import waitopt

        text = str(given[name])
        try:
            number, wait = (
                waitopt.switches(text) if name == "switches" else (None, waitopt.wait(text))
            )
        except InvalidOption as e:
            _refuse(flag(name), str(e))
        if number is not None:
            options["switches"] = _Option(number, flag(name))
        if wait is not None:
            if "wait" in options:
                _refuse(flag(name), "--locality-wait says already how long to wait")
            options["wait"] = _Option(wait, flag(name))


def _count(num: Optional[int], given: Gpu, vertices: list[dict[str, Any]]) -> None:
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

    if given.get("resources_json"):  # a file that can perhaps be read only once
        return None
    try:
        shape = given.get("resources_shape")
        return list(vertices(parse_shape(shape) if shape else jobspec.resources))
    except InvalidInput:  # Flux says so
        return None


def _add_memory(given: Mapping[str, Any], vertices: list[dict[str, Any]]) -> None:
    """Let the slot in *vertices* ask for memory."""
    from treepool.errors import InvalidOption
    from treepool.flux import gpuopt

    for name in REPLACING:
        if given.get(name):
            _refuse("--memory", f"{flag(name)} says all that the job asks for")
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


def vertices(resources: Any) -> Iterator[dict[str, Any]]:
    """Every vertex of an RFC 14 resource list that Flux made."""
    for vertex in resources or ():
        yield vertex
        yield from vertices(vertex.get("with"))


def _refuse(flag: str, message: str) -> NoReturn:
    raise ValueError(f"{flag}: {message}")
