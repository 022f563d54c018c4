"""The key of fake resources: what flux-core's ``fake-resources.amend-r`` calls, from hwloc XML.

It is named as ``treepool.flux.amend:amend`` where Flux's Python can import treepool, otherwise by
the path of this file. Imports no flux.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Optional


def amend(R: dict[str, Any], hwloc_xml: Optional[str] = None) -> dict[str, Any]:
    """*R* with the key of a node with this *hwloc_xml* for all its ranks; without, *R* as it is.

    Raises InvalidHardware or InvalidR.
    """
    if hwloc_xml is None:
        return R
    if "treepool" not in sys.modules:  # this file was named by its path
        here = Path(__file__)
        home = (here.parent / os.readlink(here) if here.is_symlink() else here).parents[2]
        sys.path[:0] = [str(home), str(home / "libraries")]
    from treepool.discovery.describe import Describer
    from treepool.discovery.key import Nodes, encode_into
    from treepool.rfc.rset import ResourceSet

    known = ResourceSet.read(R)
    node = Describer().of_xml(hwloc_xml.encode())
    return encode_into(known, [Nodes(known.mask, node)]).R.to_dict()
