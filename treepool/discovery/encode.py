"""The RFC 49 key of nodes from their hwloc XML, for programs; ``treepool encode`` does the same."""

from __future__ import annotations

import socket
from typing import Mapping, Optional, Sequence, Union

from treepool.discovery import key, libhwloc
from treepool.discovery.describe import Describer
from treepool.discovery.key import Encoded, Nodes
from treepool.errors import InvalidHardware
from treepool.rfc.findings import shown
from treepool.rfc.rset import ResourceSet


def encode(
    xml: Optional[Mapping[str, Union[str, bytes]]] = None,
    R: Optional[ResourceSet] = None,
    levels: Optional[Sequence[str]] = None,
    properties: bool = False,
) -> Encoded:
    """An R with the key of nodes whose hwloc *xml* is given by host, or of this machine.

    Without *R* the hosts get the ranks from 0 in their order. With *R* its nodes of these names get
    a key, and the others stay as they are. *levels* are the localities to write (``--levels``),
    and with *properties* R gets those of the hardware. ``Encoded.R`` is the result, ``warnings``
    what looks wrong. Raises InvalidHardware, which names the host.
    """
    if xml is None:
        xml = {socket.gethostname(): libhwloc.local_xml()}
    describer = Describer(levels)
    hosts = tuple(xml) if R is None else R.hosts
    ranks = range(len(hosts)) if R is None else R.ranks
    rank_of = dict(zip(hosts, ranks))
    nodes = []
    for host, text in xml.items():
        if host not in rank_of:
            raise InvalidHardware(f"R has no host {shown(host)}")
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        nodes.append(Nodes(1 << rank_of[host], describer.of_xml(data, host)))
    if R is not None:
        return key.encode_into(R, nodes, properties)
    return key.encode_new(nodes, hosts, properties)
