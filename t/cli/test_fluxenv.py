"""``treepool flux-env`` as a command; what Flux makes of it is in t/flux."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from treepool.flux import site

HOME = Path("/opt/tree pool/lib/treepool")


def after(exports, variable, **environment):
    """What a shell that has run *exports* in *environment* has in *variable*."""
    env = {"PATH": os.environ["PATH"], **environment}
    script = f'{exports}\nprintf %s "${variable}"'
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_exports_go_in_front_of_what_is_set_and_behind_the_path():
    exports = site.exports(HOME, Path("/opt/tree pool/bin"))
    for name, path in site.variables(HOME).items():
        assert after(exports, name) == str(path)
        assert after(exports, name, **{name: "/mine:/ours"}) == f"{path}:/mine:/ours"
    assert after(exports, "PATH") == f"{os.environ['PATH']}:/opt/tree pool/bin"


def test_only_variables_of_flux_are_set():
    assert all(name.startswith("FLUX_") for name in site.variables(HOME))


def test_what_the_variables_name_is_there():
    root = Path(site.__file__).parents[2]
    for path in site.variables(root).values():
        assert path.is_dir()
    assert os.access(root / site.COMMANDS / "flux-treepool.py", os.X_OK)


def test_the_drop_in_quotes_as_systemd_reads():
    lines = site.systemd(Path('/opt/50% "x"')).splitlines()
    assert lines[0] == "[Service]"
    path = r"/opt/50%% \"x\"/treepool/flux/modules"
    assert lines[1] == f'Environment="FLUX_MODULE_PATH_PREPEND={path}"'


@pytest.mark.parametrize("words", [[], ["--check"], ["--uninstall"], ["--systemd"]])
def test_where_nothing_is_installed_it_says_so(treepool, tmp_path, words):
    result = treepool("flux-env", *words, "--prefix", tmp_path)
    assert result.is_one_line_error("no treepool is installed in", str(tmp_path))


def test_without_a_flux_there_is_nothing_to_install_for(treepool, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = treepool("flux-env", "--install", "--prefix", tmp_path / "x")
    assert result.is_one_line_error("flux is not on the PATH")
    assert not (tmp_path / "x").exists()


def test_a_flux_that_does_not_work_is_one_line(treepool, tmp_path, monkeypatch):
    flux = tmp_path / "flux"
    flux.write_text("#!/bin/sh\necho no such thing >&2; exit 3\n")
    flux.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("flux") == str(flux)
    result = treepool("flux-env", "--install", "--prefix", tmp_path / "x")
    assert result.is_one_line_error("flux config builtin module_path: no such thing")


def test_one_thing_at_a_time(treepool):
    assert treepool("flux-env", "--install", "--check").is_one_line_error("not allowed", status=2)
