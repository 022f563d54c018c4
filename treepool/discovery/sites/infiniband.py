"""``ibnetdiscover``: hosts at InfiniBand switches, names of switches, which levels are domains.

Switches are told apart by their GUIDs. They are called by their descriptions, as far as these are
unique. Adapters of one name are a *rail*. A host is at the switch of its adapter on the rail that
most hosts have; of several, the one whose hosts share the most switches, because a network for
storage often has one. A host without that adapter is where its neighbours on another rail are.
Where each switch has one switch above it, the cabling is a tree, and the switches above are
domains, too; fat trees have leaves alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Iterator, Mapping, Sequence

from treepool.discovery.sites.locations import Site, listed, switch_at
from treepool.errors import InvalidHardware
from treepool.rfc.findings import shown

_SWITCH = re.compile(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[\d+\][^"]*"([HS]-[^"]+)"\[(\d+)\].*?#\s*"([^"\s]*)\s*([^"]*)')

#: Most levels of switches.
_MOST_LEVELS = 8

#: The switch of each adapter of a host, by the names of the adapters.
_Adapters = dict[str, str]


def read(text: str, site: Site) -> None:
    """The switches above the hosts of *site*."""
    descriptions: dict[str, str] = {}
    adapters: dict[str, _Adapters] = {}
    beside: dict[str, set[str]] = {}  # the switches that each switch is joined to
    switch = ""
    for line in text.splitlines():
        head = _SWITCH.match(line)
        if head:
            switch = head[1]
            descriptions[switch] = head[2]
        elif not line.strip() or line.startswith("Ca"):
            switch = ""
        port = _PORT.match(line)
        if port and switch:
            if port[1].startswith("H"):
                name = port[4].strip() or "adapter"
                name += f":{port[2]}" if port[2] != "1" else ""
                host = port[3] if port[3] in site.hosts else port[3].partition(".")[0]
                if host in site.hosts:
                    adapters.setdefault(host, {}).setdefault(name, switch)
            elif port[1] != switch:
                beside.setdefault(switch, set()).add(port[1])
    names = _names(descriptions)
    leaf_of = _leaves(adapters, site)
    with_hosts = {switch for own in adapters.values() for switch in own.values()}
    above = _above(set(leaf_of.values()), beside, with_hosts)
    for host, leaf in leaf_of.items():
        around = [leaf]
        while around[-1] in above:
            around.append(above[around[-1]])
        named = [(switch_at(level), names.get(one, one)) for level, one in enumerate(around)]
        site.put(host, tuple(reversed(named)))


def _leaves(adapters: Mapping[str, _Adapters], site: Site) -> dict[str, str]:
    """The switch of each host. *site* says which rail counts, and gets warnings."""
    rail = _rail(adapters, site)
    leaf_of = {host: own[rail] for host, own in adapters.items() if rail in own}
    neighbours: dict[tuple[str, str], Counter[str]] = {}
    for host, leaf in leaf_of.items():
        for at in adapters[host].items():
            neighbours.setdefault(at, Counter())[leaf] += 1
    usual = {at: leaves.most_common(1)[0][0] for at, leaves in neighbours.items()}
    without = [host for host in adapters if host not in leaf_of]
    for host in without:
        own = sorted(adapters[host].items())
        leaf_of[host] = next((usual[at] for at in own if at in usual), own[0][1])
    odd = [
        host
        for host in adapters
        if any(usual.get(at, leaf_of[host]) != leaf_of[host] for at in adapters[host].items())
    ]
    if without:
        site.warnings.append(
            f"hosts without adapter {shown(rail)}, placed by their others: {listed(without)}"
        )
    if odd:
        others = sorted({name for host in odd for name in adapters[host]} - {rail})
        site.warnings.append(
            f"hosts whose adapters disagree, {shown(rail)} counts and not "
            f"{', '.join(map(shown, others[:3]))} (--rail chooses): {listed(odd)}"
        )
    return leaf_of


def _rail(adapters: Mapping[str, _Adapters], site: Site) -> str:
    """The name of the adapters that count; raises InvalidHardware if no host has that of *site*."""
    switches: dict[str, list[str]] = {}
    for own in adapters.values():
        for name, switch in own.items():
            switches.setdefault(name, []).append(switch)
    if site.rail and site.rail not in switches:
        there = ", ".join(f"{shown(name)} of {len(of)} hosts" for name, of in switches.items())
        raise InvalidHardware(f"no adapter {shown(site.rail)}; there are: {there or 'none'}")
    ordered = sorted(switches, key=lambda name: (len(name), name))
    most = max(ordered, key=lambda n: (len(switches[n]), _several(switches[n])), default="")
    return site.rail or most


def _several(switches: Sequence[str]) -> int:
    """How many of *switches*, one for each host, share the hosts. One odd host makes no more."""
    return round(len(switches) ** 2 / sum(n * n for n in Counter(switches).values()))


def _names(descriptions: Mapping[str, str]) -> dict[str, str]:
    """What each switch is called, by its GUID: the shortest text that is its own."""
    names: dict[str, str] = {}
    for texts in map(list, zip(*(_texts(*switch) for switch in descriptions.items()))):
        counted = Counter(texts)
        for guid, text in zip(descriptions, texts):
            if guid not in names and text and counted[text] == 1:
                names[guid] = text
    return names


def _texts(guid: str, description: str) -> Iterator[str]:
    """What a switch may be called, the shortest first."""
    whole = description.split(";")[-1].strip()
    yield whole.split(":")[0].strip()
    yield whole
    yield f"{whole} {guid}".strip()


def _above(
    leaves: set[str], beside: Mapping[str, set[str]], with_hosts: set[str]
) -> dict[str, str]:
    """The switch above each switch, level by level, while each has one and these are several."""
    above: dict[str, str] = {}
    level, known = leaves, set(with_hosts)
    for _ in range(_MOST_LEVELS):
        up = {switch: beside.get(switch, set()) - known for switch in level}
        over = {next(iter(those)) for those in up.values() if len(those) == 1}
        if any(len(those) != 1 for those in up.values()) or len(over) < 2:
            return above
        above.update({switch: next(iter(those)) for switch, those in up.items()})
        known |= over
        level = over
    return above
