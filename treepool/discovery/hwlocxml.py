"""A safe reader of hwloc XML of any version: limits on its size, and errors for other files.

hwloc 1 (``hwloc.dtd``: sockets, caches by depth, NUMA nodes around their cores), 2 and 3
(``hwloc2.dtd``: NUMA nodes beside their cores) all become the same tree of ``Object``. ``hwloc.py``
interprets the objects.

What differs between versions of hwloc is in this file alone, which makes it long.
"""

from __future__ import annotations

from typing import Callable, Iterator, Optional, Union

import attrs

from treepool.errors import InvalidHardware
from treepool.rfc.quote import printable, quoted, shortened

#: Longest XML accepted, in bytes. Descriptions of today's largest nodes have less than 1 MiB.
MAX_XML = 32 << 20

#: The latest version of the format that is known.
KNOWN = 3

#: Most elements, and their deepest nesting.
MAX_ELEMENTS = 1_000_000
MAX_DEPTH = 128

#: Highest number of a PU or NUMA node; Linux knows at most 8,192 CPUs.
MAX_INDEX = 1 << 16

#: Most objects in a matrix of distances.
MAX_MATRIX = 1024

#: hwloc's types of memory: NUMA nodes, and the caches in front of them.
MEMORY = ("NUMANode", "MemCache")

_TYPES = {"Socket": "Package", "Node": "NUMANode"}


@attrs.define(eq=False)
class Object:
    """One hwloc object: ``type`` in hwloc 2's names, its attributes, infos and children.

    ``cpuset`` is the bitmask of PU numbers, None for an object without a cpuset (I/O objects).
    """

    type: str
    attributes: dict[str, str]
    parent: Optional[Object] = attrs.field(default=None, repr=False)
    infos: dict[str, str] = attrs.field(factory=dict)
    children: list[Object] = attrs.field(factory=list)
    cpuset: Optional[int] = None

    @property
    def name(self) -> str:
        """The name attribute, "" if there is none."""
        return self.attributes.get("name", "")

    @property
    def subtype(self) -> str:
        """What kind of its type it is, such as "HBM" or "NVSwitch"; "" if hwloc does not say.

        An info in hwloc 1, an attribute later.
        """
        return self.attributes.get("subtype", "") or self.infos.get("Type", "")

    @property
    def backend(self) -> str:
        """The part of hwloc that found an OS device, such as "CUDA": its subtype in hwloc 3."""
        return self.infos.get("Backend", "") or self.subtype

    @property
    def os_index(self) -> int:
        """The operating system's number, -1 if there is none."""
        return index(self.attributes.get("os_index", ""))

    def walk(self) -> Iterator[Object]:
        """This object and all below it, depth first, in the order of the XML."""
        stack = [self]
        while stack:
            here = stack.pop()
            yield here
            stack.extend(reversed(here.children))

    def around(self) -> Iterator[Object]:
        """The enclosing objects, the nearest first."""
        here = self.parent
        while here is not None:
            yield here
            here = here.parent

    def above(self, *types: str) -> Optional[Object]:
        """The nearest enclosing object of one of *types*."""
        return next((here for here in self.around() if here.type in types), None)


#: The cores of an object that has a cpuset, as bitmask; 0 for None.
CoresOf = Callable[[Optional[Object]], int]


@attrs.define
class Distances:
    """One matrix: its name, the keys of its objects, and the values row by row.

    A key is ``TYPE:NUMBER``; the number is the object's gp_index if ``by_gp``, else its os_index.
    ``kind`` is hwloc's: bit 4 means latencies, bit 8 bandwidths.
    """

    name: str
    by_gp: bool
    objects: list[str] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)
    kind: int = 0


@attrs.define
class MemoryValue:
    """A memory attribute (hwloc's ``memattr``) of a NUMA node, by gp_index.

    ``initiator`` is the cpuset (bitmask) from which the node has it, 0 if it is not known.
    """

    name: str
    target: str
    value: int
    initiator: int = 0


@attrs.define
class CpuKind:
    """PUs (bitmask) of one kind; ``efficiency`` orders kinds, -1 if it is not known."""

    cpuset: int
    efficiency: int
    infos: dict[str, str] = attrs.field(factory=dict)


@attrs.define
class Topology:
    """The contents of one XML: the root object, matrices, memory attributes, kinds of CPUs."""

    root: Object
    distances: list[Distances] = attrs.field(factory=list)
    memory_values: list[MemoryValue] = attrs.field(factory=list)
    cpu_kinds: list[CpuKind] = attrs.field(factory=list)
    #: The first number of the version of the format; 0 in hwloc 1.
    version: int = 0


def parse(xml: Union[str, bytes], source: str = "hwloc XML") -> Topology:
    """The topology in *xml*; *source* names it in messages.

    Raises InvalidHardware, with the line, if *xml* is not valid hwloc XML: another document,
    entities, or more of anything than the limits allow.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    data = xml.encode("utf-8", "surrogatepass") if isinstance(xml, str) else xml
    if len(data) > MAX_XML:
        raise InvalidHardware(f"{source}: {len(data) >> 20} MiB of XML is more than a node needs")
    builder = _Builder(source)
    parser = DefusedXMLParser(target=builder, forbid_dtd=False)
    try:
        parser.feed(data)
        parser.close()
    except ParseError as e:
        if not builder.elements and not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            raise InvalidHardware(f"{source}: {_no_xml(data)}") from None
        line, column = e.position
        what = str(e).split(":")[0]
        raise InvalidHardware(f"{source}: line {line} column {column + 1}: {what}") from None
    except DefusedXmlException as e:
        raise InvalidHardware(f"{source}: {type(e).__name__}: refused") from None
    except (ValueError, LookupError) as e:
        if isinstance(e, InvalidHardware):
            raise
        raise InvalidHardware(f"{source}: not XML that can be read: {e}") from None
    return builder.topology()


#: How files begin that are taken for XML, and what to do about it.
_OTHER_FILES = (
    (b"\x1f\x8b", "is compressed by gzip: unpack it first"),
    (b"BZh", "is compressed by bzip2: unpack it first"),
    (b"\xfd7zXZ", "is compressed by xz: unpack it first"),
    (b"Machine", "is the text that lstopo prints: write XML with lstopo FILE.xml"),
    (b"{", "is JSON, not XML of hwloc"),
)


def _no_xml(data: bytes) -> str:
    """What *data* is, in which no XML element begins."""
    start = data.lstrip()
    if not start:
        return "is empty"
    for begin, what in _OTHER_FILES:
        if start.startswith(begin):
            return what
    return f"is not XML: it begins with {quoted(start[:20].decode('utf-8', 'replace'))}"


class _Builder:
    """The target of the XML parser: keeps known elements, skips others, counts all of them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.root: Optional[Object] = None
        self.here: Optional[Object] = None
        self.path: list[str] = []
        self.elements = 0
        self.version = 0
        self.distances: list[Distances] = []
        self.memory_values: list[MemoryValue] = []
        self.cpu_kinds: list[CpuKind] = []
        self.memory_name = ""
        self.kind = ""
        self.text: list[str] = []

    # -- called by the parser

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self.elements += 1
        if self.elements > MAX_ELEMENTS or len(self.path) >= MAX_DEPTH:
            raise self.error("too many elements, or nested too deep, for a node")
        if not self.path and tag != "topology":
            raise self.error(f"the document is <{printable(shortened(tag))}>, not <topology>")
        if not self.path:
            self.version = number(attributes.get("version", "").partition(".")[0])
        self.path.append(tag)
        self.text = []
        if tag == "object":
            self.object(attributes)
        elif tag == "info" and self.root is not None and self.path[-2] in ("object", "topology"):
            # hwloc 3 writes what it knows of the whole machine at the end, below no object.
            holder = self.here or self.root
            holder.infos[attributes.get("name", "")] = attributes.get("value", "")
        elif tag == "info" and self.path[-2] == "cpukind":
            self.cpu_kinds[-1].infos[attributes.get("name", "")] = attributes.get("value", "")
        elif tag == "cpukind":
            cpuset = self.bitmap({"cpuset": "0x0", **attributes}, "cpuset")
            self.cpu_kinds.append(CpuKind(cpuset, index(attributes.get("forced_efficiency", ""))))
        elif tag in ("distances2", "distances2hetero"):
            self.kind = attributes.get("type", "")
            by_gp = tag == "distances2hetero" or attributes.get("indexing") == "gp"
            kind = number(attributes.get("kind", ""))
            self.distances.append(Distances(attributes.get("name", ""), by_gp, kind=kind))
        elif tag == "memattr":
            self.memory_name = attributes.get("name", "")
        elif tag == "memattr_value" and attributes.get("target_obj_type") == "NUMANode":
            self.memory_values.append(
                MemoryValue(
                    self.memory_name,
                    attributes.get("target_obj_gp_index", ""),
                    number(attributes.get("value", "")),
                    self.bitmap({"initiator_cpuset": "0x0", **attributes}, "initiator_cpuset"),
                )
            )

    def data(self, text: str) -> None:
        """Text between tags."""
        if self.path and self.path[-1] in ("indexes", "u64values"):
            self.text.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        self.path.pop()
        if tag == "object" and self.here is not None:
            self.here = self.here.parent
        elif tag in ("indexes", "u64values") and self.distances:
            words = "".join(self.text).split()
            self.text = []
            matrix = self.distances[-1]
            if tag == "u64values":
                matrix.values.extend(number(word) for word in words)
            else:
                prefix = f"{self.kind}:" if self.kind else ""
                matrix.objects.extend(prefix + word for word in words)
            if len(matrix.objects) > MAX_MATRIX or len(matrix.values) > MAX_MATRIX**2:
                raise self.error(f"a matrix is about more than {MAX_MATRIX} objects")

    def close(self) -> None:
        """The document ends."""

    # -- objects

    def object(self, attributes: dict[str, str]) -> None:
        """An object begins inside ``here``."""
        kind = attributes.get("type", "")
        kind = _TYPES.get(kind, kind)
        if kind == "Cache":
            kind = f"L{attributes.get('depth', '')}Cache"
        new = Object(kind, attributes, self.here)
        if "cpuset" in attributes:
            new.cpuset = self.bitmap(attributes, "cpuset")
        if self.here is not None:
            self.here.children.append(new)
        elif self.root is not None:
            raise self.error("has more than one outermost object")
        else:
            self.root = new
        self.here = new

    def bitmap(self, attributes: dict[str, str], name: str) -> int:
        """The bitmask in an attribute, in hwloc's format: 32-bit words in hex, highest first."""
        text = attributes[name]
        try:
            return bitmap(text)
        except ValueError:
            raise self.error(f"{name} {quoted(text)} is not a bitmap of hwloc") from None

    def topology(self) -> Topology:
        """The topology, after the whole document is read."""
        root = self.root
        if root is None or root.type != "Machine":
            raise InvalidHardware(f"{self.source}: has no object of type Machine")
        if not root.cpuset:
            raise InvalidHardware(f"{self.source}: the machine has no cpuset")
        for name in ("allowed_cpuset", "online_cpuset", "allowed_nodeset"):
            if name in root.attributes:
                self.bitmap(root.attributes, name)
        return Topology(root, self.distances, self.memory_values, self.cpu_kinds, self.version)

    def error(self, message: str) -> InvalidHardware:
        return InvalidHardware(f"{self.source}: {message}")


def bitmap(text: str) -> int:
    """The bitmask of hwloc's text for a set, such as ``0x0000ffff,,0x1``.

    The text has 32-bit words, the highest first; an empty word is zero. Raises ValueError for other
    text, infinite sets (``0xf...f``), and numbers of MAX_INDEX and above.
    """
    words = text.split(",")
    if len(words) * 32 > MAX_INDEX:
        raise ValueError(text)
    mask = 0
    for word in words:
        value = int(word, 16) if word else 0
        if not 0 <= value < 1 << 32 or "_" in word:
            raise ValueError(text)
        mask = mask << 32 | value
    return mask


def index(text: str) -> int:
    """The number of an object in *text*, -1 if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def number(text: str) -> int:
    """The number in *text*, 0 if it is not a number. hwloc 3 writes sizes with a unit, KiB."""
    text = text[:-3] if text.endswith("KiB") else text
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
