"""Write the RFC 49 scheduling key of real machines.
It has the cores, GPUs and memory of each socket and NUMA domain, the links between
GPUs, and the switches or racks above the nodes. With -R the key is added to that R;
without it, a whole R is written. Nodes with the same topology share one entry. GPU
ids are those that jobs will see.

examples:
  treepool encode --local --dry-run           what does this machine look like?
  flux R encode --local | treepool encode --local -R - >R.json
  treepool encode --xml node.xml --ranks 0-15 --hosts 'gpu[0-15]' >R.json
  treepool encode --xml thin.xml:0-99 --xml gpu.xml:100-115 -R R.json
  treepool encode --xml xml-of-each-host/ -R R.json
  treepool encode --slurm nodes.txt --slurm gres.conf >R.json    what scontrol show node printed
  flux treepool encode --instance >R.json     all nodes of the running Flux instance
  treepool encode --fabric topology.conf -R R.json    add racks and switches, from Slurm's file
  flux ion-R encode <R.json | treepool encode -R -    the key of Fluxion in R as one of RFC 49

exit status:
  0 done; 1 the hardware or R makes no sense; 2 usage, or no such file
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Callable, Iterator, Optional, Sequence, TypeVar

import attrs

from treepool.cli import files, hardware, instance, sitefiles
from treepool.cli.describednodes import Found, assigned, new_nodes
from treepool.cli.hardware import Description
from treepool.cli.progressbar import counted
from treepool.cli.screen import DONE, USAGE, Stop, complain, out, out_json
from treepool.discovery import fluxion, key, slurmnodes
from treepool.discovery.describe import Describer
from treepool.discovery.gpus import GPU_INDEX
from treepool.discovery.key import Encoded, Nodes
from treepool.discovery.levels import LEVELS, topo_of
from treepool.discovery.reports import amd, intel, mig, nvidia
from treepool.discovery.slurmnodes import Slurm
from treepool.errors import InvalidInput
from treepool.rfc import idset
from treepool.rfc.quote import amount, did_you_mean
from treepool.rfc.rset import ResourceSet

T = TypeVar("T")


def define(parser: ArgumentParser) -> None:
    """Add the subcommand's arguments to *parser*."""
    source = parser.add_argument_group("hardware").add_mutually_exclusive_group()
    source.add_argument(
        "--xml",
        action="append",
        metavar="FILE[:NODES]",
        default=[],
        help="hwloc XML of a node, and the ranks or hosts that are like it (default: all that no "
        "other --xml names); or a folder or tar with a file HOST.xml for each host; repeatable",
    )
    source.add_argument(
        "--slurm",
        action="append",
        metavar="FILE",
        default=[],
        help='what "scontrol show node" printed, and gres.conf: for a site that has nothing else; '
        "repeatable",
    )
    source.add_argument(
        "--local",
        action="store_true",
        help="this machine: ask hwloc's library or, where there is none, the Flux broker",
    )
    source.add_argument(
        "--instance", action="store_true", help="all brokers of the running Flux instance"
    )
    target = parser.add_argument_group("nodes")
    target.add_argument(
        "-R",
        dest="R_file",
        metavar="FILE",
        help='an R to add the key to, "-" for stdin; a key of Fluxion in it becomes one of RFC 49',
    )
    target.add_argument(
        "--ranks", metavar="IDS", help="without -R: the ranks of the nodes (default: from 0)"
    )
    target.add_argument(
        "--hosts", metavar="HOSTS", help="without -R: their names (default: as in the XML)"
    )
    what = parser.add_argument_group("what is in the key")
    what.add_argument(
        "--levels",
        metavar="NAME,...",
        help=f"the localities: any of {', '.join(LEVELS)} (default: socket and numa where they "
        "add something, and any that separates GPUs)",
    )
    what.add_argument(
        "--gpu-index",
        choices=GPU_INDEX,
        default="vendor",
        help="how GPUs are numbered: as jobs will see them (vendor: NVIDIA's by PCI bus id, AMD's "
        "as rsmi; the default), all by PCI bus id, or as in hwloc's tree",
    )
    what.add_argument(
        "--nvidia-smi",
        metavar="FILE",
        help='what "nvidia-smi topo -m" printed on such a node: links between GPUs',
    )
    what.add_argument(
        "--amd-smi",
        metavar="FILE",
        help='what "amd-smi topology" (or with --json) or "rocm-smi --showtopo" printed on such a '
        "node: links between GPUs",
    )
    what.add_argument(
        "--xpu-smi",
        metavar="FILE",
        help='what "xpu-smi topology -m" printed on such a node: links between GPUs',
    )
    what.add_argument(
        "--mig",
        metavar="FILE",
        help='what "nvidia-smi -L" printed on such a node: GPUs that are cut into MIG instances',
    )
    what.add_argument(
        "--properties",
        action="store_true",
        help="add properties that constraints can use, such as gpu-h100 and unified-memory",
    )
    what.add_argument(
        "--fabric",
        metavar="FILE",
        help="the racks, switches or blocks of the hosts: Slurm's topology.conf or topology.yaml, "
        'a table "host,cell,switch", JSON, output of ibnetdiscover, a folder of HOST.txt with '
        'output of "nvidia-smi -q", or the word cray for the names of the hosts',
    )
    what.add_argument(
        "--topology",
        metavar="NAME",
        help="the topology to read of those in the file of --fabric (topology.yaml, or Kueue's); "
        "without it they are merged, if their domains nest",
    )
    what.add_argument(
        "--rail",
        metavar="ADAPTER",
        help="the adapter that says at which switch a host is, of those in the output of "
        "ibnetdiscover (default: the one that most hosts have)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print each kind of node and the fabric as trees, and what was merged or left "
        "out; no R",
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run: print lines of JSON")


def run(arguments: Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    if arguments.json and not arguments.dry_run:
        raise Stop("--json: without --dry-run all that is printed is JSON", USAGE)
    if arguments.topology is not None and arguments.fabric is None:
        raise Stop("--topology: says which one to read of the file of --fabric", USAGE)
    if arguments.rail is not None and arguments.fabric is None:
        raise Stop("--rail: says which adapter counts in the file of --fabric", USAGE)
    R = _given_R(arguments)
    try:
        encoded = _encode(arguments, R)
        if arguments.fabric is not None:
            which = arguments.topology or "", arguments.rail or ""
            encoded = sitefiles.with_fabric(encoded, arguments.fabric, *which)
    except InvalidInput as e:
        raise Stop(str(e)) from None
    text = json.dumps(encoded.R.to_dict())
    problems = ResourceSet.problems(text)
    if problems:
        raise Stop(f"the R would be wrong: {problems[0]}")
    if arguments.dry_run:
        from treepool.cli import outline

        out(*([] if arguments.json else outline.lines(encoded)))
        for fact in outline.facts(encoded) if arguments.json else []:
            out_json(fact)
        return DONE
    for warning in _warnings(encoded):
        complain("treepool encode", f"warning: {warning}")
    for line in encoded.read:
        complain("treepool encode", line)
    out(text)
    return DONE


def _warnings(encoded: Encoded) -> Iterator[str]:
    for kind in encoded.kinds:
        for warning in kind.node.warnings:
            yield f"ranks {idset.encode(kind.ranks)}: {warning}"
    yield from encoded.warnings


def _given_R(arguments: Namespace) -> Optional[ResourceSet]:
    if arguments.R_file is None:
        return None
    for name in ("ranks", "hosts"):
        if getattr(arguments, name) is not None:
            raise Stop(f"--{name}: with -R the nodes are those of R", USAGE)
    files.check_stdin(arguments.R_file, *(xml.split(":")[0] for xml in arguments.xml))
    return files.read_resource_set(arguments.R_file)


def _encode(arguments: Namespace, R: Optional[ResourceSet]) -> Encoded:
    if not (arguments.xml or arguments.slurm or arguments.local or arguments.instance):
        if R is None or not (arguments.fabric or fluxion.has_graph(R.scheduling)):
            raise Stop(
                "one of --xml, --slurm, --local, --instance is needed, or --fabric with -R, or an "
                "R with Fluxion's key",
                USAGE,
            )
        return _of_key(R, arguments)
    describer = Describer(_levels(arguments.levels), arguments.gpu_index)
    told = {
        "nvidia-smi": _told(arguments, "nvidia-smi", nvidia.read_topo),
        "amd-smi": _told(arguments, "amd-smi", amd.read_topo),
        "xpu-smi": _told(arguments, "xpu-smi", intel.read_topo),
    }
    reports = {option: one for option, one in told.items() if one is not None}
    describer.reports = list(reports.values())
    describer.instances = _told(arguments, "mig", mig.read_list) or ()
    read = [_read_of(arguments, option, report.told) for option, report in reports.items()]
    if describer.instances:
        read.append(_read_of(arguments, "mig", mig.told(describer.instances)))
    slurm = _slurm(arguments, R) if arguments.slurm else None
    if slurm is not None:
        read.append(f"{', '.join(map(files.shown, arguments.slurm))}: {slurm.told}")
    encoded = _encode_nodes(describer, slurm, R, arguments)
    warnings = (*encoded.warnings, *(slurm.warnings if slurm is not None else ()))
    return attrs.evolve(encoded, warnings=warnings, read=(*encoded.read, *read))


def _read_of(arguments: Namespace, option: str, told: str) -> str:
    return f"{files.shown(getattr(arguments, option.replace('-', '_')))}: {told}"


def _slurm(arguments: Namespace, R: Optional[ResourceSet]) -> Slurm:
    one = len(arguments.slurm) == 1
    named = [sitefiles.slurm(path, "" if one else path) for path in arguments.slurm]
    with files.naming(arguments.slurm[0] if one else "--slurm"):
        return slurmnodes.read(named, frozenset(R.hosts) if R is not None else ())


def _encode_nodes(
    describer: Describer, slurm: Optional[Slurm], R: Optional[ResourceSet], arguments: Namespace
) -> Encoded:
    if arguments.instance:
        return _encode_instance(describer, R, arguments)
    found = list(counted(_found(arguments, slurm, describer), "nodes read"))
    if R is not None:
        nodes = assigned(found, R.mask, R.hosts)
        return _encode_into(R, nodes, arguments)
    ranks, hosts = new_nodes(arguments, found)
    nodes = assigned(found, ranks, hosts)
    return key.encode_new(nodes, hosts, arguments.properties)


def _of_key(R: ResourceSet, arguments: Namespace) -> Encoded:
    """R with the key of RFC 49 that is in it, also if Fluxion wrote it."""
    if not fluxion.has_graph(R.scheduling):
        return Encoded(R, (), ())
    name = files.shown(arguments.R_file or "--instance")
    with files.naming(name):
        encoded = fluxion.encode(R, _levels(arguments.levels), arguments.properties)
    known = idset.size(idset.union(kind.ranks for kind in encoded.kinds))
    told = f"{name}: {known} of {amount(len(R.hosts), 'node')} of R in Fluxion's graph"
    return attrs.evolve(encoded, read=(told,))


def _encode_into(R: ResourceSet, nodes: Sequence[Nodes], arguments: Namespace) -> Encoded:
    """R with the key of *nodes*, and what its own key says of others and of the fabric."""
    old = _of_key(R, arguments)
    new = key.encode_into(old.R, nodes, arguments.properties)
    return attrs.evolve(new, warnings=(*old.warnings, *new.warnings), read=old.read)


def _told(arguments: Namespace, option: str, read: Callable[[str], T]) -> Optional[T]:
    """What *read* makes of the file given by *option*, the text of a tool; None without."""
    path = getattr(arguments, option.replace("-", "_"))
    if path is None:
        return None
    if arguments.gpu_index == "hwloc":
        raise Stop(f"--{option} numbers GPUs as --gpu-index vendor does", USAGE)
    with files.naming(path):
        return read(files.read_text(path))


def _levels(text: Optional[str]) -> Optional[list[str]]:
    if text is None:
        return None
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in LEVELS:
            hint = did_you_mean(name, LEVELS)
            known = ", ".join(LEVELS)
            raise Stop(f"--levels: no level is called {name:.40}{hint}: {known}", USAGE)
    return list(dict.fromkeys(names))


def _found(arguments: Namespace, slurm: Optional[Slurm], describer: Describer) -> Iterator[Found]:
    if arguments.local:
        yield _read(hardware.local(), describer)
    for hosts, machine in slurm.machines if slurm is not None else ():
        yield Found(topo_of(machine, describer.levels), hosts[0], hosts=hosts)
    for argument in arguments.xml:
        for description in hardware.read(argument):
            yield _read(description, describer)


def _read(description: Description, describer: Describer) -> Found:
    node = describer.of_xml(description.xml, description.name)
    return Found(node, description.name, description.ranks, description.hosts)


def _encode_instance(
    describer: Describer, R: Optional[ResourceSet], arguments: Namespace
) -> Encoded:
    with instance.asking("--instance: "):
        from treepool.flux import client
        from treepool.flux.hardware import resources, topologies

        handle = client.connected()
        target = resources(handle) if R is None else R
    nodes = []
    for rank, answer in counted(topologies(handle, target.mask), "brokers answered"):
        if isinstance(answer, bytes):
            nodes.append(Nodes(1 << rank, describer.of_xml(answer, f"rank {rank}")))
        else:
            complain("treepool encode", f"warning: rank {rank}: {answer}: it stays flat")
    if not nodes:
        raise Stop("--instance: no broker told its topology")
    return _encode_into(target, nodes, arguments)
