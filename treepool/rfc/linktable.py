"""Link tables from JSON: ``scheduling.links`` of a key, checked.

    {"links": [{"type": "nvlink", "gbps": 50, "among": ["0-3", "4-7"]}],
     "nics": [{"name": "hsi0", "gpus": "0", "path": "PIX"}],
     "devices": [{"model": "A100", "memory": 80, "gpus": "0-7"}]}

is a table; each of its three keys may be missing, and unknown keys mean nothing here. No pair of
GPUs is joined twice, and no GPU has two nearest NICs or two models.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Union

from treepool.errors import InvalidKey
from treepool.rfc import idset
from treepool.rfc.findings import Findings, integer, number, place, plain_json, shown, shown_ids
from treepool.rfc.links import (
    MAX_GBPS,
    MAX_GPUS,
    MAX_MEMORY,
    MAX_NAME,
    PATHS,
    TYPES,
    Device,
    Link,
    Links,
    Nic,
)

#: Most tables in a key: a cluster has few kinds of nodes, and even a ragged one not more.
MAX_TABLES = 1 << 14


def read(table: Union[Mapping[str, Any], str]) -> Links:
    """The links in one table, a dict or JSON text.

    Raises InvalidKey with the first problem and its JSON pointer in the table.
    """
    value = plain_json(table, InvalidKey, "link table")
    findings = Findings()
    links = _table(findings, value, "")
    for problem in findings.merged(()):
        raise InvalidKey(str(problem))
    return links


def read_tables(findings: Findings, value: object, at: str) -> dict[str, Links]:
    """The tables of ``scheduling.links`` *value* at JSON pointer *at*, by digest.

    What is wrong is noted in *findings*; then the result is of no use.
    """
    if not isinstance(value, dict):
        findings.misformed(at, f"must be an object, not {shown(value)}")
        return {}
    if len(value) > MAX_TABLES:
        findings.note(at, f"has more than {MAX_TABLES} tables")
        return {}
    tables: dict[str, Links] = {}
    for name, table in value.items():
        if findings.enough:
            break
        where = place(at, name)
        if not _is_digest(name):
            findings.misformed(where, "is no digest of a topo")
        tables[name] = _table(findings, table, where)
    return tables


def _is_digest(name: object) -> bool:
    return isinstance(name, str) and len(name) == 64 and set(name) <= set("0123456789abcdef")


def _table(findings: Findings, table: object, at: str) -> Links:
    if not isinstance(table, dict):
        findings.misformed(at, f"must be an object, not {shown(table)}")
        return Links()
    return Links(
        tuple(_links(findings, table, at)),
        tuple(_nics(findings, table, at)),
        tuple(_devices(findings, table, at)),
    )


def _items(
    findings: Findings, table: Mapping[str, Any], what: str, at: str, *keys: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of array *what*, each with its pointer, that have *keys*."""
    items = table.get(what, [])
    if not isinstance(items, list):
        findings.misformed(f"{at}/{what}", f"must be an array, not {shown(items)}")
        return
    for i, item in enumerate(items):
        if findings.enough:
            return
        if isinstance(item, dict) and item.keys() >= set(keys):
            yield f"{at}/{what}/{i}", item
        else:
            wanted = ", ".join(keys)
            findings.misformed(f"{at}/{what}/{i}", f"must be an object with the keys {wanted}")


def _links(findings: Findings, table: Mapping[str, Any], at: str) -> Iterator[Link]:
    joined: dict[int, int] = {}
    for where, item in _items(findings, table, "links", at, "type", "gbps", "among"):
        _one_of(findings, item["type"], TYPES, f"{where}/type")
        gbps, among = item["gbps"], item["among"]
        if not number(gbps):
            findings.misformed(f"{where}/gbps", f"must be a number, not {shown(gbps)}")
            continue
        if not 0 <= gbps <= MAX_GBPS:  # NaN is neither
            findings.note(
                f"{where}/gbps", f"must be at least 0 and at most {MAX_GBPS}, not {shown(gbps)}"
            )
            continue
        if not isinstance(among, list) or not among:
            findings.misformed(f"{where}/among", "must be an array of idsets and not empty")
            continue
        sets = tuple(_sets(findings, among, f"{where}/among", joined))
        yield Link(item["type"], float(gbps), sets)


def _sets(
    findings: Findings, among: list[object], at: str, joined: dict[int, int]
) -> Iterator[int]:
    """The sets of GPUs in *among*, whose pairs may not be in *joined* yet, and are then."""
    for i, text in enumerate(among):
        if findings.enough:
            return
        known = len(findings)
        gpus = _gpus(findings, text, f"{at}/{i}")
        if len(findings) > known:
            continue
        if gpus & (gpus - 1) == 0:
            findings.note(f"{at}/{i}", "must have at least two GPUs")
            continue
        twice = 0
        for gpu in idset.iterate(gpus):
            twice |= joined.get(gpu, 0) & gpus
            joined[gpu] = joined.get(gpu, 0) | gpus & ~(1 << gpu)
        if twice:
            findings.note(f"{at}/{i}", f"pairs among GPUs {shown_ids(twice)} are joined already")
        yield gpus


def _nics(findings: Findings, table: Mapping[str, Any], at: str) -> Iterator[Nic]:
    seen = 0
    for where, item in _items(findings, table, "nics", at, "name", "gpus", "path"):
        _name(findings, item["name"], f"{where}/name")
        _one_of(findings, item["path"], PATHS, f"{where}/path")
        gpus = _gpus(findings, item["gpus"], f"{where}/gpus", seen)
        seen |= gpus
        yield Nic(item["name"], gpus, item["path"])


def _devices(findings: Findings, table: Mapping[str, Any], at: str) -> Iterator[Device]:
    seen = 0
    for where, item in _items(findings, table, "devices", at, "model", "memory", "gpus"):
        _name(findings, item["model"], f"{where}/model")
        memory = item["memory"]
        gpus = _gpus(findings, item["gpus"], f"{where}/gpus", seen)
        seen |= gpus
        if not integer(memory):
            findings.misformed(f"{where}/memory", f"must be an integer, not {shown(memory)}")
        elif not 0 <= memory <= MAX_MEMORY:
            findings.note(
                f"{where}/memory",
                f"must be at least 0 and at most {MAX_MEMORY}, not {shown(memory)}",
            )
        else:
            yield Device(item["model"], int(memory), gpus)


def _gpus(findings: Findings, value: object, at: str, earlier: int = 0) -> int:
    """The GPUs of idset *value*, none of them among *earlier* ones; 0 after a problem."""
    gpus = findings.idset(value, at)
    if gpus >> MAX_GPUS:
        findings.note(at, f"GPU ids go up to {MAX_GPUS - 1}, not {gpus.bit_length() - 1}")
        return 0
    if gpus & earlier:
        findings.note(at, f"GPUs {shown_ids(gpus & earlier)} are in an earlier entry too")
    return gpus


def _name(findings: Findings, value: object, at: str) -> None:
    if not isinstance(value, str) or not value:
        findings.misformed(at, "must be a string and not empty")
    elif len(value) > MAX_NAME or not value.isprintable():
        findings.note(at, f"must be at most {MAX_NAME} printable characters")


def _one_of(findings: Findings, value: object, known: tuple[str, ...], at: str) -> None:
    if not isinstance(value, str) or value not in known:
        findings.misformed(at, f"must be one of {', '.join(known)}, not {shown(value)}")
