"""What JSON allows and nobody means, at every entry point that takes JSON text or a file of it."""

import json
from itertools import product
from pathlib import Path

import pytest

from commandline import well_behaved
from depth import some
from fuzz.seeds import JOBSPECS, KEYS, RS, SNAPSHOT, TABLES, VECTORS
from fuzz.targets import MAX_MESSAGE
from treepool import subinstance
from treepool.errors import InvalidInput
from treepool.placement.pool import Pool
from treepool.rfc import jobspec
from treepool.rfc.links import read_links
from treepool.rfc.rset import ResourceSet
from treepool.rfc.scheduling import SchedulingKey
from treepool.view import snapshot, trace

TRACE = '{"submit": 0, "duration": 60, "shape": "slot=1/core", "id": 3}'
CONSTRAINT = '{"properties": ["p"]}'

#: What reads JSON text, with a good one.
TEXTS = {
    "R": (ResourceSet.read, RS[0]),
    "key": (SchedulingKey.read, KEYS[0]),
    "link table": (read_links, TABLES[0]),
    "jobspec": (jobspec.read, JOBSPECS[0]),
    "jobspec for a pool": (Pool(RS[0]).parse_resource_request, JOBSPECS[0]),
    "pool": (Pool, RS[0]),
    "subinstance": (subinstance, RS[0]),
    "trace": (trace.read, TRACE),
    "snapshot": (snapshot.read, SNAPSHOT),
}

#: What reads a file of JSON, or JSON as an argument, with a good one.
COMMANDS = {
    ("alloc", "slot=1/core", "-R"): RS[0],
    ("alloc", "--json", "--cluster", "a", "--jobspec"): JOBSPECS[0],
    ("validate",): RS[0],
    ("alloc", "--subinstance", "-R"): RS[0],
    ("conformance",): VECTORS,
    ("show", "-R"): RS[0],
    ("advise", "-R"): RS[0],
    ("explain", "slot=1/core", "-R"): RS[0],
    ("replay", "--synthetic", "3", "-R"): RS[0],
    ("replay", "--cluster", "a"): TRACE,
    ("replay", "--snapshot"): SNAPSHOT,
    ("show", "--snapshot"): SNAPSHOT,
    ("alloc", "slot=1/core", "--snapshot"): SNAPSHOT,
    ("explain", "slot=1/core", "--snapshot"): SNAPSHOT,
    ("verify", "--R"): RS[0],
    ("where", "-R"): RS[0],
    ("alloc", "--cluster", "a", "slot=1/core", "--constraint"): CONSTRAINT,
    ("explain", "--cluster", "a", "slot=1/core", "--constraint"): CONSTRAINT,
}

#: What is put first into a good object; none of it is JSON, or may be in a document of ours.
FIRST = {
    "a key twice": '"x": 1, "x": 1, ',
    "a key twice, deep inside": '"x": [{"y": [{"z": 1, "z": 2}]}], ',
    "NaN": '"x": NaN, ',
    "-Infinity": '"x": [-Infinity], ',
    "a number that is infinite": '"x": 1e999, ',
    "5,000 digits": '"x": ' + "9" * 5_000 + ", ",
    "100,000 digits": '"x": ' + "9" * 100_000 + ", ",
    "65 levels": '"x": ' + "[" * 65 + "]" * 65 + ", ",
    "100,000 levels": '"x": ' + "[" * 100_000 + "]" * 100_000 + ", ",
    "100,000 brackets": '"x": ' + "[" * 100_000,
    "a control character": '"x": "\x01", ',
    "a lone quote": '"x, ',
    "no JSON": '"x": undefined, ',
}

#: What is JSON and may be put first; what a document makes of it is its own affair.
STRANGE = {
    "a lone surrogate": '"x": "\\ud800", ',
    "a lone surrogate as key": '"\\udfff": 1, ',
    "4,300 digits": '"x": ' + "9" * 4_300 + ", ",
    "an empty key": '"": "", ',
    "a key of zeros": '"\\u0000": "\\u0000", ',
    "a key that is long": '"' + "k" * 100_000 + '": 1, ',
    "terminal control": '"\\u001b[2J": "\\u009b31m", ',
    "prototype": '"__proto__": {"__class__": 1}, ',
}

#: Files that are no JSON from their first byte to their last.
FILES = {
    "empty": b"",
    "blank": b" \n\t",
    "binary": bytes(range(256)),
    "UTF-16": "{}".encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "cut off": b'{"execution": {"R_lite": [',
}

#: What is no file that may be read.
PATHS = ("no/such/file", ".", "", "\0", "\x1b[31m", "\udcff", "n" * 300, "/proc/self/mem")

#: What may stand where something else is expected.
WRONG = (None, True, 0, -1, 1.5, 1 << 62, 10**400, "", "x", "\ud800", [], [[]], {}, {"x": None})


def with_first(text, first):
    """The good object *text* with *first* put first in it."""
    assert text.startswith("{")
    return "{" + first + text[1:]


def is_one_line(error):
    message = str(error)
    return bool(message) and message.isprintable() and len(message) <= MAX_MESSAGE


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("entry", TEXTS)
def test_text_that_is_no_json_is_refused_in_one_line(entry, first):
    read, good = TEXTS[entry]
    with pytest.raises(InvalidInput) as caught:
        read(with_first(good, FIRST[first]))
    assert is_one_line(caught.value)


@pytest.mark.parametrize("first", STRANGE)
@pytest.mark.parametrize("entry", TEXTS)
def test_strange_json_is_read_or_refused_in_one_line(entry, first):
    read, good = TEXTS[entry]
    try:
        read(with_first(good, STRANGE[first]))
    except InvalidInput as e:
        assert is_one_line(e)


@pytest.mark.parametrize(
    "value",
    [value for value in WRONG if not isinstance(value, dict)],
    ids=lambda value: ascii(value)[:12],
)
@pytest.mark.parametrize("entry", TEXTS)
def test_a_document_of_another_type_is_refused_in_one_line(entry, value):
    read, _ = TEXTS[entry]
    with pytest.raises(InvalidInput) as caught:
        read(json.dumps(value))
    assert is_one_line(caught.value)


@pytest.fixture
def reading(treepool, monkeypatch, tmp_path):
    """``reading(command, text)`` runs a command on JSON *text*, in a file if it takes one."""
    monkeypatch.chdir(tmp_path)

    def call(command, text, path="it.json"):
        if command[-1] == "--constraint":
            return treepool(*command[:-1], f"--constraint={text}")
        if text is not None:
            Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())
        return treepool(*command, path)

    return call


READERS = [command for command in COMMANDS if command[-1] != "--constraint"]


@pytest.mark.parametrize(("command", "name"), some(product(READERS, FILES)))
def test_a_file_that_is_no_json_is_refused_in_one_line(reading, command, name):
    result = reading(command, FILES[name])
    assert well_behaved(result)
    assert result.status in (1, 2)
    assert len((result.out + result.err).splitlines()) == 1


@pytest.mark.parametrize(("command", "path"), some(product(READERS, PATHS)))
def test_a_file_that_cannot_be_read_is_status_2(reading, command, path):
    assert reading(command, None, path).is_one_line_error(status=2)


@pytest.mark.parametrize(("command", "first"), some(product(COMMANDS, FIRST)))
def test_a_command_refuses_what_is_no_json_in_one_line(reading, command, first):
    result = reading(command, with_first(COMMANDS[command], FIRST[first]))
    assert well_behaved(result)
    assert result.status in (1, 2)
    assert len((result.out + result.err).splitlines()) == 1


@pytest.mark.parametrize(("command", "first"), some(product(COMMANDS, STRANGE)))
def test_a_command_answers_strange_json_without_a_traceback(reading, command, first):
    result = reading(command, with_first(COMMANDS[command], STRANGE[first]))
    assert well_behaved(result)
    assert result.status in (0, 1, 2)
