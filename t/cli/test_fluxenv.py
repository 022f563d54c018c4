"""``treepool flux-env``: needs no Flux; what Flux makes of it is in t/flux."""

import os
import subprocess

from commandline import REPOSITORY
from treepool.flux import site


def test_the_exports_go_in_front_of_what_is_set(treepool):
    script = treepool("flux-env").out + 'echo "$FLUX_EXEC_PATH_PREPEND|$FLUX_MODULE_PATH_PREPEND"'
    env = {"PATH": os.environ["PATH"], "FLUX_EXEC_PATH_PREPEND": "/mine"}
    said = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    assert said.stdout.strip() == f"{site.COMMANDS}:/mine|{site.MODULES}"


def test_what_it_names_is_there():
    assert site.MODULE.is_file()
    assert os.access(site.COMMANDS / "flux-treepool.py", os.X_OK)
    assert site.python_path()[0] == REPOSITORY


def test_modprobe_names_the_file_and_the_options(treepool):
    lines = treepool("flux-env", "--modprobe", "policy=easy", "queue-depth=9").out.splitlines()
    assert lines[0] == "[[modules]]"
    assert f'module = "{site.MODULE}"' in lines
    assert 'args = ["policy=easy", "queue-depth=9"]' in lines
    assert not any(line.startswith("args") for line in treepool("flux-env", "--modprobe").out)


def test_what_the_module_would_refuse_is_a_usage_error(treepool):
    assert treepool("flux-env", "--modprobe", "policy=x").is_one_line_error("policy=x", status=2)
    assert treepool("flux-env", "policy=easy").is_one_line_error("--modprobe", status=2)
