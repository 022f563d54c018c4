"""``treepool flux-env --install`` into Flux's own directories, done on a private machine."""

import shlex
import shutil
import subprocess
import sys

import pytest

from broker import REPOSITORY
from features import DEFAULT_SCHEDULER
from private import Machine, after_login, needs_private_machine
from treepool.flux.install import LIBRARIES, PACKAGE, unreadable

pytestmark = pytest.mark.usefixtures("root")


def treepool_at(place):
    """The command of the package in *place*."""
    return f"PYTHONPATH={place} {shlex.quote(sys.executable)} -m treepool"


#: This checkout's command, and any user's number.
TREEPOOL = treepool_at(REPOSITORY)
SOMEBODY = 12345

#: An instance that has chosen sched-treepool, and one of two sockets whose R has a key.
CHOSEN = "flux start --conf=modules.alternatives.sched=sched-treepool"
KEYED = """
echo '{"writer": "TreePool", "children": [{"ranks": "0", "topo": {"socket": [
        {"cores": "0-3"}, {"cores": "4-7"}]}}]}' >/var/key.json
flux R encode -r0 -c0-7 -Hnode0 | jq --slurpfile key /var/key.json '.scheduling = $key[0]' >/var/R
flux start --conf=resource.path=/var/R --conf=resource.noverify=true \
    sh -c "flux run true; flux dmesg"
"""


@pytest.fixture(scope="module")
def root():
    needs_private_machine()
    if unreadable(PACKAGE, LIBRARIES):
        pytest.skip("other users cannot read this checkout or its libraries")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A machine on which root installed treepool, with a umask that gives others nothing."""
    with Machine(tmp_path_factory.mktemp("installed")) as machine:
        machine.sh(f"umask 077; {TREEPOOL} flux-env --install")
        yield machine


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A machine on which Flux has run already, without treepool, as each test leaves it."""
    with Machine(tmp_path_factory.mktemp("machine")) as machine:
        machine.sh("flux start flux submit --dry-run true")
        yield machine


def runs(python):
    """The path of *python*, if it is there and more than a wrapper for what is not."""
    path = shutil.which(python)
    return path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0


def by_user(machine, script):
    return machine.sh(script, user=SOMEBODY, env={**after_login(), "HOME": "/tmp"})


# -- everything is there, without a variable


def test_check_finds_every_part_and_no_problem(installed):
    said = by_user(installed, "treepool flux-env --check")
    assert "PROBLEM" not in said
    for path in (
        "/usr/local/bin/treepool",
        "/usr/local/libexec/flux/cmd/flux-treepool.py",
        "/usr/local/lib/flux/modules/sched-treepool.py",
        "/usr/local/libexec/flux/cli/plugins/treepool.py",
        "/usr/local/share/flux/modprobe/modprobe.d/treepool.toml",
        "/usr/local/libexec/flux/modprobe/rc1.d/treepool.py",
    ):
        assert f" {path}\n" in said


def test_a_user_has_the_command_the_subcommand_and_the_options_of_submit(installed):
    said = by_user(
        installed,
        "treepool --version; flux treepool --version; flux 2>&1 | grep treepool;"
        "flux submit --dry-run --locality=required true | jq -c .attributes.system.treepool",
    )
    first, second, helped, options = said.splitlines()
    assert first == second and first.startswith("treepool ")
    assert helped.split()[0] == "treepool"
    assert options == '{"locality":"required"}'


def test_a_user_s_instance_has_the_module_if_its_configuration_chooses_it(installed):
    said = by_user(installed, f"{CHOSEN} flux module list")
    assert "sched-treepool" in said
    assert "sched-simple" not in said


def test_an_r_with_a_key_gets_its_pool_by_the_writer(installed):
    assert "pool-class=treepool" in installed.sh(KEYED)


# -- nothing else notices


def test_a_job_s_python_is_as_it_is_without_flux(installed, tmp_path):
    """Also a virtual environment's, of whichever version of Python."""
    tmp_path.chmod(0o755)
    others = filter(runs, (f"python3.{minor}" for minor in range(9, 14)))
    venvs = []
    for number, python in enumerate([sys.executable, *map(shutil.which, others)]):
        venvs.append(f"{tmp_path}/venv{number}")
        installed.sh(f"{python} -m venv --without-pip {venvs[-1]}")
    (tmp_path / "tell.py").write_text("import sys; print(sys.path[1:])")
    tell = "\n".join(f"{venv}/bin/python {tmp_path}/tell.py" for venv in venvs)
    (tmp_path / "tell.sh").write_text(f"{tell}\necho variable $PYTHONPATH")
    said = installed.sh(f"sh {tmp_path}/tell.sh; {CHOSEN} flux run sh {tmp_path}/tell.sh")
    outside, inside, rest = said.split("variable")
    assert inside.split() == outside.split() and len(outside.splitlines()) == len(venvs)
    assert rest.strip() == ""


def test_flux_s_python_finds_one_name_of_it_and_a_user_s_none(installed):
    found = "[bool(u.find_spec(name)) for name in ('treepool', 'TreePool')]"
    script = f"import importlib.util as u; print({found})"
    for python, names in (("/usr/bin/python3", [False, False]), ("flux python", [False, True])):
        assert by_user(installed, f'{python} -c "{script}"').strip() == str(names)


# -- upgrade and removal


def test_removal_leaves_nothing_whoever_used_it_and_however_often_it_was_installed(machine):
    before = machine.changed()
    for _ in range(2):
        machine.sh(f"{TREEPOOL} flux-env --install")
    machine.sh(f"{CHOSEN} flux submit --wait --locality=required true")
    machine.sh(KEYED)
    assert any("__pycache__/sched-treepool" in path for path in machine.changed())
    assert "removed treepool" in machine.sh(
        "treepool flux-env --uninstall; rm /var/R /var/key.json"
    )
    assert machine.changed() == before
    lists = (
        "find /usr/local/lib/flux /usr/local/libexec /usr/local/share/flux /usr/local/bin | sort"
    )
    theirs = set(subprocess.check_output(lists, shell=True, text=True).splitlines())
    assert {path for path in machine.sh(lists).splitlines() if "pycache" not in path} == {
        path for path in theirs if "pycache" not in path
    }


def test_an_upgrade_replaces_everything_of_the_version_before(machine, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(REPOSITORY / "treepool", old / "treepool")
    init = old / "treepool" / "__init__.py"
    init.write_text(init.read_text().replace("__version__ =", '__version__ = "0.0.9"  #'))
    install = old / "treepool" / "flux" / "install.py"
    link = 'flux.help / "gone.json": home / "treepool/gone.py",'
    install.write_text(install.read_text().replace("flux.help /", f"{link} flux.help /", 1))
    machine.sh(f"cp -r {old} /opt/old; {treepool_at('/opt/old')} flux-env --install")
    assert machine.sh("treepool --version") == "treepool 0.0.9\n"
    assert any("gone" in path for path in machine.changed())
    running = f"""{CHOSEN} sh -c '
        {TREEPOOL} flux-env --install >/dev/null; treepool flux-env --check | tail -n1
        flux module reload sched-treepool; treepool flux-env --check | tail -n1'"""
    before, after = machine.sh(running).splitlines()
    assert before.endswith("sched-treepool 0.0.9  PROBLEM: flux module reload sched-treepool")
    assert "PROBLEM" not in after
    assert not any("gone" in path for path in machine.changed())
    machine.sh("treepool flux-env --uninstall; rm -r /opt/old")


def test_what_is_not_treepool_s_is_left_alone(machine):
    theirs = "/usr/local/lib/flux/modules/sched-treepool.py"
    machine.sh(f"echo '# mine' >{theirs}")
    before = machine.changed()
    done = machine.run(f"{TREEPOOL} flux-env --install")
    assert done.returncode == 1
    assert done.stderr == f"treepool flux-env: {theirs}: exists, and is not treepool's\n"
    assert machine.changed() == before
    machine.sh(f"rm {theirs}")


def test_flux_works_where_the_package_is_not_there(machine):
    """As when its file system is not mounted on a node: only what needs treepool fails."""
    machine.sh(f"mkdir /opt/old; cp -r {REPOSITORY}/treepool /opt/old")
    machine.sh(f"{treepool_at('/opt/old')} flux-env --install; rm -r /opt/old")
    said = machine.sh("flux help; flux start sh -c 'flux submit --wait true; flux module list'")
    assert DEFAULT_SCHEDULER in said
    assert "pool-class=TreePool" in machine.sh(KEYED + "rm /var/R /var/key.json")
    failed = machine.run("flux submit --dry-run --locality=required true")
    assert failed.returncode == 2
    assert "unrecognized arguments: --locality=required" in failed.stderr
    assert (
        "PROBLEM: /opt/old/treepool is not there"
        in machine.run(f"{TREEPOOL} flux-env --check").stdout
    )
    machine.sh(f"{TREEPOOL} flux-env --uninstall")
    assert not any("treepool" in path for path in machine.changed() if "pycache" not in path)
