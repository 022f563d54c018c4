"""Which domains of a node can give what is asked of them now, and which of them are preferred."""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

from treepool.placement.effort import remembered
from treepool.placement.nodes.tree import Domain, NodeType
from treepool.placement.on_node.cover import nearest
from treepool.placement.on_node.ledger import Ledger
from treepool.placement.on_node.levels import MAX_MEMO, amount_levels, levels_of
from treepool.placement.request.need import Need, Part, least


class SuitableDomains:
    """The suitable domains on a node of *node_type*; *ledger* says what is left on it.

    With *local*, groups of domains sit in a domain of level 0, see levels.levels_of(). *able* says
    which domains of an idle node could give what a part asks of each.
    """

    def __init__(
        self,
        node_type: NodeType,
        ledger: Ledger,
        local: bool,
        able: Callable[[NodeType, Part], frozenset[Domain]],
    ) -> None:
        self.node_type = node_type
        self.ledger = ledger
        self.local = local
        self.able = able

    def singly(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* for *part*, each chosen on its own, the preferred first."""
        return sorted(self.listed(scope, part), key=lambda d: self.path(d, scope))

    def groups(self, scope: Domain, part: Part, count: int) -> Iterator[list[Domain]]:
        """The suitable domains in each host that has *count* of them, the preferred host first.

        In each list, the first *count* domains are the preferred ones.
        """
        suitable = self.listed(scope, part)
        levels = self.group_levels(part)
        members: dict[Domain, list[Domain]] = {}
        for domain in suitable:
            for host in self.node_type.around[domain]:
                members.setdefault(host, []).append(domain)
                if host is scope:
                    break
        hosts = [d for d in members if d in levels and len(members[d]) >= count]
        hosts.sort(key=lambda d: (levels[d], self.path(d, scope)))
        if not hosts:
            return
        if not self.local:
            first = self._fewest(hosts[0], count, members)
            yield first + [d for d in suitable if d not in first]
            return
        for host in hosts:
            if levels[host] == 0:
                first = self._fewest(host, count, members)
                yield first + [d for d in members[host] if d not in first]

    def _fewest(
        self, host: Domain, count: int, members: dict[Domain, list[Domain]]
    ) -> list[Domain]:
        """*count* of the members of *host*, from as few and as near children of it as possible."""
        if members[host] == [host]:
            return [host]
        children = [c for c in host.children if c in members]
        children.sort(key=self.ledger.free_in)
        amounts = [(0, len(members[c])) for c in children]
        chosen: list[Domain] = []
        for i in nearest(host, children, amounts, (0, count)):
            share = min(amounts[i][1], count - len(chosen))
            chosen += self._fewest(children[i], share, members)
        return chosen

    def listed(self, scope: Domain, part: Part) -> list[Domain]:
        """The domains in *scope* that can currently give *part*'s need once."""
        able = self.able(self.node_type, part)
        anywhere = scope is self.node_type.root
        ledger = self.ledger
        ncores, ngpus = least(part.need)
        found = []
        for d in self.node_type.named.get(part.name, ()):
            if d not in able or d is scope or not (anywhere or self.within(d, scope)):
                continue
            if part.whole:
                free = ledger.untouched(d)
            else:
                free = ledger.cores[d] >= ncores and ledger.gpus_in(d) >= ngpus
            if free:
                found.append(d)
        return found

    def grouped(
        self, scope: Domain, part: Part, domains: list[Domain]
    ) -> Sequence[Sequence[Domain]]:
        """*domains* in *scope* for *part*, divided into those that one slot may take together."""
        if not self.local or part.count.minimum == 1:
            return [domains]
        levels = self.group_levels(part)
        groups: dict[Domain, list[Domain]] = {}
        for domain in domains:
            around = self.node_type.around[domain]
            for host in around[: around.index(scope) + 1]:
                if levels.get(host) == 0:
                    groups.setdefault(host, []).append(domain)
        return list(groups.values())

    def smallest(self, scope: Domain, need: Need) -> list[Domain]:
        """The smallest kinds of domain in *scope* for *need*'s amount."""
        levels = amount_levels(self.node_type, need, scope)
        return [d for d in scope.walk() if levels.get(d) == 0]

    def within(self, domain: Domain, scope: Domain) -> bool:
        """Whether *domain* is *scope* or inside it."""
        return scope in self.node_type.around[domain]

    def path(self, domain: Domain, scope: Domain) -> list[tuple[int, int, int]]:
        """A sort key that orders domains as the walk down from *scope* reaches them."""
        steps = []
        for at in self.node_type.around[domain]:
            if at is scope:
                break
            steps.append((*self.ledger.free_in(at), self.node_type.order[at]))
        return steps[::-1]

    def group_levels(self, part: Part) -> dict[Domain, int]:
        """The levels of the domains that could host *part*'s group, see levels.levels_of()."""

        def compute() -> dict[Domain, int]:
            able = self.able(self.node_type, part)
            inside = {d: [b for b in d.walk() if b in able] for d in self.node_type.parent}

            def hosts(domain: Domain) -> bool:
                found = inside[domain]
                cored = not part.with_core or any(d.ncores for d in found)
                return cored and len(found) >= part.count.minimum

            return levels_of(self.node_type.root, hosts)

        return remembered(self.node_type.levels, MAX_MEMO, (part, "group"), compute)
