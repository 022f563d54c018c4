"""Run by Flux's Python: commands of Flux, each in a copy of this process, which is quick.

Each line of stdin is a command, [words, variables of environment, stdin]: of the variables those
that are not as here, of which null is unset. Prints a line for each: [status, stdout, stderr].
"""

import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

# What the commands need.
import TreePool  # noqa: F401 (makes treepool importable)
import treepool.__main__
import treepool.cli.alloc
import treepool.cli.explain
import treepool.cli.show
import treepool.cli.snapshot
import treepool.cli.status
import treepool.cli.where
import treepool.cli.window
import treepool.flux.client  # noqa: F401


def program(command):
    """The path of ``flux COMMAND``."""
    places = [Path(place) for place in os.environ["FLUX_EXEC_PATH"].split(":")]
    (path, *_) = filter(Path.exists, (place / f"flux-{command}.py" for place in places))
    return str(path)


def become(command, *words):
    """Do what ``flux COMMAND WORDS...`` does; returns its status."""
    try:
        if command == "python":
            _, script, *rest = words  # -c
            sys.argv = ["-c", *rest]
            exec(script, {"__name__": "__main__"})
        else:
            sys.argv = [program(command), *words]
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run(words, variables, stdin):
    """What ``flux WORDS...`` says."""
    files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 (of this function)
    files[0].write(stdin.encode())
    files[0].seek(0)
    child = os.fork()
    if not child:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        status = become(*words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    for file in files:
        file.seek(0)
    return [os.waitstatus_to_exitcode(status), *(f.read().decode() for f in files[1:])]


# A command has its own stdin, which nobody may have read from, and stdout.
with open(os.dup(0)) as commands, open(os.dup(1), "w") as answers:
    for line in commands:
        print(json.dumps(run(*json.loads(line))), file=answers, flush=True)
