"""JSON documents against the JSON Schemas (draft 2020-12) in ``schemas/``.

jsonschema is imported only when a document is looked at: reading a good one needs no schema.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Type

from treepool.errors import InvalidInput, Problem
from treepool.rfc import document as json_document
from treepool.rfc.findings import limited, place, shown

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_PACKAGE = Path(__file__).resolve().parent.parent

# Errors are objects with references into the document: enough of them to fill a report.
_MAX_ERRORS = 2_000

# Most types looked at in one document: a quarter of a second. jsonschema takes 8 s for 1 MiB of
# empty domains, 8 checks for each. Test vectors need 1,500.
_MAX_CHECKS = 20_000

_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def data_folder(name: str) -> Path:
    """The folder of data files *name*, such as ``schemas`` or ``testvectors``.

    It is inside the package if treepool was installed from a wheel, and beside the package in a
    checkout or an editable install. Raises FileNotFoundError if it is in neither place.
    """
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"no folder {name} in {_PACKAGE} or beside it")


def problems(document: Any, name: str) -> list[Problem]:
    """Where *document* breaks schema *name*, such as ``"rfc20-rset"``, by place.

    At most 100, then one that says how many more there are. A document that takes too long to
    check is a problem.
    """
    try:
        return limited(_violations(document, name))
    except _TooMuch:
        return [Problem("", "has too many values")]


def check(document: Any, name: str, error: Type[InvalidInput]) -> None:
    """Raise *error* with the first place where *document* breaks schema *name*."""
    for problem in problems(document, name)[:1]:
        raise error(str(problem))


def violations(document: Any, name: str) -> list[Problem]:
    """Like ``problems``, but in no order and not shortened; only the beginning of a long document.

    For those who check the document themselves, and want the schema's words for what is wrong.
    """
    found: list[Problem] = []
    with suppress(_TooMuch):
        _violations(document, name, found)
    return found


def _violations(document: Any, name: str, found: Optional[list[Problem]] = None) -> list[Problem]:
    """Where *document* breaks schema *name*, added to *found*, also when this raises _TooMuch."""
    found = [] if found is None else found
    try:
        json_document.check_depth(document, InvalidInput, "document")
    except InvalidInput as e:
        found.append(Problem("", str(e)))
        return found
    if not is_json(document):
        found += islice(_no_json(document), _MAX_ERRORS)
        return found
    _checks[0] = 0
    try:
        for error in _validator(name).iter_errors(document):
            found += islice(_worded(error), _MAX_ERRORS)
            if len(found) >= _MAX_ERRORS:
                break
    except RecursionError:  # the caller's own stack is nearly full
        found.append(Problem("", "nested too deep to be checked"))
    return found


@lru_cache(maxsize=None)
def _schemas() -> dict[str, Any]:
    """Every schema, by its name.

    Without ``$schema``: where a reference leads to a schema that has it, jsonschema goes on with
    its own validator class, which does not count.
    """
    schemas = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(data_folder("schemas").glob("*.json"))
    }
    for schema in schemas.values():
        del schema["$schema"]
    return schemas


@lru_cache(maxsize=None)
def _validator(name: str) -> Draft202012Validator:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    schemas = _schemas()
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], DRAFT202012.create_resource(schema)) for schema in schemas.values()
    )
    counting: Draft202012Validator = _counting()(schemas[name], registry=registry)
    return counting


class _TooMuch(Exception):
    """The document has more values than are to be checked."""


#: How many types have been looked at in the document at hand.
_checks = [0]


def _counting() -> Any:
    """A validator class that counts its checks, as jsonschema itself knows no limit."""
    from jsonschema import Draft202012Validator, validators

    def counted(kind: str) -> Callable[[Any, Any], bool]:
        def check(_: Any, value: Any) -> bool:
            _checks[0] += 1
            if _checks[0] > _MAX_CHECKS:
                raise _TooMuch
            return bool(types.is_type(value, kind))

        return check

    extend: Any = validators.extend  # without types of its own
    types = Draft202012Validator.TYPE_CHECKER
    counting = types.redefine_many({kind: counted(kind) for kind in _TYPES})
    return extend(Draft202012Validator, type_checker=counting)


def is_json(document: Any) -> bool:
    """Whether all keys are strings and no integer is too large, as in a JSON text that was read.

    Says what ``_no_json`` says, without places, and is so four times as fast.
    """
    level = [document] if isinstance(document, (dict, list, int)) else []
    while level:
        value = level.pop()
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return False
            level += [v for v in value.values() if isinstance(v, (dict, list, int))]
        elif isinstance(value, list):
            level += [v for v in value if isinstance(v, (dict, list, int))]
        elif value.bit_length() > 1024:
            return False
    return True


def _no_json(document: Any) -> Iterator[Problem]:
    """What only a caller's own dict can have, and jsonschema stumbles over."""
    level = [("", document)]
    while level:
        at, value = level.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    yield Problem(at, f"a key must be a string, not {shown(key)}")
            level += [
                (place(at, k), v)
                for k, v in value.items()
                if isinstance(k, str) and isinstance(v, (dict, list, int))
            ]
        elif isinstance(value, list):
            level += [
                (f"{at}/{i}", v) for i, v in enumerate(value) if isinstance(v, (dict, list, int))
            ]
        elif isinstance(value, int) and value.bit_length() > 1024:
            yield Problem(at, f"{shown(value)} is too large a number")


def _worded(error: ValidationError) -> Iterator[Problem]:
    """The problems that one error of jsonschema stands for, in words."""
    at = place("", *error.absolute_path)
    expected: Any = error.validator_value
    value: Any = error.instance
    if error.validator in ("oneOf", "anyOf") and error.context:
        yield from _closest_branch(error, at)
    elif error.validator == "required":
        for key in expected:
            if key not in value:
                yield Problem(at, f"key {key!r} is missing")
    elif error.validator == "dependentRequired":
        for key, needed in expected.items():
            missing = [k for k in needed if key in value and k not in value]
            for k in missing:
                yield Problem(at, f"key {key!r} needs key {k!r} too")
    elif error.validator == "additionalProperties":
        yield from _unknown_keys(error, at)
    else:
        yield Problem(at, _message(error))


def _closest_branch(error: ValidationError, at: str) -> Iterator[Problem]:
    """What is wrong with the alternative the value was meant to be: the one of its JSON type."""
    branches: dict[Any, list[ValidationError]] = {}
    for sub in error.context or ():
        branches.setdefault(sub.relative_schema_path[0], []).append(sub)
    candidates = [errors for errors in branches.values() if not _of_other_type(errors)]
    if not candidates:
        types = [e for errors in branches.values() for e in _of_other_type(errors)]
        kinds = [_title(e) or _kind(e) for e in types]
        yield Problem(at, f"must be {_either(kinds)}, not {shown(error.instance)}")
        return
    # Of several, the one that got deepest into the value before failing.
    best = max(candidates, key=lambda errors: max(len(e.relative_path) for e in errors))
    for sub in best:
        yield from _worded(sub)


def _of_other_type(errors: list[ValidationError]) -> list[ValidationError]:
    """Those of *errors* that say that the value itself has the wrong type."""
    return [e for e in errors if e.validator == "type" and not e.relative_path]


def _kind(error: ValidationError) -> str:
    """The type that a value of the wrong type should have."""
    expected: Any = error.validator_value
    return _TYPES[expected] if isinstance(expected, str) else _either([_TYPES[t] for t in expected])


def _title(error: ValidationError) -> str:
    """The title of the schema that the value breaks, "" if it has none."""
    schema: Any = error.schema
    return str(schema.get("title", ""))


def _either(kinds: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


def _unknown_keys(error: ValidationError, at: str) -> Iterator[Problem]:
    schema: Any = error.schema
    value: Any = error.instance
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    names = f"known are {', '.join(known)}" if known else "its name is not allowed here"
    for key in value:
        if key not in known and not any(re.search(p, key) for p in patterns):
            yield Problem(place(at, key), f"unknown key; {names}")


def _message(error: ValidationError) -> str:
    """The words for an error of one keyword."""
    expected: Any = error.validator_value
    keyword = error.validator
    value = shown(error.instance)
    if keyword == "type":
        return f"must be {_kind(error)}, not {value}"
    if keyword == "const":
        return f"must be {shown(expected)}, not {value}"
    if keyword == "enum":
        return f"must be one of {', '.join(map(shown, expected))}, not {value}"
    if keyword == "pattern":
        return f"{value} is not {_title(error) or 'of the right form'}"
    if keyword == "not":
        return f"is {_title(error) or 'not allowed'}"
    if keyword == "minimum":
        return f"must be at least {expected}, not {value}"
    if keyword == "maximum":
        return f"must be at most {expected}, not {value}"
    if keyword in ("maxItems", "minProperties", "maxProperties") and _title(error):
        return f"must have {_title(error)}"
    if keyword in ("minItems", "minLength", "minProperties") and expected == 1:
        return "must not be empty"
    return shown(error.message)[1:-1]
