"""Taking a slot out of one domain: from as few of its nested domains as possible.

A slot that fits in no smaller domain spans several. Which ones is a small covering problem with
two amounts (GPUs and cores, or a number of whole domains); it is solved exactly.
"""

from __future__ import annotations

from typing import Sequence

from treepool.placement.request import Need
from treepool.placement.tree import Domain
from treepool.rfc import idset

#: Two amounts, compared one by one: (GPUs, cores), or (0, whole domains).
Amount = tuple[int, int]


class Supply:
    """What a domain can give towards one slot's need, and how the need is taken from it.

    A flat need counts GPUs and cores; an exclusive one counts domains that are whole, entirely
    free, and hold the minimum asked of each.
    """

    __slots__ = ("want", "unit", "asks_nothing")

    def __init__(self, need: Need) -> None:
        self.unit = need.domain
        self.want: Amount = (need.gpus, need.cores) if self.unit is None else (0, self.unit.count)
        self.asks_nothing = self.want == (0, 0)

    def of(self, domain: Domain, cores: int, gpus: int) -> Amount:
        """What *domain* supplies when *cores* and *gpus* are free."""
        if self.unit is None:
            return idset.size(domain.gpus & gpus), idset.size(domain.cores & cores)
        if domain.name == self.unit.name:
            return (0, 1) if self._is_unit(domain, cores, gpus) else (0, 0)
        return 0, sum(self.of(child, cores, gpus)[1] for child in domain.children)

    def own(self, domain: Domain, cores: int, gpus: int) -> Amount:
        """What *domain* supplies besides its children."""
        if self.unit is None:
            return idset.size(domain.own_gpus & gpus), idset.size(domain.own_cores & cores)
        return (0, 0) if domain.name != self.unit.name else self.of(domain, cores, gpus)

    def take_own(self, domain: Domain, amount: Amount, cores: int, gpus: int) -> tuple[int, int]:
        """The ids of *amount* out of what own() counts, lowest first, as (cores, GPUs)."""
        if self.unit is None:
            return (
                idset.take_lowest(domain.own_cores & cores, amount[1]),
                idset.take_lowest(domain.own_gpus & gpus, amount[0]),
            )
        return (domain.cores, domain.gpus) if amount[1] else (0, 0)

    def covered_by(self, domain: Domain, cores: int, gpus: int) -> bool:
        """True if *domain* alone can host the slot."""
        have = self.of(domain, cores, gpus)
        return have[0] >= self.want[0] and have[1] >= self.want[1]

    def first(self, root: Domain, cores: int, gpus: int) -> tuple[int, int]:
        """The slot taken from the lowest ids of *root*, whatever the tree says."""
        if self.unit is None:
            return (
                idset.take_lowest(root.cores & cores, self.want[1]),
                idset.take_lowest(root.gpus & gpus, self.want[0]),
            )
        units = [d for d in root.walk() if d.name == self.unit.name]
        free = [d for d in units if self._is_unit(d, cores, gpus)][: self.unit.count]
        taken_cores = taken_gpus = 0
        for unit in free:
            taken_cores |= unit.cores
            taken_gpus |= unit.gpus
        return taken_cores, taken_gpus

    def _is_unit(self, domain: Domain, cores: int, gpus: int) -> bool:
        need = self.unit
        assert need is not None
        return (
            domain.whole
            and domain.cores & ~cores == 0
            and domain.gpus & ~gpus == 0
            and idset.size(domain.cores) >= need.min_cores
            and idset.size(domain.gpus) >= need.min_gpus
        )


def spread(domain: Domain, supply: Supply, cores: int, gpus: int) -> tuple[int, int]:
    """The cores and GPUs of one slot out of *domain*, which must cover it."""
    return _spread(domain, supply, supply.want, cores, gpus)


def _spread(domain: Domain, supply: Supply, want: Amount, cores: int, gpus: int) -> tuple[int, int]:
    own = supply.own(domain, cores, gpus)
    sources = _fewest_children(domain, supply, _less(want, own), cores, gpus)
    # GPUs first, each source as many as it has; then cores from the sources that gave GPUs.
    amounts = [own] + [supply.of(child, cores, gpus) for child in sources]
    given_gpus = _deal(want[0], [gpu for gpu, _ in amounts])
    order = sorted(range(len(amounts)), key=lambda i: not given_gpus[i])
    given_cores = [0] * len(amounts)
    for i, amount in zip(order, _deal(want[1], [amounts[i][1] for i in order])):
        given_cores[i] = amount
    taken_cores, taken_gpus = supply.take_own(domain, (given_gpus[0], given_cores[0]), cores, gpus)
    for child, gpu_share, core_share in zip(sources, given_gpus[1:], given_cores[1:]):
        if gpu_share or core_share:
            share = gpu_share, core_share
            child_cores, child_gpus = _spread(child, supply, share, cores, gpus)
            taken_cores |= child_cores
            taken_gpus |= child_gpus
    return taken_cores, taken_gpus


def _deal(wanted: int, amounts: Sequence[int]) -> list[int]:
    """*wanted* dealt out to sources in order, each giving as much as it can."""
    given = []
    for amount in amounts:
        given.append(min(wanted, amount))
        wanted -= given[-1]
    return given


def _less(want: Amount, own: Amount) -> Amount:
    return max(0, want[0] - own[0]), max(0, want[1] - own[1])


def _fewest_children(
    domain: Domain, supply: Supply, want: Amount, cores: int, gpus: int
) -> list[Domain]:
    """The fewest children that together cover *want*.

    Of several such sets, the first in lexicographic order when the children are listed by fewest
    free GPUs, fewest free cores, lowest id.
    """
    if want == (0, 0):
        return []
    children = sorted(
        domain.children,
        key=lambda c: (idset.size(c.gpus & gpus), idset.size(c.cores & cores)),
    )
    amounts = [supply.of(child, cores, gpus) for child in children]
    return [children[i] for i in fewest(amounts, want)]


def fewest(amounts: Sequence[Amount], want: Amount) -> list[int]:
    """Indexes of the fewest *amounts* that sum up to *want*, lexicographically first.

    The amounts together must cover *want*. With n amounts of which k are needed and g wanted of
    the first kind, takes n * k * g steps.
    """
    # tables[k][i][g]: the most of the second kind that exactly k of amounts[i:] give together
    # with at least g of the first; -1 if they cannot.
    count = len(amounts)
    goal = want[0]
    tables = [[[0] + [-1] * goal] * (count + 1)]
    while tables[-1][0][goal] < want[1]:
        before = tables[-1]
        table = [[-1] * (goal + 1) for _ in range(count + 1)]
        for i in range(count - 1, -1, -1):
            first, second = amounts[i]
            for g in range(goal + 1):
                rest = before[i + 1][max(0, g - first)]
                table[i][g] = max(table[i + 1][g], rest + second if rest >= 0 else -1)
        tables.append(table)
        if len(tables) > count + 1:
            raise ValueError("the amounts do not cover what is wanted")
    chosen = []
    k, (g, needed) = len(tables) - 1, want
    for i, (first, second) in enumerate(amounts):
        if k == 0:
            break
        rest = tables[k - 1][i + 1][max(0, g - first)]
        if rest >= 0 and rest + second >= needed:
            chosen.append(i)
            k, g, needed = k - 1, max(0, g - first), max(0, needed - second)
    return chosen
