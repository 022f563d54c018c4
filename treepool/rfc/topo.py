"""The topo of RFC 49: what one kind of node has, as a tree; names of localities, units, limits.

A domain is a JSON object. ``cores``, ``gpus``, ``memory`` and ``storage`` describe what is local to
it. Any other key whose value is an array of objects is the name of a locality, and the objects are
the domains inside. All other keys are unknown: treepool keeps them and ignores them.

A domain has the ids that it lists and those of the domains inside it. flux-core's encoder lists
only what no domain inside has, others list everything, and both are read alike.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping

import attrs

from treepool.errors import InvalidKey
from treepool.rfc.count import BYTES, to_bytes
from treepool.rfc.findings import Findings, Readers, pointer_to, shown, shown_ids
from treepool.rfc.idset import union

#: The keys that describe a domain. They cannot name a locality.
RESOURCE_KEYS = frozenset(("cores", "gpus", "memory", "storage"))

#: The same in a fixed order, for messages.
KEYS = tuple(sorted(RESOURCE_KEYS))

#: Names that a locality cannot have: the resource keys, and the vertex types of every jobspec.
RESERVED = RESOURCE_KEYS | frozenset(("node", "slot", "core", "gpu", "ranks", "topo"))

#: The localities that RFC 49 defines. Any value except an array of objects is an error.
DEFINED = ("socket", "numa")

#: Units of a storage's capacity.
UNITS = tuple(BYTES)

#: Largest capacity of a storage, in its unit.
MAX_CAPACITY = 1e30

#: Deepest nesting of localities. hwloc knows about eight kinds of object between node and core.
MAX_LEVELS = 16

#: Most domains in one topo.
MAX_DOMAINS = 1 << 16

#: Number of siblings that are compared at once when looking for the first with some id. One by one,
#: a thousand overlaps among 50,000 siblings took a minute.
_BLOCK = 256

#: What the message about a reserved name adds.
_HINTS = {
    "core": '; the key for core ids is "cores"',
    "gpu": '; the key for GPU ids is "gpus"',
}


def read_into(findings: Findings, topo: object, at: str) -> Topo:
    """The tree of *topo*, at JSON pointer *at*; all its problems are noted in *findings*."""
    walk = _Walk(findings)
    found = walk.domain(topo, at, ())
    if walk.unknown and not _is_json(topo):
        findings.note(at, "has a value that is not JSON")
    if walk.domains > MAX_DOMAINS:
        findings.note(at, f"has more than {MAX_DOMAINS} domains")
    return found


def read(topo: Mapping[str, Any]) -> Topo:
    """The tree of a valid *topo*; raises InvalidKey for others."""
    findings = Findings()
    found = read_into(findings, topo, "")
    findings.check(InvalidKey)
    return found


@attrs.frozen(eq=False)
class Topo:
    """A domain of a valid topo: of a locality, or the node itself.

    ``cores`` and ``gpus`` (bitmasks) are all that it mentions, domains inside included. ``memory``
    is what the domain itself lists, and ``storage`` the largest anywhere in it, both in bytes.
    ``localities`` are those of the domains inside, directly or not, and ``size`` is their number.
    """

    locality: str
    cores: int
    gpus: int
    memory: int
    storage: int
    inside: tuple[Topo, ...] = ()
    localities: frozenset[str] = frozenset()
    size: int = 0

    def walk(self) -> Iterator[Topo]:
        """All domains inside, enclosing ones first."""
        for domain in self.inside:
            yield domain
            yield from domain.walk()


def is_locality(value: object) -> bool:
    """Whether *value* is an array of domains. The key that has it, if unknown, is then a locality.

    An array without objects has no domains.
    """
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def check_locality(
    findings: Findings,
    name: str,
    at: str,
    inside: tuple[str, ...],
    reserved: frozenset[str],
    hints: Mapping[str, str] = {},
) -> bool:
    """Whether a locality of a topo or a fabric may be called *name*, within localities *inside*.

    If it may not, the reason is noted in *findings* at JSON pointer *at*, followed by the hint for
    that name, if there is one. *reserved* are the names that no locality may have there.
    """
    if not name or name in reserved:
        findings.note(at, f"{shown(name)} cannot be the name of a locality{hints.get(name, '')}")
    elif name in inside:
        findings.note(at, f"locality {shown(name)} is inside one of the same name")
    elif len(inside) >= MAX_LEVELS:
        findings.note(at, f"localities are nested deeper than {MAX_LEVELS} levels")
    else:
        return True
    return False


class _Walk:
    """One walk through a topo, with the number of domains seen."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.domains = 0
        self.unknown = False  # whether some keys have values that were not checked

    def domain(self, value: object, at: str, inside: tuple[str, ...]) -> Topo:
        """The domain at *at*, within localities *inside*, of which the last is its own."""
        self.domains += 1
        locality = inside[-1] if inside else "node"
        if not isinstance(value, dict):
            self.findings.mistyped(at, "an object", value)
            return Topo(locality, 0, 0, 0, 0)
        if not value:
            return Topo(locality, 0, 0, 0, 0)
        below = self.below(value, at, inside)
        cores, gpus = self.disjoint(below)
        children = tuple(domain for _, domain in below)
        storage, memory = [domain.storage for domain in children], 0
        if "memory" in value:
            memory = self.findings.integer(value["memory"], f"{at}/memory") << 30
        if "storage" in value:
            storage += self.findings.items(value["storage"], f"{at}/storage", self.storage)
        cores, gpus = self.ids(value, "cores", at, cores), self.ids(value, "gpus", at, gpus)
        if not children:
            return Topo(locality, cores, gpus, memory, max(storage, default=0))
        names = {domain.locality for domain in children}
        names.update(*(domain.localities for domain in children if domain.inside))
        size = len(children) + sum(domain.size for domain in children)
        most = max(storage, default=0)
        return Topo(locality, cores, gpus, memory, most, children, frozenset(names), size)

    def below(
        self, domain: Mapping[str, Any], at: str, inside: tuple[str, ...]
    ) -> list[tuple[str, Topo]]:
        """The domains directly in *domain*, each with its pointer."""
        children: list[tuple[str, Topo]] = []
        for name, items in domain.items():
            if name in RESOURCE_KEYS or self.findings.enough:
                continue
            key = pointer_to(at, name)
            if not self.locality(name, items, key, inside):
                self.findings.unread(domain, at, name, KEYS)
                continue
            if name not in DEFINED:
                self.findings.unread(domain, at, name, DEFINED)
            within = (*inside, name)
            for i, item in enumerate(items):
                if self.domains <= MAX_DOMAINS and not self.findings.enough:
                    place = f"{key}/{i}"
                    children.append((place, self.domain(item, place, within)))
        return children

    def locality(self, name: Any, items: object, key: str, inside: tuple[str, ...]) -> bool:
        """Whether *items* are domains of a locality that may have this *name* here."""
        defined = name in DEFINED
        if defined and not isinstance(items, list):
            self.findings.mistyped(key, "an array", items)
        elif not isinstance(name, str):
            self.findings.note(key, f"a key must be a string, not {shown(name)}")
        elif not defined and not is_locality(items):
            self.unknown = True
        else:
            return check_locality(self.findings, name, key, inside, RESERVED, _HINTS)
        return False

    def disjoint(self, children: list[tuple[str, Topo]]) -> tuple[int, int]:
        """The cores and GPUs of *children*, each with its pointer. Notes what two of them share."""
        cores = gpus = 0
        blocks: list[tuple[int, int]] = []
        for i, (_, child) in enumerate(children):
            if (child.cores & cores or child.gpus & gpus) and not self.findings.enough:
                self.overlap(children, i, blocks)
            cores |= child.cores
            gpus |= child.gpus
        return cores, gpus

    def overlap(
        self, children: list[tuple[str, Topo]], i: int, blocks: list[tuple[int, int]]
    ) -> None:
        """Note what the *i*-th of *children* shares with the first earlier one that overlaps it.

        *blocks* has the cores and GPUs of earlier ones, _BLOCK at a time, as far as they were
        needed.
        """
        for start in range(len(blocks) * _BLOCK, i - _BLOCK + 1, _BLOCK):
            some = [child for _, child in children[start : start + _BLOCK]]
            blocks.append((union(c.cores for c in some), union(c.gpus for c in some)))
        at, one = children[i]
        shared = (n for n, (c, g) in enumerate(blocks) if one.cores & c or one.gpus & g)
        for sibling, other in children[next(shared, len(blocks)) * _BLOCK : i]:
            both = ("cores", one.cores & other.cores), ("gpus", one.gpus & other.gpus)
            common = [f"{what} {shown_ids(ids)}" for what, ids in both if ids]
            if common:
                self.findings.note(at, f"{' and '.join(common)} also in the sibling at {sibling}")
                return

    def ids(self, domain: Mapping[str, Any], what: str, at: str, below: int) -> int:
        """The ids under key *what*, and those *below*, in domains inside."""
        if what not in domain:
            return below
        own = self.findings.idset(domain[what], f"{at}/{what}", empty=True)
        return own | below if below & ~own else own  # avoids a second copy of a wide set

    def storage(self, item: Any, at: str) -> int:
        """The bytes of one entry of ``storage``; 0 after a problem."""
        known = len(self.findings)
        readers: Readers = {
            "path": lambda v, at: self.findings.string(v, at, least=1),
            "capacity": lambda v, at: self.findings.number(v, at, 0, MAX_CAPACITY),
            "unit": lambda v, at: self.findings.one_of(v, at, UNITS),
        }
        self.findings.members(item, at, readers, required=("path", "capacity"))
        self.unknown |= isinstance(item, dict) and not item.keys() <= readers.keys()
        if len(self.findings) > known:
            return 0
        return to_bytes(item["capacity"], item.get("unit", "GiB"))


def _is_json(topo: object) -> bool:
    """Whether JSON text can say the same as *topo*; a caller's own dict may have other values."""
    try:
        return bool(json.loads(json.dumps(topo)) == topo)
    except (TypeError, ValueError, RecursionError):
        return False
