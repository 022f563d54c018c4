"""``treepool flux-env``: needs no Flux; what Flux makes of it is in t/flux."""

import os
import subprocess

from commandline import REPOSITORY
from treepool.flux import site


def after(exports, variable, **environment):
    """What a shell that has run *exports* in *environment* has in *variable*."""
    env = {"PATH": os.environ["PATH"], **environment}
    script = f'{exports}printf %s "${variable}"'
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_exports_go_in_front_of_what_is_set(treepool):
    exports = treepool("flux-env").out
    assert after(exports, "FLUX_MODULE_PATH_PREPEND") == str(site.MODULES)
    for name, path in [
        ("FLUX_EXEC_PATH_PREPEND", site.COMMANDS),
        ("FLUX_CLI_PLUGINPATH", site.PLUGINS),
    ]:
        assert after(exports, name) == str(path)
        assert after(exports, name, **{name: "/mine:/ours"}) == f"{path}:/mine:/ours"


def test_what_it_names_is_there():
    assert site.MODULE.is_file()
    assert list(site.PLUGINS.glob("*.py"))
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
