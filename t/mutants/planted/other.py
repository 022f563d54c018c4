"""Bugs elsewhere: GPUs, fitness, keys, job options, the R of jobs and of instances in them."""

from planted.mutant import Mutant

OTHER = [
    Mutant(
        "an instance in a job keeps properties of the enclosing one",
        "rfc/subinstance.py",
        'if not name.startswith("+")',
        'if name != "+"',
        "formats",
    ),
    Mutant(
        "an instance in a job keeps the ranks of its key",
        "rfc/subinstance.py",
        "key.renumber(allocated.ranks).to_dict()",
        "key.to_dict()",
        "formats",
    ),
    Mutant(
        "GPUs: the slowest links that do",
        "placement/gpus/best_set.py",
        "return sorted({self.links[v][w] for v in range(self.count) for w in range(v)})",
        "return sorted({self.links[v][w] for v in range(self.count) for w in range(v)})[:1]",
        "gpus",
    ),
    Mutant(
        "GPUs with other NICs are twins",
        "placement/gpus/best_set.py",
        "self.paths[v] == self.paths[w] and",
        "",
        "gpus",
    ),
    Mutant(
        "GPUs: the domains that the cores touch do not count",
        "placement/gpus/best_set.py",
        "self._touched(chosen, beside(chosen))",
        "self._touched(chosen, 0)",
        "gpus",
    ),
    Mutant(
        "a kind of domain can host only where it is inside",
        "placement/on_node/levels.py",
        "(child.name in kinds) + inside(child)",
        "(child in able) + inside(child)",
        "irregular",
    ),
    Mutant(
        "a type of node without domains of a kind splits slots",
        "placement/on_node/levels.py",
        "if levels and all(_is_divided(domain, kinds) for domain in levels)",
        "if levels and kinds - {domain.name for domain in levels}",
        "types",
    ),
    Mutant(
        "fitness: a slot more is whole in a domain",
        "placement/choose/fitness.py",
        "slots - whole) whole += fits",
        "slots - whole)\n        whole += fits + (fits > 1)",
        "fitness",
    ),
    Mutant(
        "fitness: the fastest link of the job counts",
        "placement/choose/fitness.py",
        "return (smallest_link(table, share.gpus) or 0.0) / largest",
        "return largest / largest",
        "fitness",
    ),
    Mutant(
        "parts of an allocation in the order of their ids",
        "placement/allocation.py",
        "return tuple(sorted(parts, key=lambda part: part[0][0]))",
        "return tuple(sorted(parts, key=lambda part: part[1:]))",
        "reference",
    ),
]
