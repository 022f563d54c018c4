"""Which hwloc XML counts as that of one kind of node."""

from __future__ import annotations

import re

from hwlocfile import Made
from treepool.discovery.describe import digest

KIB, GIB = 1 << 10, 1 << 30


def larger(xml: bytes, by: int) -> bytes:
    """*xml* of a node that has *by* bytes more of each memory."""
    return re.sub(rb'(local_memory=)"(\d+)"', lambda m: b'%s"%d"' % (m[1], int(m[2]) + by), xml)


def test_nodes_whose_memory_differs_by_some_kib_are_of_one_kind():
    xml = Made().xml().encode()
    assert larger(xml, 12 * KIB) != xml
    assert digest(larger(xml, 12 * KIB)) == digest(xml)
    assert digest(larger(xml, 2 * GIB)) != digest(xml)


def test_sizes_with_a_unit_as_in_hwloc_3_count_alike():
    plain = b'<object type="NUMANode" local_memory="137438953472"/>'
    assert digest(plain) == digest(b'<object type="NUMANode" local_memory="134217728KiB"/>')
