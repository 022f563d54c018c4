"""Programs of checks that Flux's Python runs: one by its name, or without a name tells them all."""

import ast
import sys
import traceback

#: Exit status of a check that the Flux here cannot be asked.
LACKING = 77


class Lacking(Exception):
    """This flux-core has not what a check is about; says what."""


def names_in(script):
    """The names of the checks in the program at path *script*, which needs Flux's Python to run."""
    body = ast.parse(script.read_text()).body
    functions = (node.name for node in body if isinstance(node, ast.FunctionDef))
    return [name for name in functions if name.startswith("check_")]


def run(module):
    """Run the check named on the command line, of those that *module*, a globals(), has."""
    found = {n: f for n, f in module.items() if n.startswith("check_")}
    if len(sys.argv) == 1:
        print("\n".join(found))
        return
    try:
        found[sys.argv[1]]()
    except Lacking as e:
        print(e, file=sys.stderr)
        sys.exit(LACKING)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
