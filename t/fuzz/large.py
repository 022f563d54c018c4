"""Inputs of up to 1 MiB that ask for too much: time, memory, depth, digits.

``LARGE[target][name]`` makes the bytes. All are at most 1 MiB, the bound below which no input may
make more work than ``measure.py`` says, nor take more than 200 MiB of memory.
"""

import json
from functools import partial

from fuzz.seeds import LIST_TEXT, SNAPSHOT, VECTORS, jobspec_text, small_R
from treepool.rfc import idset

MIB = 1 << 20


def _filled(head, piece, tail="", separator="", most=MIB):
    """*head*, as many *pieces* as there is room for (called with their number if callable)."""
    parts, size, i = [], len(head) + len(tail), 0
    while True:
        text = piece(i) if callable(piece) else piece
        size += len(text) + len(separator)
        if size > most:
            return head + separator.join(parts) + tail
        parts.append(text)
        i += 1


def _with(document, value, *path):
    """A copy of JSON *document* with *value* at *path*."""
    copy = json.loads(json.dumps(document))
    here = copy
    for token in path[:-1]:
        here = here[token]
    here[path[-1]] = value
    return copy


def _window(number, hosts="n1"):
    """JSON text of a window."""
    return f'{{"name":"w{number}","hosts":"{hosts}","start":1,"end":2}}'


def _holding(document, path, piece, separator=",", most=MIB):
    """JSON text of *document* with an array, object or string of *pieces* at *path*."""
    outer = json.dumps(_with(document, "@HERE@", *path))
    head, tail = outer.split('"@HERE@"')
    opening, closing = {",": "[]", ":": "{}", "": '""'}[separator]
    joint = "" if separator == "" else ","
    return _filled(head + opening, piece, closing + tail, joint, most)


IDSETS = {
    "every other id": lambda: _filled("", lambda i: str(2 * i), "", ","),
    "up to 2^32": lambda: "0-4294967295",
    "the largest id": lambda: "4194304",
    "ranges": lambda: _filled("", lambda i: f"{3 * i}-{3 * i + 1}", "", ","),
    "far apart": lambda: ",".join(str(i * 60_000) for i in range(69)),
    "digits": lambda: "9" * MIB,
    "zeros": lambda: "0" * MIB,
    "commas": lambda: "," * MIB,
}

HOSTLISTS = {
    "billions": lambda: "h[0-4294967295]",
    "a product of billions": lambda: "h[0-9999][0-9999][0-9999]",
    "the most hosts": lambda: "h[1-4194304]",
    "the most hosts, often": lambda: _filled("", "h[1-60000]", "", ","),
    "the longest names": lambda: _filled("", "h" * 1000 + "[1-2000]", "", ","),
    "wide ids, often": lambda: _filled("", "h[" + "0" * 900 + "1-90000]", "", ","),
    "many pairs of brackets": lambda: "h" + "[0]" * (MIB // 3),
    "doubling to the limit": lambda: "h" + "[0-1]" * 22,
    "names": lambda: _filled("", lambda i: f"h{i}", "", ","),
    "small brackets": lambda: _filled("", lambda i: f"h[{i}]", "", ","),
    "open brackets, parted": lambda: "h[1]," + "[1," * (MIB // 3 - 2),
    "commas": lambda: "," * MIB,
    "digits": lambda: "h[" + "9" * (MIB - 3) + "]",
}

COUNTS = {
    "to the limit": lambda: "1-4611686018427387904",
    "idset of everything": lambda: "1-4611686018427387904,4611686018427387904",
    "ids": lambda: _filled("", lambda i: str(2 * i + 1), "", ",", 400_000),
    "too many ids": lambda: _filled("", lambda i: str(2 * i + 1), "", ","),
    "huge power": lambda: "2-4611686018427387904:4611686018427387904:^",
    "huge factor": lambda: "1-4611686018427387904:4611686018427387904:*",
    "digits": lambda: "9" * MIB,
}

_COUNT_DICT = {"min": 2, "max": 1 << 62, "operator": "^", "operand": 1 << 62}

SHAPES = {
    "1 MiB": lambda: "s" * MIB,
    "vertices": lambda: _filled("slot=1/[", "core", "]", ";", 65_536),
    "open brackets": lambda: "[" * 65_536,
    "depth": lambda: "a/" * 32_000 + "b",
    "braces": lambda: "slot=1/a{b:" + "{c:" * 20_000,
    "labels": lambda: _filled("slot=1/[", lambda i: f"a{{label:l{i}}}", "]", ";", 65_536),
    "slots": lambda: _filled("[", "slot/a", "]", ";", 65_536),
    "a number": lambda: "slot=1/a{b:" + "9" * 65_000 + "}",
    "ids": lambda: _filled("slot=", lambda i: str(2 * i + 1), "/core", ",", 65_536),
    "backslashes": lambda: 'slot=1/"' + "\\\\" * 32_000,
    "surrogates": lambda: 'slot=1/"' + "\\ud800" * 10_000 + '"',
    "blanks": lambda: " " * 65_000 + "x",
}

DOCUMENTS = {
    "deep arrays": lambda: "[" * MIB,
    "deep objects": lambda: '{"a":' * (MIB // 5),
    "deep and wide": lambda: _filled("[", "[" * 60 + "]" * 60, "]", ","),
    "an integer of 4300 digits": lambda: '{"version": ' + "9" * 4_300 + "}",
    "integers of 4300 digits": lambda: _filled("[", "9" * 4_300, "]", ","),
    "a fraction of 1 MiB": lambda: "0." + "9" * (MIB - 2),
    "empty arrays": lambda: _filled("[", "[]", "]", ","),
    "keys": lambda: _filled("{", lambda i: f'"{i}":1', "}", ","),
    "one key, often": lambda: _filled("{", '"a":1', "}", ","),
    "escapes": lambda: '"' + "\\u0000" * 170_000 + '"',
    "surrogates": lambda: '{"' + "\\ud800" * 170_000 + '": 1}',
    "colliding": lambda: _filled("{", lambda i: f'"{i * ((1 << 61) - 1)}":1', "}", ","),
}

_R = small_R()
_JOB = json.loads(jobspec_text("slot=1/core"))
_SYSTEM = ("attributes", "system")
_DOMAIN = lambda i: f'{{"cores":"{i}"}}'  # noqa: E731
_ENTRY = lambda i: f'{{"rank":"{i}","children":{{"core":"0-{i % 999 + 1}"}}}}'  # noqa: E731
_DIFFERENT = lambda i: f'{{"rank":"{i}","children":{{"core":"0-{i + 1}"}}}}'  # noqa: E731
_WIDE = lambda i: f'{{"rank":"{1_048_575 - i}","children":{{"core":"{i + 4_000_000}"}}}}'  # noqa: E731
_TOPO = ("scheduling", "children", 0, "topo")
_DIGEST = next(iter(_R["scheduling"]["links"]))


def _nodes(ranks, core="0-3", **execution):
    """The text of an R of flat nodes; *execution* is more JSON text, or other, by key."""
    number = idset.size(idset.decode(ranks))
    parts = {
        "R_lite": f'[{{"rank":"{ranks}","children":{{"core":"{core}"}}}}]',
        "nodelist": f'["h[0-{number - 1}]"]' if number > 1 else '["h"]',
        **execution,
    }
    text = ",".join(f'"{key}":{value}' for key, value in parts.items())
    return f'{{"version":1,"execution":{{{text}}}}}'


def _kinds(ranks, domains):
    """The text of an R of so many nodes that all differ, with one topo of so many domains."""
    r_lite = "[" + ",".join(map(_DIFFERENT, range(ranks))) + "]"
    topo = ",".join(_DOMAIN(i) for i in range(domains))
    key = f'{{"ranks":"0-{ranks - 1}","topo":{{"numa":[{topo}]}}}}'
    R = _nodes(f"0-{ranks - 1}", R_lite=r_lite)
    return f'{R[:-1]},"scheduling":{{"writer":"TreePool","children":[{key}]}}}}'


RS = {
    "nodes that all differ": lambda: _kinds(500, 80),
    "nodes that all differ, more domains": lambda: _kinds(3_000, 40_000),
    "entries": lambda: _nodes(
        "0-17999", R_lite="[" + ",".join(_ENTRY(i) for i in range(18_000)) + "]"
    ),
    "entries of wide sets": lambda: _holding(_R, ("execution", "R_lite"), _WIDE),
    "one entry, often": lambda: _holding(
        _R, ("execution", "R_lite"), '{"rank":"0","children":{"core":"0"}}'
    ),
    "properties": lambda: _holding(_R, ("execution", "properties"), lambda i: f'"p{i}":"0-2"', ":"),
    "properties of wide sets": lambda: _holding(
        _R, ("execution", "properties"), lambda i: f'"p{i}":"{4_194_303 - i}"', ":"
    ),
    "hosts": lambda: _holding(_R, ("execution", "nodelist"), lambda i: f'"h{i}"'),
    "host ranges": lambda: _holding(_R, ("execution", "nodelist"), '"h[0-4000000]"'),
    "keys": lambda: _holding(_R, ("execution",), lambda i: f'"k{i}":1', ":"),
    "properties of all ranks": lambda: _nodes(
        "0-7999", properties=_filled("{", lambda i: f'"p{i}":"0-7999"', "}", ",", MIB - 200)
    ),
    "properties of one rank each": lambda: _nodes(
        "0-8999", properties=_filled("{", lambda i: f'"p{i}":"{i % 9000}"', "}", ",", MIB - 200)
    ),
    "properties of ranks with gaps": lambda: _nodes(
        ",".join(f"{i}-{i + 9}" for i in range(0, 8800, 11)),
        properties=_filled(
            "{", lambda i: f'"p{i}":"{i % 799 * 11}-{i % 799 * 11 + 9}"', "}", ",", MIB - 40_000
        ),
    ),
    "properties of one rank beside a far one": lambda: _nodes(
        "0,1048575", properties=_filled("{", lambda i: f'"p{i}":"0"', "}", ",", MIB - 200)
    ),
    "cores without number": lambda: _nodes("0-99999", core="0-4194303"),
    "a rank above the limit": lambda: _nodes("4194304"),
    "far ranks": lambda: _nodes(",".join(str(i) for i in range(9, 1_048_576, 33))),
    "a million ranks": lambda: _nodes("0-1048575"),
    "half a million ranks with gaps": lambda: _nodes(
        ",".join(f"{i}-{i + 127}" for i in range(0, 1_048_576, 256))
    ),
    "domains": lambda: _holding(_R, (*_TOPO, "socket"), _DOMAIN, ",", 300_000),
    "more domains": lambda: _holding(_R, (*_TOPO, "socket"), _DOMAIN),
}


_KEY = _R["scheduling"]


def _tables(document, at=()):
    """Large link tables, at path *at* of *document*."""

    def put(path, *more):
        return _holding(document, (*at, *path), *more)

    return {
        "links": lambda: put(("links",), '{"type":"nvlink","gbps":1,"among":["0-127"]}'),
        "among of numbers": lambda: put(("links", 0, "among"), "0"),
        "among of sets": lambda: put(("links", 0, "among"), '"0-127"'),
        "nics": lambda: put(
            ("nics",),
            lambda i: f'{{"name":"n","gpus":"{i % 128}","path":"PIX"}}',
        ),
        "devices": lambda: put(
            ("devices",),
            lambda i: f'{{"model":"m","memory":1,"gpus":"{i % 128}"}}',
        ),
    }


def _fabrics(document, at):
    """Large fabrics, at path *at* of *document*."""

    def put(path, *more):
        return _holding(_with(document, {"s": [{"ranks": "0"}]}, *at), (*at, *path), *more)

    tower = "".join(f'{{"l{i}":[' for i in range(60)) + '{"ranks":"%d"}' + "]}" * 60
    return {
        "switches": lambda: put(("s",), lambda i: f'{{"ranks":"{i}"}}'),
        "empty switches": lambda: put(("s",), "{}"),
        "switches of the same ranks": lambda: put(("s",), '{"ranks":"0-4000000"}'),
        "switches of ranks with gaps": lambda: put(
            ("s",),
            lambda i: '{"ranks":"' + ",".join(str(2 * (i + 99 * j)) for j in range(5000)) + '"}',
        ),
        "a tree of levels": lambda: put(("s",), lambda i: tower % i),
        "switches of each locality": lambda: put((), lambda i: f'"l{i}":[{{"ranks":"{i}"}}]', ":"),
        "names of switches": lambda: put(("s",), lambda i: f'{{"name":"{"x" * 120}{i}"}}'),
        "unknown keys of a switch": lambda: put(("s", 0), lambda i: f'"rank{i}":0', ":"),
    }


def _keys(document, at=()):
    """Large keys, at path *at* of *document*."""

    def put(path, *more):
        return _holding(document, (*at, *path), *more)

    return {
        "domains": lambda: put(("children", 0, "topo", "socket"), _DOMAIN, ",", 300_000),
        "domains that share with the last": lambda: put(
            ("children", 0, "topo", "n"),
            lambda i: f'{{"cores":"{i + 8 if i < 12_000 else 12_007}"}}',
        ),
        "more domains": lambda: put(("children", 0, "topo", "socket"), _DOMAIN),
        "domains that share": lambda: put(("children", 0, "topo", "n"), '{"cores":"0-9"}'),
        "domains of wide sets": lambda: put(
            ("children", 0, "topo", "n"), lambda i: f'{{"cores":"{4_000_000 + i}"}}'
        ),
        "empty domains": lambda: put(("children", 0, "topo", "n"), "{}"),
        "as many domains of memory": lambda: put(
            ("children", 0, "topo", "n"), '{"memory":1}', ",", 13 * 65_000
        ),
        "topos of empty domains": lambda: put(
            ("children",),
            lambda i: f'{{"ranks":"{i}","topo":{{"n":[' + "{}," * 59_999 + "{}]}}",
        ),
        "domains of wrong types": lambda: put(("children", 0, "topo", "n"), "1"),
        "localities": lambda: put(
            ("children", 0, "topo"), lambda i: f'"l{i}":[{{"cores":"{i}"}}]', ":"
        ),
        "localities of wrong types": lambda: put(
            ("children", 0, "topo"), lambda i: f'"l{i}":0', ":"
        ),
        "reserved localities": lambda: put(("children", 0, "topo", "n"), '{"slot":[{}]}'),
        "entries": lambda: put(("children",), lambda i: f'{{"ranks":"{i}","topo":{{}}}}'),
        "entries of wide sets": lambda: put(
            ("children",), lambda i: f'{{"ranks":"{4_194_303 - i}","topo":{{}}}}'
        ),
        "entries of wrong types": lambda: put(("children",), "[]"),
        "storage": lambda: put(("children", 0, "topo", "storage"), '{"path":"/","capacity":1}'),
        "unknown keys of storage": lambda: put(
            ("children", 0, "topo", "storage", 0),
            lambda i: f'"c{i}":0' if i else '"path":"/","capacity":1',
            ":",
        ),
        "unknown keys of an entry": lambda: put(
            ("children", 0), lambda i: f'"rank{i}":0' if i else '"ranks":"0-2","topo":{}', ":"
        ),
        "unknown keys of a domain": lambda: put(
            ("children", 0, "topo"), lambda i: f'"memor{i}":0', ":"
        ),
        "unknown values": lambda: put(("children", 0, "topo", "x"), "[[]]"),
        "storage of wrong types": lambda: put(("children", 0, "topo", "storage"), "0"),
        "allocated": lambda: put(("allocated",), lambda i: f'{{"ranks":"{i % 3}","cores":"{i}"}}'),
        "tables": lambda: put(("links",), lambda i: f'"{i:064x}":{{}}', ":"),
        **_tables(document, (*at, "links", _DIGEST)),
        "site keys": lambda: put(("site",), "[[]]"),
        **_fabrics(document, (*at, "fabric")),
    }


KEYS = _keys(_KEY)

TASKS = {
    "tasks": lambda: _holding(_JOB, ("tasks",), '{"command":["x"],"slot":"y","count":{"total":1}}'),
    "words of a command": lambda: _holding(_JOB, ("tasks", 0, "command"), '"x"'),
    "environment": lambda: _holding(
        _with(_JOB, {"A": "b"}, *_SYSTEM, "environment"),
        (*_SYSTEM, "environment"),
        lambda i: f'"A{i}":"b"',
        ":",
    ),
    "keys": lambda: _holding(_JOB, ("attributes", "user"), lambda i: f'"k{i}":1', ":"),
}


def _constrained(constraints):
    """The text of a jobspec with these constraints."""
    return jobspec_text("slot=1/core", constraints=constraints)


JOBS = {
    "vertices": lambda: _holding(_JOB, ("resources",), '{"type":"core","count":1}'),
    "a deep list": lambda: json.dumps(_with(_JOB, "@", "resources")).replace(
        '"@"', '[{"type":"n","count":1,"with":' * 300 + "0" + "}]" * 300
    ),
    "a count of ids": lambda: json.dumps(_with(_JOB, COUNTS["ids"](), "resources", 0, "count")),
    "huge memory": lambda: jobspec_text("slot=1/[core;memory=4611686018427387904{unit:EiB}]"),
    "a huge duration": lambda: jobspec_text("slot=1/core", duration=10**400),
    "nodes to the limit": lambda: jobspec_text("node=1-4611686018427387904/slot=1+/core"),
    "slots to the limit": lambda: jobspec_text("slot=1-4611686018427387904/node=1+/core"),
    "slots by factors": lambda: jobspec_text("slot=1+:2:*/[core=1;gpu=1]"),
    "slots by powers": lambda: jobspec_text("slot=2+:4611686018427387904:^/core"),
    "products": lambda: jobspec_text(
        "node=4611686018427387904/slot=4611686018427387904/numa=4611686018427387904/"
        "core=4611686018427387904"
    ),
    "numas": lambda: jobspec_text("slot=1/[" + ";".join(["numa/core"] * 2000) + "]"),
    "numas and ranges": lambda: jobspec_text("slot=1-99/[" + ";".join(["numa=1-2/core"] * 9) + "]"),
    "levels": lambda: jobspec_text("slot=1/" + "socket/numa/" * 14 + "core"),
    "one slot per core": lambda: jobspec_text("slot=1-9999:7/core"),
    "ids for slots": lambda: jobspec_text("slot=1,3,7,99,1000,65000/core"),
    "property names": lambda: _constrained({"properties": [f"p{i}" for i in range(100_000)]}),
    "long property names": lambda: _constrained({"properties": ["p" * 900_000]}),
    "hosts": lambda: _constrained({"hostlist": ["h[1-1048576]"]}),
    "hosts, often": lambda: _constrained({"hostlist": ["h[1-4000000]"] * 4000}),
    "ranks": lambda: _constrained({"ranks": ["0-4194304"] * 4000}),
    "or of far ranks": lambda: _constrained({"or": [{"ranks": ["4194304"]}] * 2000}),
    "deep constraints": lambda: json.dumps(_with(_JOB, "@", *_SYSTEM, "constraints")).replace(
        '"@"', '{"not":[' * 300 + "{}" + "]}" * 300
    ),
    "options": lambda: _holding(_JOB, (*_SYSTEM, "treepool"), lambda i: f'"o{i}":1', ":"),
    "a huge bandwidth": lambda: jobspec_text("slot=1/core", treepool={"gpu_link": 10**4000}),
}

TEXTS = {
    "objects": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf">', "<object/>", "</object></topology>"
    ),
    "deep objects": lambda: "<topology>" + "<object>" * 130_000,
    "cores": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf">',
        lambda i: f'<object type="Core"><object type="PU" os_index="{i}" cpuset="0x1"/></object>',
        "</object></topology>",
    ),
    "cores of wide sets": lambda: _filled(
        '<topology><object type="Machine" cpuset="' + "0xffffffff," * 2047 + '0xffffffff">',
        lambda i: (
            f'<object type="Core"><object type="PU" os_index="{i}" '
            f'cpuset="0x1{"," * (i % 2047)}"/></object>'
        ),
        "</object></topology>",
    ),
    "GPUs": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf"><object type="Core"><object type="PU" '
        'os_index="0" cpuset="0x1"/></object>',
        lambda i: (
            f'<object type="PCIDev" pci_busid="0000:{i % 256:02x}:{i // 256 % 32:02x}.0" '
            f'pci_type="0302 [10de:20b0]"><object type="OSDev" name="cuda{i}" subtype="CUDA"/>'
            "</object>"
        ),
        "</object></topology>",
    ),
    "NUMA nodes": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf"><object type="Core"><object type="PU" '
        'os_index="0" cpuset="0x1"/></object>',
        lambda i: f'<object type="NUMANode" os_index="{i}" cpuset="0x{i % 16:x}"/>',
        "</object></topology>",
    ),
    "a long cpuset, closed": lambda: (
        '<topology><object type="Machine" cpuset="0x' + "f" * (MIB - 100) + '"/></topology>'
    ),
    "distances": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf"/><distances2><u64values>', "1 ", "</x>"
    ),
    "words of distances": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf"/>',
        "<distances2><indexes>1</indexes></distances2>",
        "</topology>",
    ),
    "memory attributes": lambda: _filled(
        '<topology><object type="Machine" cpuset="0xf"/><memattr>',
        '<memattr_value target_obj_type="NUMANode"/>',
        "</memattr></topology>",
    ),
    "entities": lambda: (
        '<!DOCTYPE a [<!ENTITY a "'
        + "x" * 1000
        + '">'
        + "".join(f'<!ENTITY a{i} "{"&a;" * 100}">' for i in range(9))
        + "]><topology>&a8;</topology>"
    ),
    "text": lambda: "<topology>" + "x" * (MIB - 10),
}

TABLES = {
    "a wide header": lambda: _filled("", lambda i: f"\tGPU{i}"),
    "a row for everything": lambda: _filled("\tGPU0\n", "GPU0\tX\n"),
    "a matrix": lambda: (
        "\t"
        + "\t".join(f"GPU{i}" for i in range(128))
        + "\n"
        + "\n".join(
            f"GPU{i}\t" + "\t".join("X" if i == j else f"NV{1 + (i * j) % 18}" for j in range(128))
            for i in range(128)
        )
    ),
    "NICs": lambda: (
        "\tGPU0\t" + "\t".join(f"NIC{i}" for i in range(1000)) + "\nGPU0\tX" + "\tPIX" * 1000
    ),
    "lines": lambda: "\n" * MIB,
    "lines of a legend": lambda: _filled("\tGPU0\nGPU0\tX\n", lambda i: f"  NIC{i % 9999}: m\n"),
    "escapes that are long": lambda: ("\x1b[" + "0" * 40) * (MIB // 42),
    "blanks and a header": lambda: "GPU0" + " " * (MIB - 9) + "GPU1",
    "numbers": lambda: _filled("\tGPU0\tCPU Affinity\nGPU0\tX\t", "0-65535", "", ",", 32_000),
}

AMD_TABLES = {
    **DOCUMENTS,
    "a wide header": lambda: _filled("LINK TYPE TABLE:\n", lambda i: f" GPU{i}"),
    "a row for everything": lambda: _filled("LINK TYPE TABLE:\n GPU0\n", "GPU0 SELF\n"),
    "tables": lambda: _filled("", "LINK TYPE TABLE:\nGPU0\nGPU0 SELF\n"),
    "titles of blanks": lambda: _filled("", "=  " * 100 + "a\n"),
    "NUMA nodes": lambda: _filled("", lambda i: f"GPU[{i % 128}]\t\t: (Topology) Numa Node: 7\n"),
    "GPUs": lambda: _filled("[", '{"gpu":0,"links":[]}', "]", ","),
    "links": lambda: _filled(
        '[{"gpu":0,"links":[', '{"gpu":1,"link_type":"XGMI","weight":15}', "]}]", ","
    ),
}

INTEL_TABLES = {
    "a wide header": lambda: _filled("", lambda i: f"GPU {i}|", "CPU Affinity\n"),
    "a row for everything": lambda: _filled("GPU 0|GPU 1|CPU Affinity\n", "GPU 0|S|MDF|0-3\n"),
    "headers": lambda: _filled("", "GPU 0|GPU 1|CPU Affinity\n"),
    "bars": lambda: "|" * MIB,
    "CPUs": lambda: _filled("GPU 0|CPU Affinity\nGPU 0|S|", lambda i: str(2 * i), "", ","),
}

LISTS = {
    "GPUs": lambda: _filled("", lambda i: f"GPU {i}: x\n"),
    "instances": lambda: _filled("GPU 0: x\n", "  MIG 1g.10gb     Device  0: (UUID: MIG-c6d)\n"),
    "blanks": lambda: " " * MIB,
    "blanks before MIG": lambda: LIST_TEXT + "\n" + " " * 900_000 + "MIG",
    "a long profile": lambda: "GPU 0: x\n  MIG " + "1" * 900_000 + " Device 0:",
    "digits": lambda: "GPU " + "1" * (MIB - 4),
}

_SNAPSHOT = json.loads(SNAPSHOT)

SNAPSHOTS = {
    **DOCUMENTS,
    "running": lambda: _holding(
        _SNAPSHOT, ("running",), lambda i: f'{{"job":"r{i}","parts":[["0-2","{i}",""]]}}'
    ),
    "parts": lambda: _holding(_SNAPSHOT, ("other",), '["0-2","0-7","0-3"]'),
    "parts of wide sets": lambda: _holding(_SNAPSHOT, ("other",), '["0-4194303","0",""]'),
    "many nodes, often": lambda: json.dumps(
        {
            **_SNAPSHOT,
            "R": json.loads(_nodes("0-99999", "0-7")),
            "down": "",
            "windows": [],
            "other": [["0-99999", "0", ""]] * 4000,
        }
    ),
    "many nodes, many jobs": lambda: json.dumps(
        {
            **_SNAPSHOT,
            "R": json.loads(_nodes("0-99999", "0-9")),
            "down": "",
            "windows": [],
            "other": [],
            "running": [{"job": f"r{i}", "parts": [["0-99999", str(i), ""]]} for i in range(10)],
        }
    ),
    "pending": lambda: _holding(
        _SNAPSHOT,
        ("pending",),
        lambda i: f'{{"job":"p{i}","user":"u{i}","priority":0,"submit":0,"shape":"slot=1/core"}}',
    ),
    "hosts": lambda: _holding(
        _SNAPSHOT,
        ("pending",),
        lambda i: (
            f'{{"job":"p{i}","user":"u","priority":0,"submit":0,"shape":"slot=1/core",'
            '"constraint":{"hostlist":["h[1-1000000]"]}}'
        ),
    ),
    "queues": lambda: _holding(
        _SNAPSHOT, ("queues",), lambda i: f'"q{i}":{{"parent":"q{i + 1}"}}', ":"
    ),
    "windows": lambda: _holding(_SNAPSHOT, ("windows",), _window),
}

TRACES = {
    "jobs": lambda: _filled("", '{"submit":0,"duration":1,"shape":"slot=1/core"}\n'),
    "blank lines": lambda: " \n" * (MIB // 2),
    "a long shape": lambda: '{"submit":0,"duration":1,"shape":"' + "s" * (MIB - 60) + '"}',
    "a long id": lambda: '{"submit":0,"duration":1,"shape":"s","id":"' + "s" * 900_000 + '"}',
    "keys": lambda: _filled("{", lambda i: f'"k{i}":0', "}", ","),
    "hosts": lambda: _filled(
        "",
        '{"submit":0,"duration":1,"shape":"slot=1/core",'
        '"constraint":{"hostlist":["h[1-1000000]"]}}\n',
    ),
}

VISIBLE = {
    "numbers": lambda: _filled("", lambda i: str(i), "", ","),
    "commas": lambda: "," * MIB,
    "digits": lambda: "9" * MIB,
    "blanks": lambda: " " * MIB,
}

GPUOPTS = {"pairs": lambda: "num=1:" * 170_000, "digits": lambda: "num=" + "9" * (MIB - 4)}


def _json_strings(texts):
    return {name: (lambda make=make: json.dumps(make()[: MIB - 2])) for name, make in texts.items()}


_KEYS_IN_R = {f"key: {name}": make for name, make in _keys(_R, ("scheduling",)).items()}
_VECTORS = json.loads(VECTORS)


def _in_system(make, key):
    """The text of what a jobspec has in ``attributes.system``."""
    found = json.loads(make())["attributes"]["system"][key]
    return json.dumps(found, separators=(",", ":"))


def _graph(number, vertex, around, R=None):
    """The text of an R with Fluxion's key: a node, and *number* vertices besides.

    *vertex* makes the type of the i-th, from 1 on, and more metadata as text; *around* tells the
    vertex that it is in, -1 for none.
    """
    kinds = [("node", '"rank":0'), *(vertex(i) for i in range(1, number + 1))]
    places = [
        f'{{"id":"{i}","metadata":{{"type":"{kind}",{more}}}}}'
        for i, (kind, more) in enumerate(kinds)
    ]
    edges = [
        f'{{"source":"{around(i)}","target":"{i}"}}' for i in range(1, number + 1) if around(i) >= 0
    ]
    graph = f'{{"graph":{{"nodes":[{",".join(places)}],"edges":[{",".join(edges)}]}}}}'
    return (R or _nodes("0"))[:-1] + f',"scheduling":{graph}}}'


def _distinct(number, entry=None):
    """As many nodes of as many kinds, each with a name of its own and perhaps an entry in R."""
    hosts = ",".join(f'"{chr(97 + i % 26)}{i}x"' for i in range(number))
    R = _nodes(f"0-{number - 1}", nodelist=f"[{hosts}]")
    if entry is not None:
        entries = ",".join(map(entry, range(number)))
        R = _nodes(f"0-{number - 1}", nodelist=f"[{hosts}]", R_lite=f"[{entries}]")
    kinds = lambda i: ("node", f'"rank":{i // 2}') if i % 2 == 0 else ("core", f'"id":{i}')  # noqa: E731
    return _graph(2 * number - 1, kinds, lambda i: i - 1 if i % 2 else -1, R)


FLUXION = {
    "cores": lambda: _graph(12_000, lambda i: ("core", f'"id":{i}'), lambda i: 0),
    "sockets": lambda: _graph(
        11_000,
        lambda i: ("core", f'"id":{i}') if i % 2 == 0 else ("socket", f'"id":{i}'),
        lambda i: i - 1 if i % 2 == 0 else 0,
    ),
    "nested": lambda: _graph(
        11_000,
        lambda i: ("core", f'"id":{65_535 - i}') if i % 60 == 0 else (f"box{i % 60}", '"id":1'),
        lambda i: i - 1 if i % 60 != 1 else 0,
    ),
    "a chain": lambda: _graph(11_000, lambda i: ("box", '"id":1'), lambda i: i - 1),
    "itself": lambda: _graph(11_000, lambda i: ("box", '"id":1'), lambda i: i),
    "sockets of several nodes": lambda: _graph(
        10_259,
        lambda i: (
            ("node", f'"name":"n{i}"')
            if i % 1_026 == 0
            else ("socket", f'"id":{i}')
            if i % 2
            else ("core", f'"id":{i}')
        ),
        lambda i: -1 if i % 1_026 == 0 else i // 1_026 * 1_026 if i % 2 else i - 1,
        _nodes("0-10", nodelist='["h,' + ",".join(f"n{1_026 * i}" for i in range(1, 11)) + '"]'),
    ),
    "kinds of node": lambda: _distinct(4_000),
    "kinds of node, and entries": lambda: _distinct(5_000, _ENTRY),
}

SITES = {
    "blank lines": lambda: "\n" * MIB,
    "lines of blanks": lambda: " \n" * (MIB // 2),
    "tabs": lambda: "\t" * MIB,
    "rows": lambda: (
        "host,cell,switch\n" + "".join(f"n{i},c{i // 999},s{i}\n" for i in range(20_000))
    ),
    "switches": lambda: "".join(f"SwitchName=s{i} Nodes=n[{i}-9999]\n" for i in range(20)),
    "chain": lambda: "".join(f"SwitchName=s{i} Switches=s{i + 1}\n" for i in range(10_000)),
    "blocks": lambda: "".join(f"BlockName=b{i} Nodes=n{i}\n" for i in range(10_000)),
    "labels": lambda: json.dumps({f"n{i}": {"rack": f"r{i}"} for i in range(10_000)}),
    "yaml": lambda: (
        "- topology: a\n  tree: {switches: [" + "{switch: s, nodes: n1}," * 2_000 + "]}\n"
    ),
    "deep yaml": lambda: "- topology: a\n  tree: " + "[" * 10_000,
}

_HEAD = "Submit|Elapsed|AllocTRES\n"
_GRES = "Submit|Elapsed|NCPUS|AllocGRES\n1|1|1|"

JOB_TABLES = {
    "jobs": lambda: _filled(_HEAD, "1|1|cpu=1\n"),
    "dates": lambda: _filled(_HEAD, "2026-11-25T10:00:00|1-01:00:00|cpu=8,gres/gpu=1,node=1\n"),
    "columns": lambda: "a|" * (MIB // 2),
    "columns without effect": lambda: _HEAD[:-1] + "".join(f"|c{i}" for i in range(990)) + "\n",
    "lines": lambda: _HEAD + "\n" * (MIB - 30),
    "a long value": lambda: _HEAD + "1|1|" + "x" * (MIB - 40),
    "resources": lambda: _HEAD + "1|1|" + "cpu=1," * 20_000,
    "rows of resources": lambda: _filled(_HEAD, "1|1|" + "x=1," * 250 + "cpu=1\n"),
    "digits": lambda: _HEAD + "9" * 130_000 + "|1|cpu=1",
    "an open quote": lambda: 'submit,elapsed,ncpus\n1,1,"' + "\n" * (MIB - 40),
    "jobs listed again": lambda: _filled("JobID|Submit|Elapsed|NCPUS\n", "1|1|1|1\n"),
    "headers": lambda: _filled("JobID|Submit|Elapsed|NCPUS\n", "JobID|Submit|Elapsed|NCPUS\n"),
    "lines that do not fit": lambda: _filled(_HEAD, "1\n"),
    "seconds waited": lambda: _filled("submit,elapsed,ncpus,queue\n", lambda i: f"1,1,1,{i}\n"),
    "generic resources": lambda: _GRES + "gpu:1," * 20_000,
    "parentheses": lambda: _GRES + "gpu(" * 30_000,
}

#: A job, as a model has it.
_SWF_JOB = "1 1 0 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"

SWFS = {
    "jobs": lambda: _filled("", _SWF_JOB),
    "jobs left out": lambda: _filled("", _SWF_JOB.replace("1 1 0 1", "1 1 0 0")),
    "lines that do not fit": lambda: _filled("1 1\n", "1\n"),
    "a long header": lambda: ";" + " " * (MIB // 2) + "x" * (MIB // 2 - 1),
    "numbers": lambda: "1 " * (MIB // 2),
}

_NODE = "NodeName=n[0-999] CoresPerSocket=8 Sockets=2 Gres=gpu:4\n"


def _of_cores(i):
    """A line of scontrol."""
    return f"NodeName=n{i} CoresPerSocket={i % 8192 + 1}\n"


SLURM_NODES = {
    "GPUs of one file": lambda: _filled(_NODE, "Name=gpu File=/dev/nvidia0\n"),
    "GPUs of hosts": lambda: _filled(
        _NODE, lambda i: f"NodeName=n[0-30] Name=gpu File=/dev/nvidia{i % 4} Links={i}\n"
    ),
    "many GPUs": lambda: _NODE + "Name=gpu Count=999999999\n",
    "many files": lambda: _NODE + "Name=gpu File=/dev/nvidia[0-1048575]\n",
    "AutoDetect on hosts": lambda: _filled(_NODE, "NodeName=n[0-50] AutoDetect=nvml\n"),
    "wide sets of cores": lambda: _filled(_NODE, "Name=gpu File=/dev/nvidia0 Cores=4194304\n"),
    "cores": lambda: _filled(_NODE + "Name=gpu Cores=", lambda i: str(2 * i), "", ","),
    "nodes that differ": lambda: _filled("", _of_cores),
    "a million nodes": lambda: "NodeName=n[0-1048575] CoresPerSocket=8\n",
    "a million nodes and others": lambda: _filled(
        "NodeName=n[0-999999] CoresPerSocket=8\n", _of_cores
    ),
    "pairs": lambda: _filled("NodeName=n0 CoresPerSocket=8", lambda i: f" a{i}=1"),
    "lines of a node": lambda: _filled("NodeName=n0 CoresPerSocket=8\n", " a=1\n"),
    "many of a node": lambda: "NodeName=n0 CoresPerSocket=8 Gres=" + "gpu:1," * 100_000,
}

LARGE = {
    "idset": IDSETS,
    "hostlist": HOSTLISTS,
    "count": COUNTS,
    "count_json": {
        **_json_strings(COUNTS),
        "dict": lambda: json.dumps(_COUNT_DICT),
        "huge": lambda: "9" * 4300,
        "huge and negative": lambda: "-" + "9" * 4300,
    },
    "command": {
        "words": lambda: "x\n" * 60_000,
        "a long word": lambda: "--policy\n" + "x" * 100_000,
    },
    "shape": SHAPES,
    "resources": {
        "vertices": lambda: _filled("[", '{"type":"core","count":1}', "]", ","),
        "depth": lambda: '[{"type":"n","count":1,"with":' * 300 + "0" + "}]" * 300,
        "labels": lambda: _filled(
            "[", lambda i: f'{{"type":"core","count":1,"label":"{i}"}}', "]", ","
        ),
        "values": lambda: '[{"type":"n","count":1,"x":' + "[" * 300 + "]" * 300 + "}]",
        "a text": lambda: '[{"type":"n","count":1,"x":"' + "'\\\"" * 200_000 + '"}]',
    },
    "gpuopt": GPUOPTS,
    "waitopt": {
        "digits": lambda: "1@" + "9" * (MIB - 4),
        "colons": lambda: "1@" + "9:" * (MIB // 2 - 4),
    },
    "mix": {
        "kinds": lambda: _filled("", "1*slot/core", "", ","),
        "64 kinds": lambda: ",".join(["9*" + _filled("slot/[", "core", "]", ";", 16_000)] * 64),
        "weights": lambda: _filled("", "1*", ""),
        "a long weight": lambda: "9" * (MIB - 2) + "*x",
        "blanks": lambda: "1*slot/core," + " " * (MIB - 20) + "1*x",
        "blanks, often": lambda: _filled("1*slot/core", ", " + " " * 99),
        **SHAPES,
    },
    "document": DOCUMENTS,
    "constraint": {
        name: partial(_in_system, JOBS[name], "constraints")
        for name in JOBS
        if "rank" in name or "host" in name or "property" in name
    },
    "job_options": {
        name: partial(_in_system, JOBS[name], "treepool")
        for name in ("options", "a huge bandwidth")
    },
    "jobspec": {**DOCUMENTS, **JOBS},
    "alloc": JOBS,
    "alloc_cluster": JOBS,
    "R": {**DOCUMENTS, **RS},
    "key": KEYS,
    "R_problems": {**RS, **_KEYS_IN_R},
    "key_problems": KEYS,
    "R_warnings": {**RS, **_KEYS_IN_R},
    "key_warnings": KEYS,
    "jobspec_problems": {**DOCUMENTS, **JOBS, **TASKS},
    "linktable": _tables(_KEY["links"][_DIGEST]),
    "configuration": {
        **DOCUMENTS,
        "queues": lambda: _filled('{"queues":{', lambda i: f'"q{i}":{{}}', "}}", ","),
        "text": lambda: _filled('{"policy":"', lambda i: "x", '"}'),
    },
    "windows": {
        **DOCUMENTS,
        "many": lambda: _filled("[", _window, "]", ","),
        "many hosts": lambda: _filled("[", lambda i: _window(i, "n[1-1000000]"), "]", ","),
        "hosts one by one": lambda: (
            "[" + _window(0, _filled("", lambda i: f"n{i},", most=MIB // 2)) + "]"
        ),
        "users": lambda: _filled('[{"users":[', lambda i: f'"u{i}"', "]}]", ","),
    },
    "subinstance": RS,
    "fluxion": FLUXION,
    "pool": RS,
    "vectors": {
        **DOCUMENTS,
        "steps": lambda: _holding(
            _VECTORS, ("vectors",), lambda i: f'{{"id":"s{i}","down":"0-1"}}', most=100_000
        ),
        "steps of wrong types": lambda: _holding(_VECTORS, ("vectors",), "0"),
        "empty steps": lambda: _holding(_VECTORS, ("vectors",), "{}"),
        "idsets": lambda: json.dumps(
            _with(_VECTORS, [{"id": "d", "down": "0-4194304"}], "vectors")
        ),
    },
    "trace": TRACES,
    "snapshot": SNAPSHOTS,
    "snapshot_problems": SNAPSHOTS,
    "jobtable": JOB_TABLES,
    "swf": SWFS,
    "hwloc": TEXTS,
    "nvidia_topo": TABLES,
    "amd_topo": AMD_TABLES,
    "intel_topo": INTEL_TABLES,
    "nvidia_list": LISTS,
    "site_file": SITES,
    "slurm_nodes": SLURM_NODES,
    "nvlink": {
        "lines": lambda: "\n" * MIB,
        "no value": lambda: _filled("", "ClusterUUID : ", ""),
        "blanks": lambda: "ClusterUUID" + " " * (MIB - 20) + ":x",
        "a long clique": lambda: "ClusterUUID:1\nCliqueId:" + "9" * (MIB - 40),
    },
    "cray": {
        "cabinets": lambda: _filled("", lambda i: f"x{i}c0s0b0n0", "", "\n"),
        "a cabinet": lambda: _filled("", lambda i: f"x1c{i}s{i}b0n0", "", "\n"),
        "digits": lambda: "x" + "9" * (MIB - 1),
    },
    "question": {
        "too long": lambda: "ask\n" + " " * (MIB - 4),
        "vertices": lambda: _filled(
            'ask\n{"resources":[', '{"type":"slot","count":1}', "]}", ",", 65_000
        ),
        "needs": lambda: _filled(
            'ask\n{"resources":[{"type":"slot","count":1,"label":"x","with":[',
            '{"type":"numa","count":1,"with":[{"type":"core","count":1}]}',
            "]}]}",
            ",",
            65_000,
        ),
        "depth": lambda: 'ask\n{"resources":' + "[" * 60_000,
        "options": lambda: _filled(
            'ask\n{"resources":[],"options":{', lambda i: f'"o{i}":1', "}}", ",", 65_000
        ),
        "digits": lambda: 'job\n{"id":' + "9" * 4000 + "}",
    },
    "visible": VISIBLE,
}


def cases():
    """(target, name) of every large input."""
    return [(name, case) for name, inputs in LARGE.items() for case in inputs]


def make(name, case):
    """The bytes of a large input."""
    return LARGE[name][case]().encode("utf-8", "surrogatepass")
