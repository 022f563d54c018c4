"""Run by Flux's Python: commands of Flux, each in a copy of this process, which is quick.

Reads from stdin a JSON list of [words, variables of environment, stdin] and prints what became of
each: [status, stdout, stderr].
"""

import json
import os
import runpy
import sys
import tempfile
import traceback

import flux.cli.base  # noqa: F401 (what all need)

DIRECTORY = sys.argv[1]


def run(words, variables, stdin):
    """What ``flux WORDS...`` says."""
    files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 (of this function)
    files[0].write(stdin.encode())
    files[0].seek(0)
    child = os.fork()
    if not child:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        os.environ.update(variables)
        sys.argv = [f"{DIRECTORY}/flux-{words[0]}.py", *words[1:]]
        status = 0
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException:
            traceback.print_exc()
            status = 99
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    for file in files:
        file.seek(0)
    return [os.waitstatus_to_exitcode(status), *(f.read().decode() for f in files[1:])]


print(json.dumps([run(*case) for case in json.load(sys.stdin)]))
