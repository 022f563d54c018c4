"""The RFC 49 key of nodes from their hwloc XML, for programs; ``treepool encode`` does the same."""

from __future__ import annotations

import socket
from typing import Any, Mapping, Optional, Sequence, Union

from treepool.discovery import key, libhwloc
from treepool.discovery.describe import Describer
from treepool.discovery.key import Encoded, Nodes
from treepool.errors import InvalidHardware, InvalidHostlist
from treepool.rfc import hostlist
from treepool.rfc.findings import shown
from treepool.rfc.rset import ResourceSet


def encode(
    xml: Optional[Mapping[str, Union[str, bytes]]] = None,
    R: Union[ResourceSet, Mapping[str, Any], str, None] = None,
    levels: Optional[Sequence[str]] = None,
    properties: bool = False,
) -> Encoded:
    """An R with the key of nodes whose hwloc *xml* is given by host, or of this machine.

    Without *R* the hosts get the ranks from 0 in their order. With *R* its nodes of these names get
    a key, and the others stay as they are. *levels* are the localities to write, such as
    ``["socket", "l3"]`` (``treepool encode --help`` lists them); by default socket and numa, where
    they add information, and what separates GPUs. With *properties* R gets those of the hardware.

    ``Encoded.R`` is the result, ``warnings`` what looks wrong. Raises InvalidHardware, which names
    the host, and InvalidR or InvalidKey.
    """
    if isinstance(levels, str):
        raise TypeError(f"levels are several names, such as [{levels!r:.60}], not one text")
    if R is not None and not isinstance(R, ResourceSet):
        R = ResourceSet.read(R)
    if xml is None:
        xml = {socket.gethostname(): libhwloc.local_xml()}
    if not isinstance(xml, Mapping):
        raise TypeError(f"the XML of each host is needed by its name, not a {type(xml).__name__}")
    describer = Describer(levels)
    hosts = tuple(xml) if R is None else R.hosts
    ranks = range(len(hosts)) if R is None else R.ranks
    rank_of = dict(zip(hosts, ranks))
    nodes = []
    for host, text in xml.items():
        if host not in rank_of:
            raise InvalidHardware(f"R has no host {shown(host)}")
        _check_one_host(host)
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"{host}: XML is a text or bytes, not a {type(text).__name__}")
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if b"<" not in data:
            raise InvalidHardware(f"{host}: is not XML (pass the text of a file, not its name)")
        nodes.append(Nodes(1 << rank_of[host], describer.of_xml(data, host)))
    if R is not None:
        return key.encode_into(R, nodes, properties)
    return key.encode_new(nodes, hosts, properties)


def _check_one_host(name: str) -> None:
    """Raise InvalidHardware unless *name* is one host in a hostlist, too, as R has it."""
    try:
        if hostlist.decode(name) == [name]:
            return
    except InvalidHostlist:
        pass
    raise InvalidHardware(f"{shown(name)} is not the name of one host")
