"""``ibnetdiscover``: hosts at InfiniBand switches, names of switches, which levels are domains.

Switches are told apart by their GUIDs. They are called by their descriptions, as far as these are
unique. A host is at the switch of its first adapter. Where each switch has one switch above it, the
cabling is a tree, and the switches above are domains, too; fat trees have leaves alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Iterator, Mapping

from treepool.discovery.sites.locations import Site, switch_at

_SWITCH = re.compile(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[\d+\][^"]*"([HS]-[^"]+)"\[\d+\].*?#\s*"([^"\s]*)')

#: Most levels of switches.
_MOST_LEVELS = 8


def read(text: str, site: Site) -> None:
    """The switches above the hosts of *site*."""
    descriptions: dict[str, str] = {}
    leaf_of: dict[str, str] = {}
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
                leaf_of.setdefault(port[2], switch)
            elif port[1] != switch:
                beside.setdefault(switch, set()).add(port[1])
    names = _names(descriptions)
    above = _above(set(leaf_of.values()), beside)
    for host, leaf in leaf_of.items():
        around = [leaf]
        while around[-1] in above:
            around.append(above[around[-1]])
        named = [(switch_at(level), names.get(one, one)) for level, one in enumerate(around)]
        site.put(host, tuple(reversed(named)))


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


def _above(leaves: set[str], beside: Mapping[str, set[str]]) -> dict[str, str]:
    """The switch above each switch, level by level, while each has one and these are several."""
    above: dict[str, str] = {}
    level, known = leaves, set(leaves)
    for _ in range(_MOST_LEVELS):
        up = {switch: beside.get(switch, set()) - known for switch in level}
        over = {next(iter(those)) for those in up.values() if len(those) == 1}
        if any(len(those) != 1 for those in up.values()) or len(over) < 2:
            return above
        above.update({switch: next(iter(those)) for switch, those in up.items()})
        known |= over
        level = over
    return above
