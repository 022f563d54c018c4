"""The topo of RFC 49: what one kind of node has, as a tree of locality domains.

A domain is a JSON object. ``cores``, ``gpus``, ``memory`` and ``storage`` describe what is local to
it. Any other key whose value is an array of objects is the name of a locality, and the objects are
the domains inside. All other keys are unknown: treepool keeps them and ignores them.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator, Mapping

import attrs

from treepool.rfc import idset
from treepool.rfc.count import BYTES, to_bytes
from treepool.rfc.findings import Findings, Readers, pointer_to, shown, shown_ids

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


def check(topo: object, at: str, findings: Findings) -> None:
    """Note in *findings* all problems of *topo*, which is at JSON pointer *at*."""
    walk = _Walk(findings)
    walk.domain(topo, at, ())
    if walk.unknown and not _is_json(topo):
        findings.note(at, "has a value that is not JSON")
    if walk.domains > MAX_DOMAINS:
        findings.note(at, f"has more than {MAX_DOMAINS} domains")


@attrs.frozen(eq=False)
class Topo:
    """A domain of a valid topo: of a locality, or the node itself.

    ``cores`` and ``gpus`` (bitmasks) are all that it mentions, domains inside included. ``memory``
    is what the domain itself lists, and ``storage`` the largest anywhere in it, both in bytes.
    """

    locality: str
    cores: int
    gpus: int
    memory: int
    storage: int
    inside: tuple[Topo, ...]

    def walk(self) -> Iterator[Topo]:
        """All domains inside, enclosing ones first."""
        for domain in self.inside:
            yield domain
            yield from domain.walk()


def read(topo: Mapping[str, Any], locality: str = "node") -> Topo:
    """The tree of a valid *topo*, whose outermost domain is of *locality*."""
    inside = tuple(
        read(item, name)
        for name, items in topo.items()
        if name not in RESOURCE_KEYS and is_locality(items)
        for item in items
    )
    cores, gpus = idset.decode(topo.get("cores", "")), idset.decode(topo.get("gpus", ""))
    for domain in inside:
        cores, gpus = cores | domain.cores, gpus | domain.gpus
    kept = topo.get("storage", [])
    storage = [to_bytes(one["capacity"], one.get("unit", "GiB")) for one in kept]
    storage += [domain.storage for domain in inside]
    memory = int(topo.get("memory", 0)) << 30
    return Topo(locality, cores, gpus, memory, max(storage, default=0), inside)


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


@attrs.frozen
class _Ids:
    """Bitmasks of cores and GPUs."""

    cores: int = 0
    gpus: int = 0

    def share(self, other: _Ids) -> bool:
        """Whether some core or GPU is in both."""
        return self.cores & other.cores != 0 or self.gpus & other.gpus != 0


class _Walk:
    """One walk through a topo, with the number of domains seen."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.domains = 0
        self.unknown = False  # whether some keys have values that were not checked

    def domain(self, value: object, at: str, inside: tuple[str, ...]) -> _Ids:
        """Check the domain at *at*, within localities *inside*. Returns all ids in it."""
        self.domains += 1
        if not isinstance(value, dict):
            self.findings.mistyped(at, "an object", value)
            return _Ids()
        below = self.below(value, at, inside)
        self.hints(value, at)
        return _Ids(
            self.ids(value, "cores", at, below.cores), self.ids(value, "gpus", at, below.gpus)
        )

    def below(self, domain: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> _Ids:
        """The ids of all domains nested in *domain*. No two domains may share an id."""
        children: list[tuple[str, _Ids]] = []
        for name, items in domain.items():
            if name in RESOURCE_KEYS or self.findings.enough:
                continue
            key = pointer_to(at, name)
            if not self.locality(name, items, key, inside):
                self.findings.unread(domain, at, name, KEYS)
                continue
            if name not in DEFINED:
                self.findings.unread(domain, at, name, DEFINED)
            for i, item in enumerate(items):
                if self.domains <= MAX_DOMAINS and not self.findings.enough:
                    children.append(
                        (f"{key}/{i}", self.domain(item, f"{key}/{i}", (*inside, name)))
                    )
        return self.disjoint(children)

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

    def disjoint(self, children: list[tuple[str, _Ids]]) -> _Ids:
        """The union of *children*, each with its pointer. Notes ids that two of them share."""
        cores = gpus = 0
        blocks: list[_Ids] = []
        for i, (_, ids) in enumerate(children):
            if (ids.cores & cores or ids.gpus & gpus) and not self.findings.enough:
                self.overlap(children, i, blocks)
            cores |= ids.cores
            gpus |= ids.gpus
        return _Ids(cores, gpus)

    def overlap(self, children: list[tuple[str, _Ids]], i: int, blocks: list[_Ids]) -> None:
        """Note what the *i*-th of *children* shares with the first earlier one that overlaps it.

        *blocks* has the unions of earlier ones, _BLOCK at a time, as far as they were needed.
        """
        blocks += [
            _union(ids for _, ids in children[start : start + _BLOCK])
            for start in range(len(blocks) * _BLOCK, i - _BLOCK + 1, _BLOCK)
        ]
        at, ids = children[i]
        start = next((n for n, block in enumerate(blocks) if ids.share(block)), len(blocks))
        for sibling, other in children[start * _BLOCK : i]:
            if ids.share(other):
                both = ("cores", ids.cores & other.cores), ("gpus", ids.gpus & other.gpus)
                shared = [f"{what} {shown_ids(common)}" for what, common in both if common]
                self.findings.note(at, f"{' and '.join(shared)} also in the sibling at {sibling}")
                return

    def ids(self, domain: Mapping[str, Any], what: str, at: str, below: int) -> int:
        """The ids under key *what*, which must include those *below*; by default those below."""
        if what not in domain:
            return below
        known = len(self.findings)
        own = self.findings.idset(domain[what], f"{at}/{what}", empty=True)
        if below & ~own and len(self.findings) == known:
            lacking = shown_ids(below & ~own)
            self.findings.note(f"{at}/{what}", f"lacks {lacking}, which domains inside have")
        return own | below if below & ~own else own  # avoids a second copy of a wide set

    def hints(self, domain: Mapping[str, Any], at: str) -> None:
        """Check ``memory`` and ``storage``."""
        if "memory" in domain:
            self.findings.integer(domain["memory"], f"{at}/memory")
        if "storage" in domain:
            self.findings.items(domain["storage"], f"{at}/storage", self.storage)

    def storage(self, item: object, at: str) -> None:
        """Check one entry of ``storage``."""
        readers: Readers = {
            "path": lambda v, at: self.findings.string(v, at, least=1),
            "capacity": lambda v, at: self.findings.number(v, at, 0, MAX_CAPACITY),
            "unit": lambda v, at: self.findings.one_of(v, at, UNITS),
        }
        self.findings.members(item, at, readers, required=("path", "capacity"))
        self.unknown |= isinstance(item, dict) and not item.keys() <= readers.keys()


def _is_json(topo: object) -> bool:
    """Whether JSON text can say the same as *topo*; a caller's own dict may have other values."""
    try:
        return bool(json.loads(json.dumps(topo)) == topo)
    except (TypeError, ValueError, RecursionError):
        return False


def _union(parts: Iterable[_Ids]) -> _Ids:
    cores = gpus = 0
    for ids in parts:
        cores |= ids.cores
        gpus |= ids.gpus
    return _Ids(cores, gpus)
