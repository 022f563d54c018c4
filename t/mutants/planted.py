"""The planted bugs: what each changes in treepool/placement."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """In ``path``, below treepool/placement, ``old``, which is there once, becomes ``new``."""

    name: str
    path: str
    old: str
    new: str

    def plant(self, placement: Path) -> None:
        """Change the source in folder *placement*; raise ValueError if it is not as expected."""
        source = placement / self.path
        text = source.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has this {text.count(self.old)} times: {self.old}")
        source.write_text(text.replace(self.old, self.new))


MUTANTS = [
    Mutant(
        "best-fit by GPUs first",
        "choose/policy.py",
        "return state.ncores * _MANY + state.ngpus",
        "return state.ngpus * _MANY + state.ncores",
    ),
    Mutant(
        "packing breaks idle nodes",
        "choose/policy.py",
        "broken = state.idle and taken < free and after < before",
        "broken = False",
    ),
    Mutant(
        "packing: waste counts once",
        "choose/policy.py",
        "2 * (root.ngpus * PER_GPU + wasted)",
        "2 * root.ngpus * PER_GPU + wasted",
    ),
    Mutant(
        "packing: the emptiest node first",
        "choose/policy.py",
        "cost = _OFFSET + before +",
        "cost = _OFFSET - before +",
    ),
    Mutant(
        "packing: the size of a node does not count",
        "choose/policy.py",
        "2 * (root.ngpus * PER_GPU + wasted)",
        "2 * wasted",
    ),
    Mutant(
        "packing: the cores of a broken node do not count",
        "choose/policy.py",
        "cost += BROKEN * PER_GPU + state.ncores * PER_GPU // CORES_OF_A_GPU",
        "cost += BROKEN * PER_GPU",
    ),
    Mutant(
        "packing: of equal costs, the one that straddles",
        "choose/policy.py",
        "self.straddle = (round(gpus * PER_GPU) + 1) * _MANY",
        "self.straddle = (round(gpus * PER_GPU) - 1) * _MANY",
    ),
    Mutant(
        "usable: a GPU's share is that of its domain alone",
        "nodes/usable.py",
        "share = min(idset.size(cores) // idset.size(gpus), root.ncores // root.ngpus)",
        "share = idset.size(cores) // idset.size(gpus)",
    ),
    Mutant(
        "usable: GPUs without cores of their own never are",
        "nodes/usable.py",
        "or (own and not cores)",
        "",
    ),
    Mutant(
        "usable: cores of another socket count",
        "nodes/usable.py",
        "if not all(child.cores for child in inner)",
        "if inner",
    ),
    Mutant(
        "packing: the bound of a cost is above it",
        "choose/policy.py",
        "wasted = before - after - ask.min_gpus * PER_GPU",
        "wasted = before",
    ),
    Mutant(
        "off by one in the cores a domain must have free",
        "on_node/levels.py",
        "idset.size(domain.cores & cores) >= need.cores",
        "idset.size(domain.cores & cores) > need.cores",
    ),
    Mutant(
        "lost tie-break: the last of equal domains",
        "on_node/levels.py",
        "sorted(children, key=left)",
        "sorted(children[::-1], key=left)",
    ),
    Mutant(
        "lost tie-break: fewest free cores only",
        "on_node/levels.py",
        "return idset.size(domain.open_gpus & gpus), idset.size(domain.cores & cores)",
        "return 0, idset.size(domain.cores & cores)",
    ),
    Mutant(
        "lost tie-break: the highest rank of a state",
        "nodes/rankset.py",
        "return (chunk << _SHIFT) + (bits & -bits).bit_length() - 1",
        "return (chunk << _SHIFT) + bits.bit_length() - 1",
    ),
    Mutant(
        "a GPU mask not cleared on a free of some ranks",
        "jobs.py",
        "left.append((kept, cores, gpus))",
        "left.append((kept, cores, 0))",
    ),
    Mutant(
        "cores freed, GPUs not",
        "nodes/state.py",
        "return self.get(state.type, state.cores | cores, state.gpus | gpus)",
        "return self.get(state.type, state.cores | cores, state.gpus)",
    ),
    Mutant(
        "a free of some ranks gives all back",
        "pool.py",
        "left = held_without(jobid, job.parts, freed)",
        "left, freed = held_without(jobid, job.parts, freed), job.parts",
    ),
    Mutant(
        "what a rank holds is not compared on free",
        "jobs.py",
        "if gone.pop(rank, (cores, gpus)) != (cores, gpus):",
        "if gone.pop(rank, (cores, gpus))[1] != gpus:",
    ),
    Mutant("final is not looked at", "pool.py", "if final and left:", "if final and not left:"),
    Mutant(
        "what is taken may be registered again",
        "jobs.py",
        "if cores & ~state.cores or gpus & ~state.gpus:",
        "if gpus & ~state.gpus:",
    ),
    Mutant(
        "an allocation without its end",
        "pool.py",
        "job = attrs.evolve(self._live(jobid), end_time=expiration)",
        "job = attrs.evolve(self._live(jobid), end_time=abs(expiration - 5.0))",
    ),
    Mutant(
        "a copy that shares the jobs",
        "pool.py",
        "new._jobs = self._jobs.copy()",
        "new._jobs = self._jobs",
    ),
    Mutant(
        "a copy that shares buckets and does not know",
        "nodes/index.py",
        "self._shared = set(self.buckets)\n        new._censuses",
        "new._censuses",
    ),
    Mutant(
        "candidates are not told of a change",
        "nodes/index.py",
        "self.log.append(state)",
        "self.log.append(self.state_of[rank] or state)",
    ),
    Mutant(
        "what comes up is not found",
        "nodes/index.py",
        "                if up:\n                    self._enter(rank, state)",
        "                if not up:\n                    pass",
    ),
    Mutant(
        "idle answers outlive the nodes",
        "pool.py",
        "self._situation, self._feasibility = situation, feasibility",
        "self._situation = situation",
    ),
    Mutant(
        "removed ranks stay in the key",
        "nodes/inventory.py",
        "            key,\n            types,",
        "            self.key,\n            types,",
    ),
    Mutant(
        "the order of R_lite is lost on removal",
        "nodes/inventory.py",
        "entries = merge_entries(\n            attrs.evolve(e, ranks=e.ranks & kept)",
        "entries = tuple(\n            attrs.evolve(e, ranks=e.ranks & kept)",
    ),
    Mutant(
        "cores that Flux renumbered are looked up as they are",
        "nodes/node_types.py",
        "if cores & ~allocated == 0:",
        "if allocated or not allocated:",
    ),
    Mutant(
        "a domain of which R has a part counts as whole",
        "nodes/compile.py",
        "whole = not (missing[0] & ~ids.site[0] or missing[1] & ~ids.site[1])",
        "whole = True",
    ),
    Mutant(
        "required falls back",
        "on_node/slots.py",
        "return local, local if self.required or len(total) < len(local) else total",
        "return local, local if len(total) < len(local) else total",
    ),
    Mutant(
        "a share of cores rounded up",
        "on_node/ids.py",
        "shares = [idset.size(own_cores(host)) * ngpus // host.ngpus]",
        "shares = [-(-idset.size(own_cores(host)) * ngpus // host.ngpus)]",
    ),
    Mutant(
        "a step too many",
        "choose/selection.py",
        "nslots = slots.largest(available // nodes.minimum)",
        "nslots = slots.largest(-(-available // nodes.minimum))",
    ),
]
