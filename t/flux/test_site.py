"""What ``flux-env --install --prefix`` sets up, and what Flux makes of it, without root."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from broker import REPOSITORY, Instance, bare, key_of
from commandline import run_process

CHOSEN = [
    "modules.alternatives.sched=sched-treepool",
    'modules.sched-treepool.args=["policy=easy"]',
]


@pytest.fixture(scope="module")
def site():
    """An instance whose configuration chose sched-treepool, with an option."""
    with Instance(16, 120, 8, key_of("rfc49-cluster-a"), conf=CHOSEN) as instance:
        instance.scheduler = "sched-treepool"
        yield instance


def test_the_configuration_makes_it_the_scheduler_of_the_instance(site):
    schedulers = [line for line in site.flux("module", "list").splitlines() if "sched" in line]
    assert [line.split()[0] for line in schedulers] == ["sched-treepool"]
    assert schedulers[0].split()[-1] == "feasibility,sched"
    assert site.stats()["policy"] == "easy"


def test_the_command_line_is_a_subcommand_of_flux(site):
    R = site.flux("kvs", "get", "resource.R")
    said = site.flux("treepool", "alloc", "-R", "-", "--json", "slot=1/socket{x}", stdin=R)
    assert json.loads(said)["R_lite"] == [{"rank": "0", "children": {"core": "0-59", "gpu": "0-3"}}]
    assert site.run("treepool", "alloc", "-R", "-", "slot=1/core=999", stdin=R).returncode == 1


# -- what can go wrong


def command(*words, **environment):
    kept = {"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"], **environment}
    return run_process("flux-env", *map(str, words), **kept)


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_a_prefix_may_be_any_name_and_removal_leaves_what_was_there(tmp_path):
    prefix = tmp_path / "a b%c'd"
    prefix.mkdir()
    (prefix / "mine").write_text("")
    assert command("--install", "--prefix", prefix).status == 0
    script = f'eval "$("$1" flux-env)"; {CHECK}'
    words = ["sh", "-ec", script, "sh", str(prefix / "bin" / "treepool")]
    said = subprocess.run(words, env=bare(), capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert command("--uninstall", "--prefix", prefix).status == 0
    assert tree(prefix) == ["mine"]


CHECK = "treepool flux-env --check; flux treepool --version; flux submit --dry-run --same=os true"


# -- the README's path: the command of a virtual environment, and an installation below a prefix


@pytest.fixture
def venv(tmp_path):
    """``venv(script)`` runs *script* in a shell that has this checkout's command.

    It stands first on the PATH, as in a virtual environment that is active. The script has DIR, a
    prefix. Returns the finished process.
    """

    def venv(script):
        commands = tmp_path / "venv"
        commands.mkdir(exist_ok=True)
        imported = f"import sys; sys.path[0] = '{REPOSITORY}'; from treepool.__main__ import run"
        run = f'exec {sys.executable} -c "{imported}; sys.exit(run())" "$@"\n'
        (commands / "treepool").write_text(f"#!/bin/sh\n{run}")
        (commands / "treepool").chmod(0o755)
        env = {**bare(), "DIR": str(tmp_path / "p")}
        env["PATH"] = f"{commands}:{env['PATH']}"
        return subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)

    assert command("--install", "--prefix", tmp_path / "p").status == 0
    return venv


EVAL = 'eval "$(treepool flux-env --prefix $DIR)";'


@pytest.mark.parametrize("words", ["", "--prefix $DIR"])
def test_check_finds_what_the_variables_lead_to_and_no_problem(venv, tmp_path, words):
    done = venv(f"{EVAL} treepool flux-env --check {words}")
    assert done.stdout.startswith("treepool ")
    assert f" in {tmp_path}/p/lib/treepool\n" in done.stdout
    assert re.search(rf"(?m)^command treepool +{tmp_path}/venv/treepool$", done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_variables_of_the_shell_say_which_installation_is_meant(venv, tmp_path):
    done = venv(f"{EVAL} treepool flux-env; treepool flux-env --systemd")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{tmp_path}/p/lib/treepool/modules") == 2
    done = venv(f"{EVAL} treepool flux-env --uninstall")
    assert done.stdout.endswith(f" from {tmp_path}/p/lib/treepool\n")
    assert not (tmp_path / "p").exists()


def test_without_the_variables_check_says_how_to_set_them(venv, tmp_path):
    done = venv("treepool flux-env --check --prefix $DIR")
    assert done.returncode == 1
    line = f'PROBLEM: not set: eval "$(treepool flux-env --prefix {tmp_path}/p)"'
    assert re.search(rf"(?m)^variables +{re.escape(line)}$", done.stdout)


def test_what_cannot_be_a_prefix_and_what_is_not_treepool_s_is_left_alone(tmp_path):
    for name in ("a:b", "a\nb"):  # no list of paths can have these
        result = command("--install", "--prefix", tmp_path / name)
        assert result.is_one_line_error("--prefix", status=2)
    assert tree(tmp_path) == []
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "treepool").symlink_to(tmp_path)
    result = command("--install", "--prefix", tmp_path)
    assert result.is_one_line_error("exists, and is not treepool's")
    assert command("--uninstall", "--prefix", tmp_path).is_one_line_error("no treepool is")
    assert tree(tmp_path) == ["lib", "lib/treepool"]


def test_a_treepool_that_flux_s_python_cannot_use_changes_nothing(tmp_path):
    assert command("--install", "--prefix", tmp_path).status == 0
    before = tree(tmp_path)
    broken = tmp_path.with_name("broken")
    shutil.copytree(REPOSITORY / "treepool", broken / "treepool")
    (broken / "treepool" / "flux" / "sched.py").write_text("import nothing_of_this_name")
    words = [sys.executable, "-m", "treepool", "flux-env", "--install", "--prefix", str(tmp_path)]
    env = {**bare(), "PYTHONPATH": str(broken)}
    done = subprocess.run(words, cwd="/", env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("treepool flux-env: Flux's Python (3.")
    assert done.stderr.endswith(
        "cannot use this treepool: ModuleNotFoundError: No module named 'nothing_of_this_name'\n"
    )
    assert tree(tmp_path) == before


def test_the_installed_one_installs_itself_again(tmp_path):
    assert command("--install", "--prefix", tmp_path).status == 0
    before = tree(tmp_path)
    words = [str(tmp_path / "bin" / "treepool"), "flux-env", "--install", "--prefix", str(tmp_path)]
    subprocess.run(words, env=bare(), check=True, capture_output=True)
    assert tree(tmp_path) == before
    said = subprocess.run([words[0], "--version"], env=bare(), capture_output=True, text=True)
    assert said.stdout.startswith("treepool ")


def test_check_of_paths_that_cannot_be_looked_into_is_no_bug():
    names = "PYTHONPATH FLUX_MODULE_PATH_PREPEND FLUX_CLI_PLUGINPATH FLUX_MODPROBE_PATH_APPEND"
    env = {**bare(), **dict.fromkeys(names.split(), "/proc/1/root/root:/dev/null:")}
    somebody = [] if os.geteuid() else ["setpriv", "--reuid=9", "--regid=9", "--clear-groups"]
    tried = subprocess.run([*somebody, "flux", "python", "-c", ""], cwd="/", capture_output=True)
    if tried.returncode:
        pytest.skip("Flux's Python is not for all users")
    with tempfile.TemporaryDirectory() as directory:  # that others may read
        os.chmod(directory, 0o755)
        assert command("--install", "--prefix", directory).status == 0
        os.mkdir(f"{directory}/modprobe.d")  # an empty entry does not stand for where one is
        open(f"{directory}/modprobe.d/treepool.toml", "w").close()
        words = [*somebody, f"{directory}/bin/treepool", "flux-env", "--check"]
        done = subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"(?m)^modprobe +PROBLEM: not found$", done.stdout)
