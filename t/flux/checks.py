"""Programs of checks, which Flux's Python runs: each check in a process of its own."""

import ast
import json
import os
import subprocess
import sys
import traceback

#: What is told of a check that the Flux here cannot be asked.
LACKING = "lacking: "


class Lacking(Exception):
    """This flux-core has not what a check is about; says what."""


def ran(script, env):
    """{check: why it failed, "" if it did not} of the program at path *script*."""
    done = subprocess.run(
        ["flux", "python", str(script)], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    named = {node.name for node in ast.walk(ast.parse(script.read_text()))
             if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")}  # fmt: skip
    assert set(found) == named, "each check ran"
    return found


def run(module):
    """Run the checks that *module*, a globals(), has, and print what became of them.

    Words on the command line name some of them.
    """
    found = {n: f for n, f in module.items() if n.startswith("check_")}
    print(json.dumps({name: _run(found[name]) for name in sys.argv[1:] or found}))


def _run(check):
    """Run *check* in a copy of this process; what it patches, and lets wait, is gone with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with open(writing, "w") as told:
            try:
                check()
            except Lacking as e:
                told.write(f"{LACKING}{e}")
            except BaseException:
                told.write(traceback.format_exc())
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"it ended with {status}: {text}"
