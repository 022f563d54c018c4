"""The options of ``flux submit``, ``run``, ``alloc``, ``batch``, and their help: a Flux CLI plugin.

Flux loads each file of this folder whenever one of these commands starts, and in the validator of
each instance. This module therefore imports treepool only if one of the options is used. Without
these options a command does not wait for the import, and works even if the import would fail. It
has the list of the options and what they mean from ``joboptions.py`` beside it.

Flux loads it for the jobs of all schedulers: it changes a job only if one of the options is used or
the instance's scheduler is sched-treepool.

The plugin is one file because Flux loads each file of the folder as a plugin of its own.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from importlib import import_module, util
from pathlib import Path
from typing import Any, Callable, Iterator

import flux
from flux.cli.plugin import CLIPlugin, CLIPluginOption

#: Options of Flux that say how many GPUs there are.
_COUNTS = {
    "gpus_per_task": "-g",
    "gpus_per_slot": "-g",
    "gpus_per_node": "--gpus-per-node",
    "resources_shape": "--resources-shape",
    "resources_json": "--resources-json",
}

#: Options of Flux with which a slot is not a task.
_PER_RESOURCE = ("cores", "tasks_per_node", "tasks_per_core")

#: What a site sets to "share" if a GPU brings its fair share of cores where no -c is typed.
_SHARE = "sched-treepool.cores-with-gpus"

#: What is in a slot and is no locality.
_IDS = {"core", "gpu", "memory", "storage"}

#: Where the options are kept from ``preinit`` to ``modify_jobspec``, and that no -c was typed.
_GIVEN, _NO_CORES = "treepool_given", "treepool_no_cores"

#: Where the instance of the command is kept.
_INSTANCE = "treepool_instance"


def _home() -> Path:
    """The folder that has treepool, also from an installation's copy of this file."""
    here = Path(__file__)
    real = here.parent / os.readlink(here) if here.is_symlink() else here
    return next(above for above in real.parents if os.path.lexists(above / "treepool"))


def _job_options() -> Any:
    """The module ``joboptions``, without importing treepool."""
    path = _home() / "treepool" / "flux" / "joboptions.py"
    spec = util.spec_from_file_location("treepool_job_options", path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: What ``joboptions.py`` has; None where this file is without treepool, and has no options.
job_options: Any = None
with suppress(OSError, StopIteration):
    job_options = _job_options()


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
    --window=NAME         start in this window (a reservation, a DAT) of the instance, on
                          its nodes, and end with it: flux treepool window list
    --gpu=SPEC            pairs KEY=VALUE with colons between them:
      num=N[/task]        GPUs per slot, as -g (1 if neither is given)
      mode=exclusive, mode=exclusive_process, j_exclusive=yes, mps=no
                          as always: GPUs are not shared
      nvlink=yes          as --gpu-link=nvlink
      xgmi=yes            as --gpu-link=xgmi
      glink=yes           as --gpu-link=fast
      gmodel=NAME         only nodes with the property gpu-NAME, such as gpu-a100
      gmem=SIZE           least memory of each GPU, such as 40GB, or 40G (GiB)
    --test-only           submit nothing; ask the scheduler what this job would get
                          now, or when it would start and on which hosts. Exit
                          status 0 in both cases, 1 if it could never run
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
        for name, value, text in self._known:
            kind = {"action": "store_true"} if value is None else {"metavar": value}
            prefix = None
            if name in taken or job_options.dest(name) in taken:
                prefix, text = "ex", f"{text} (another plugin has {name})"
            made.append(CLIPluginOption(name, prefix, help=text, **kind))
        return made

    @property
    def _known(self) -> list[tuple[str, Any, str]]:
        """Each option, the placeholder of its value, and its help."""
        return [*job_options.OPTIONS, job_options.TEST_ONLY] if job_options else []

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of treepool's options as they are here."""
        return {name: option.name for (name, _, _), option in zip(self._known, self.options)}

    def preinit(self, args: Any) -> None:
        """Store the values of the options.

        With ``--cc``, and in ``bulksubmit``, only values set here reach ``modify_jobspec``.
        """
        flags = [flag for flag, _, _ in self._known]
        dests = {job_options.dest(flag): one.dest for flag, one in zip(flags, self.options)}
        values = {name: getattr(args, dest, None) for name, dest in dests.items()}
        given = {name: value for name, value in values.items() if value not in (None, False)}
        no_cores = getattr(args, "cores_per_task", 0) is None and not _is_set(args, "cores")
        if no_cores and (_is_set(args, "gpus_per_task") or "gpu" in given):
            setattr(args, _NO_CORES, True)
        if not given:
            return
        if "test_only" in given and getattr(args, "dry_run", True):
            hint = "a program asks as doc/questions.md says"
            why = "not with --dry-run" if hasattr(args, "dry_run") else f"for commands; {hint}"
            raise ValueError(f"{self._names['--test-only']}: {why}")
        given.update({name: getattr(args, name, None) for name in job_options.REPLACING})
        if "gpu" in given:
            counted = [flag for name, flag in _COUNTS.items() if _is_set(args, name)]
            per_resource = any(_is_set(args, name) for name in _PER_RESOURCE)
            given["gpu"] = job_options.Gpu(str(given["gpu"]), counted, per_resource)
        setattr(args, _GIVEN, given)

    def modify_jobspec(self, args: Any, jobspec: Any) -> None:
        """Write the options into *jobspec*; raises ValueError, with one line, for an error."""
        given = getattr(args, _GIVEN, None)
        if given:
            _find_treepool()
            try:
                job_options.add(given, jobspec)
            except ValueError as e:
                flag, colon, message = str(e).partition(": ")
                raise ValueError(f"{self._names.get(flag, flag)}{colon}{message}") from None
        if getattr(args, _NO_CORES, False) and _shares_cores():
            options = jobspec.attributes["system"].setdefault("treepool", {})
            if isinstance(options, dict):
                options.setdefault("cores", "share")
        shape = getattr(args, "resources_shape", None)
        ours = given or "treepool" in jobspec.attributes["system"]
        if shape and _has_slot_of_nodes(shape, jobspec) and (ours or _is_scheduler()):
            jobspec.setattr_shell_option("per-resource.type", "node")
        if given and "test_only" in given:
            from treepool.flux import testonly

            testonly.begin(jobspec, self._names["--test-only"], self.prog == "bulksubmit")


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
    for slot in (vertex for vertex in job_options.vertices(top) if vertex["type"] == "slot"):
        inside = {vertex["type"] for vertex in job_options.vertices(slot.get("with"))}
        # Only the scheduler knows which localities are above nodes. With one slot it is the same.
        one = slot is top[0] and slot["count"] == 1 and inside - _IDS
        if "node" in inside or one:
            return True
    return False


def _asked(ask: Callable[[Any], object]) -> bool:
    """What *ask* says of the command's instance; False if there is none.

    A command connects once, which takes some milliseconds. It may load this file anew for each job:
    they find the instance at a class of Flux.
    """
    uri = os.environ.get("FLUX_URI")
    known = getattr(CLIPlugin, _INSTANCE, None)
    try:
        if known is None or known[0] != uri:
            known = uri, flux.Flux()
            setattr(CLIPlugin, _INSTANCE, known)
        return bool(ask(known[1]))
    except OSError:
        return False


def _shares_cores() -> bool:
    """Whether a GPU brings its fair share of cores in the command's instance."""
    return _asked(lambda instance: instance.conf_get(_SHARE) == "share")


def _is_scheduler() -> bool:
    """Whether the command's instance runs sched-treepool; every user may ask."""

    def runs(instance: Any) -> bool:
        modules = instance.rpc("module.list", nodeid=0).get()["mods"]
        return any(module["name"] == "sched-treepool" for module in modules)

    return _asked(runs)


def _find_treepool() -> None:
    """Make treepool and what it needs importable."""
    home = _home()
    if str(home) not in sys.path:
        sys.path[:0] = [str(home), str(home / "libraries")]
    try:
        import_module("treepool.errors")
    except ImportError as e:
        raise ValueError(
            f"treepool's options cannot be used: {e} (see: treepool flux-env --check)"
        ) from None
