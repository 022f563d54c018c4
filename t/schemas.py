"""The JSON Schemas of ``schemas/``, as validators that follow references between them."""

import json
import re

from jsonschema import Draft202012Validator

from treepool.cli.files import data_folder

SCHEMAS = {
    path.stem: json.loads(path.read_text())
    for path in sorted(data_folder("schemas").glob("*.json"))
}


def as_definition(name):
    """One schema as a definition in a document that has them all: any version of jsonschema can
    follow the references.
    """
    schema = {key: value for key, value in SCHEMAS[name].items() if key not in ("$id", "$schema")}
    text = json.dumps(schema).replace('"#/', f'"urn:treepool:{name}#/')
    return json.loads(re.sub(r'"urn:treepool:([a-z0-9-]+)#?([^"]*)"', r'"#/$defs/\1\2"', text))


DEFINITIONS = {name: as_definition(name) for name in SCHEMAS}


def validator(name, part=""):
    """What validates by the schema *name*, or by its definition *part*."""
    place = f"{name}/$defs/{part}" if part else name
    return Draft202012Validator({"$ref": f"#/$defs/{place}", "$defs": DEFINITIONS})


#: Definitions of output.json to which others add keys.
_EXTENDED = ("task", "window-entry")


def strict(value):
    """The JSON *value* of a schema, in which objects have no keys but those that it names."""
    if isinstance(value, list):
        return [strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: item if key in _EXTENDED else strict(item) for key, item in value.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["unevaluatedProperties"] = False
    return found


_STRICT = {**DEFINITIONS, "output": strict(DEFINITIONS["output"])}


def conforms(line, part):
    """Assert that *line*, of ``--json``, is what output.json says of *part*, with no more keys."""
    validator("output").validate(line)
    fact = {key: value for key, value in line.items() if key != "version"}
    rule = {"$ref": f"#/$defs/output/$defs/{part}", "$defs": _STRICT}
    Draft202012Validator(rule).validate(fact)
