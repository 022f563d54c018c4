"""This machine as hwloc XML, from hwloc's C library (2.1 or newer) or as saved in HWLOC_XMLFILE.

This module takes the same steps as flux-core (src/common/librlist/rhwloc.c), and uses the same
environment variables (FLUX_HWLOC_XMLFILE, HWLOC_XMLFILE; and HWLOC_FSROOT, which hwloc itself
reads). Cores therefore have the ids that ``flux R encode --local`` gives them.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import Any, Optional

from treepool.discovery.hwlocxml import MAX_XML
from treepool.errors import InvalidHardware
from treepool.rfc.findings import shown

#: The library of hwloc 2. Other versions are searched for, which takes longer.
_USUAL = "libhwloc.so.15"

#: The oldest API with all functions called here, as hwloc_get_api_version() returns it: 2.1.
_OLDEST = 0x20100

#: The advice if there is no such library.
_NEEDED = "hwloc 2.1 or newer is needed: install its library (libhwloc15, hwloc-libs or hwloc)"

_CANNOT = "hwloc cannot read this machine"

#: Values of hwloc.h: HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED and ..._IS_THISSYSTEM,
#: HWLOC_TYPE_FILTER_KEEP_IMPORTANT, HWLOC_ALLOW_FLAG_ALL, HWLOC_CPUBIND_PROCESS,
#: HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST.
_INCLUDE_DISALLOWED, _IS_THISSYSTEM = 1, 2
_KEEP_IMPORTANT = 3
_ALLOW_ALL = 1
_CPUBIND_PROCESS = 1
_BLACKLIST = 1

#: The variables that name the file of a saved machine, "-" for stdin; the first counts.
_SAVED = ("FLUX_HWLOC_XMLFILE", "HWLOC_XMLFILE")

#: hwloc's components that ask a vendor's library about GPUs.
_VENDORS = (b"cuda", b"nvml", b"rsmi", b"levelzero", b"opencl", b"gl")


def local_xml(whole: bool = False) -> bytes:
    """The XML of this machine, restricted to the CPUs that this process may use.

    With *whole* it has all CPUs that are online, and all GPUs on the PCI bus. The vendors'
    libraries are then not used, because they may only report the GPUs that the environment makes
    visible. Raises InvalidHardware, with what to install, if there is no usable library.
    """
    variable = saved()
    try:
        return _local_xml(whole, _read(variable) if variable else None)
    except InvalidHardware as e:
        if not variable:
            raise
        raise InvalidHardware(f"{e} ({variable}={shown(os.environ[variable])})") from None


def saved() -> Optional[str]:
    """The variable that names the file of a saved machine, to be read instead of this one."""
    return next((name for name in _SAVED if os.environ.get(name)), None)


def _read(variable: str) -> bytes:
    """The XML in the file that *variable* names.

    It is read here because hwloc reads a file without end to the end, and without a word reads this
    machine instead where a file is missing.
    """
    path = os.environ[variable]
    try:
        with open("/dev/stdin" if path == "-" else path, "rb") as file:
            xml = file.read(MAX_XML + 1)
    except OSError as e:
        raise InvalidHardware(f"{_CANNOT}: topology_set_xml: {e.strerror}") from None
    if len(xml) > MAX_XML:
        raise InvalidHardware(f"{_CANNOT}: more than {MAX_XML >> 20} MiB of XML")
    return xml


def _local_xml(whole: bool, xml: Optional[bytes]) -> bytes:
    library = _library()
    topology = ctypes.c_void_p()
    _call(library, "topology_init", ctypes.byref(topology))
    try:
        _choose(library, topology, whole, xml)
        _call(library, "topology_load", topology)
        if whole:
            _call(library, "topology_allow", topology, None, None, ctypes.c_ulong(_ALLOW_ALL))
        else:
            _restrict_to_binding(library, topology)
        return _exported(library, topology)
    finally:
        library.hwloc_topology_destroy(topology)


def _library() -> Any:
    why = ""
    for name in (_USUAL, None):
        # In a process with Flux's bindings this finds the library that Flux uses.
        found = name or ctypes.util.find_library("hwloc")
        try:
            library = _loaded(found) if found else None
            if library is not None and library.hwloc_get_api_version() >= _OLDEST:
                library.hwloc_bitmap_alloc.restype = ctypes.c_void_p
                return library
        except AttributeError:  # another library of that name
            continue
        except OSError as e:  # missing, or what it needs is
            why = why or f": {shown(str(e))}"
    raise InvalidHardware(_NEEDED + why)


def _loaded(name: str) -> Any:
    # With global symbols: hwloc's plugins, which distributions package apart, are not linked to it.
    return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL, use_errno=True)


def _call(library: Any, name: str, *arguments: Any) -> None:
    if getattr(library, f"hwloc_{name}")(*arguments) < 0:
        why = os.strerror(ctypes.get_errno())
        raise InvalidHardware(f"{_CANNOT}: {name}: {why}")


def _choose(library: Any, topology: ctypes.c_void_p, whole: bool, xml: Optional[bytes]) -> None:
    """Configure what hwloc loads: *xml*, or this machine."""
    flags = 0
    if whole:
        flags |= _INCLUDE_DISALLOWED
        for name in _VENDORS:
            # This call fails for a component that this hwloc does not have; that is not an error.
            library.hwloc_topology_set_components(topology, ctypes.c_ulong(_BLACKLIST), name)
    if xml is not None:
        _call(library, "topology_set_xmlbuffer", topology, xml + b"\0", len(xml) + 1)
        of_flux = saved() == "FLUX_HWLOC_XMLFILE"
        if of_flux and "FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM" not in os.environ:
            flags |= _IS_THISSYSTEM
    _call(library, "topology_set_io_types_filter", topology, _KEEP_IMPORTANT)
    _call(library, "topology_set_flags", topology, ctypes.c_ulong(flags))


def _restrict_to_binding(library: Any, topology: ctypes.c_void_p) -> None:
    bound = ctypes.c_void_p(library.hwloc_bitmap_alloc())
    try:
        # For a machine other than this one, hwloc answers with all CPUs.
        _call(library, "get_cpubind", topology, bound, _CPUBIND_PROCESS)
        _call(library, "topology_restrict", topology, bound, ctypes.c_ulong(0))
    finally:
        library.hwloc_bitmap_free(bound)


def _exported(library: Any, topology: ctypes.c_void_p) -> bytes:
    buffer, size = ctypes.c_void_p(), ctypes.c_int()
    at, length = ctypes.byref(buffer), ctypes.byref(size)
    _call(library, "topology_export_xmlbuffer", topology, at, length, ctypes.c_ulong(0))
    try:
        return ctypes.string_at(buffer, size.value).rstrip(b"\0")
    finally:
        library.hwloc_free_xmlbuffer(topology, buffer)
