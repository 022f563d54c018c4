"""``treepool flux-env`` as a command; what Flux makes of it is in t/flux."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from commandline import well_behaved
from depth import some
from treepool import __version__
from treepool.flux import install, site
from treepool.flux.install import unreadable

HOME = Path("/opt/tree pool/lib/treepool")


def after(exports, variable, **environment):
    """What a shell that has run *exports* in *environment* has in *variable*."""
    env = {"PATH": os.environ["PATH"], **environment}
    script = f'{exports}\nprintf %s "${variable}"'
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_exports_go_in_front_of_what_is_set_and_behind_the_path():
    exports = "\n".join(site.exports(HOME, Path("/opt/tree pool/bin")))
    for name, path in site.variables(HOME).items():
        assert after(exports, name) == str(path)
        assert after(exports, name, **{name: "/mine:/ours"}) == f"{path}:/mine:/ours"
    assert after(exports, "PATH") == f"{os.environ['PATH']}:/opt/tree pool/bin"


def test_the_drop_in_quotes_as_systemd_reads():
    lines = site.systemd(Path('/opt/50% "x"'))
    assert lines[0] == "[Service]"
    path = r"/opt/50%% \"x\"/modules"
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


@pytest.mark.parametrize("words", [[], ["--install"], ["--uninstall"], ["--check"], ["--systemd"]])
def test_a_prefix_that_can_be_no_directory_is_a_usage_error(treepool, tmp_path, words):
    (tmp_path / "file").write_text("mine")
    for prefix, why in (
        ("", "--prefix: '' is not a directory"),
        (tmp_path / "file", f"--prefix: {tmp_path}/file: Not a directory"),
        (tmp_path / "file" / "x", f"--prefix: {tmp_path}/file/x: Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        ("a:b", "cannot be in a list of directories"),
    ):
        result = treepool("flux-env", *words, "--prefix", prefix)
        assert result.is_one_line_error(why, status=2)
    assert tree(tmp_path) == ["file"]


# -- an installation that fails


#: A Flux whose module answers with the file ``stats`` beside it.
FLUX = r"""#!/bin/sh
case "$*" in
"config get --default={} ingest.validator") cat "$(dirname "$0")/validator" ;;
"config get"*) exit 1 ;;
config*) dirname "$0" ;;
version) echo "flux-core: 0.88.0" ;;
python*) echo '["/bin/python", "3.11.2", null]' ;;
"module stats sched-treepool") cat "$(dirname "$0")/stats" ;;
esac
"""

#: What an installation does to the file system.
STEPS = ("mkdir", "symlink_to", "write_text", "chmod", "replace")


def at_step(monkeypatch, number, act):
    """Have *act* called in place of step *number* of what follows; returns a list of the steps."""
    done = []

    def instead(name):
        real = getattr(Path, name)

        def step(path, *words, **more):
            if step.inside:  # mkdir calls itself for the directories above
                return real(path, *words, **more)
            done.append(path)
            if len(done) - 1 == number:
                if name == "write_text":
                    path.touch()  # there was room for that
                act(*[str(path)] * (name == "mkdir"))  # Linux names no other file
            step.inside = name == "mkdir"
            try:
                return real(path, *words, **more)
            finally:
                step.inside = False

        step.inside = False
        monkeypatch.setattr(Path, name, step)

    for name in STEPS:
        instead(name)
    return done


@pytest.fixture(params=["prefix", "flux"])
def place(request, monkeypatch, tmp_path):
    """The words for an installation somewhere below tmp_path, or into a Flux there."""
    flux = tmp_path / "flux" / "flux"
    flux.parent.mkdir()
    flux.write_text(FLUX)
    flux.chmod(0o755)
    monkeypatch.setenv("PATH", f"{flux.parent}:{os.environ['PATH']}")
    here = site.FluxSite.here()
    monkeypatch.setattr(site.FluxSite, "here", lambda: here)  # it starts eight programs
    monkeypatch.setattr(install, "_try", lambda flux: None)
    monkeypatch.setattr(install, "unreadable", lambda *places: [])
    return ["--prefix", str(tmp_path / "a" / "b")] if request.param == "prefix" else []


def steps(monkeypatch, treepool, place):
    """How many steps an installation has, and what then is there; it is removed again."""
    with monkeypatch.context() as patched:
        done = at_step(patched, -1, None)
        assert treepool("flux-env", "--install", *place).status == 0
    assert treepool("flux-env", "--uninstall", *place).status == 0
    return len(done)


def no_space(*path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *path)


def test_on_a_full_disk_nothing_is_left_and_the_path_is_told(
    treepool, monkeypatch, tmp_path, place
):
    before = tree(tmp_path)
    number = steps(monkeypatch, treepool, place)
    for left in sorted(set(tree(tmp_path)) - set(before), reverse=True):  # an uninstall leaves some
        (tmp_path / left).rmdir()
    for step in range(number):
        with monkeypatch.context() as patched:
            at_step(patched, step, no_space)
            result = treepool("flux-env", "--install", *place)
        assert result.is_one_line_error(f" {tmp_path}", "No space left on device")
        assert ".new" not in result.err
        assert tree(tmp_path) == before, step
    assert number > 15
    assert treepool("flux-env", "--install", *place).status == 0


@pytest.mark.depth
def test_an_upgrade_on_a_full_disk_leaves_an_installation(treepool, monkeypatch, tmp_path, place):
    number = steps(monkeypatch, treepool, place)
    assert treepool("flux-env", "--install", *place).status == 0
    installed = tree(tmp_path)
    for step in range(number):
        with monkeypatch.context() as patched:
            at_step(patched, step, no_space)
            treepool("flux-env", "--install", *place)
        assert tree(tmp_path) == installed, step


def test_after_a_kill_it_can_be_installed_again_and_removed(treepool, monkeypatch, tmp_path, place):
    number = steps(monkeypatch, treepool, place)
    removed = tree(tmp_path)
    for step in some(range(number), 3):
        child = os.fork()
        if not child:
            at_step(monkeypatch, step, lambda *path: os._exit(9))
            treepool("flux-env", "--install", *place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 9
        if step % 2 and "treepool" in "".join(tree(tmp_path)):
            treepool("flux-env", "--uninstall", *place)
        result = treepool("flux-env", "--install", *place)
        assert result.status == 0, (step, result.err)
        assert treepool("flux-env", "--uninstall", *place).status == 0
        assert tree(tmp_path) == removed, step


@pytest.mark.parametrize("place", ["flux"], indirect=True)
def test_what_other_users_cannot_read_is_not_installed_and_is_a_problem_later(
    treepool, monkeypatch, tmp_path, place
):
    """Else no flux submit of theirs would work: it loads whatever is among Flux's plugins."""
    closed = tmp_path / "closed"
    (closed / "treepool").mkdir(parents=True)
    closed.chmod(0o700)
    before = tree(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(install, "unreadable", unreadable)
        patched.setattr(install, "PACKAGE", closed / "treepool")
        result = treepool("flux-env", "--install")
    assert result.is_one_line_error(f"{closed}: other users cannot read it")
    assert tree(tmp_path) == before
    assert treepool("flux-env", "--install").status == 0
    home = site.FluxSite.here().home
    home.chmod(0o700)
    result = treepool("flux-env", "--check")
    assert problem(result, "modes", str(home)) == "other users cannot read it"


# -- what is in a directory of the user's


@pytest.fixture
def copy(tmp_path):
    """``copy()`` makes an installation in tmp_path/p; returns that path."""

    def copy():
        prefix = tmp_path / "p"
        home = prefix / "lib" / "treepool"
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "treepool").write_text("")
        (home / "treepool").symlink_to(install.PACKAGE)
        (home / "libraries").symlink_to(install.LIBRARIES)
        (prefix / "bin").mkdir()
        (prefix / "bin" / "treepool").symlink_to(home / "bin" / "treepool")
        return prefix

    return copy


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_an_installation_is_removed_and_the_package_stays(treepool, copy):
    prefix = copy()
    assert treepool("flux-env", "--uninstall", "--prefix", prefix).status == 0
    assert not prefix.exists()
    assert (install.PACKAGE / "__init__.py").exists()


@pytest.mark.parametrize("version", some(["0.2\ntouch x", "\x1b[31m0.2", "", "0;ls", "1" * 99]))
def test_a_version_that_is_none_is_not_printed(treepool, copy, tmp_path, version):
    """The package may be anybody's, and a shell evaluates what is printed."""
    prefix = copy()
    package = tmp_path / "treepool"
    package.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    link = prefix / "lib" / "treepool" / "treepool"
    link.unlink()
    link.symlink_to(package)
    for words in ([], ["--check"], ["--systemd"], ["--uninstall"]):
        result = treepool("flux-env", *words, "--prefix", prefix)
        assert "touch" not in result.out and "\x1b" not in result.out and ";ls" not in result.out


def test_check_tells_that_the_package_is_gone(treepool, copy, tmp_path):
    prefix = copy()
    link = prefix / "lib" / "treepool" / "treepool"
    link.unlink()
    link.symlink_to(tmp_path / "gone")
    result = treepool("flux-env", "--check", "--prefix", prefix)
    assert result.status == 1
    first = result.out.splitlines()[0]
    assert first.endswith(f"PROBLEM: {tmp_path}/gone is not there: install it again")


def test_what_does_not_belong_to_the_installation_stays(treepool, copy, tmp_path):
    """Links that lead elsewhere, and files."""
    prefix = copy()
    (prefix / "bin" / "link").symlink_to(tmp_path)
    (prefix / "bin" / "loop").symlink_to("loop")
    (prefix / "bin" / "file").write_text("")
    assert treepool("flux-env", "--uninstall", "--prefix", prefix).status == 0
    assert tree(prefix) == ["bin", "bin/file", "bin/link", "bin/loop"]


@pytest.fixture
def answering(treepool, copy, monkeypatch, tmp_path):
    """``answering(**files)`` is the check in an instance that answers with these files."""

    def answering(**files):
        flux = tmp_path / "flux"
        flux.write_text(FLUX)
        flux.chmod(0o755)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return treepool("flux-env", "--check", "--prefix", copy())

    return answering


def problem(result, part, found):
    """What the check finds wrong with *part* at *found*; "" if nothing."""
    (line,) = [x for x in result.out.splitlines() if x.startswith(part) and found in x.split()]
    assert result.status == 1 or "PROBLEM" not in result.out
    return line.partition("PROBLEM: ")[2]


@pytest.mark.parametrize("version", ["0.1.0", __version__])
def test_another_treepool_is_a_problem(answering, monkeypatch, tmp_path, version):
    (tmp_path / "old" / "treepool").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"/nowhere:{tmp_path}/old")
    command = tmp_path / "treepool"
    command.write_text(f"#!/bin/sh\necho treepool {version}\n")
    command.chmod(0o755)
    result = answering()
    reaches = "reaches every Python: take it out"
    assert problem(result, "PYTHONPATH", f"{tmp_path}/old") == reaches
    other = "" if version == __version__ else f"another treepool: {version}"
    assert problem(result, "command treepool", str(command)) == other


@pytest.mark.parametrize(
    "stats",
    ["", "[" * 100_000, '{"version": "\\u001b[31m"}'],
    ids=lambda stats: stats[:9],
)
def test_check_in_an_instance_that_answers_anything(answering, stats):
    result = answering(stats=stats, validator=stats)
    assert result.status == 1
    assert "PROBLEM: flux module reload sched-treepool" in result.out.splitlines()[-1]
    assert well_behaved(result)


@pytest.mark.parametrize(
    ("validator", "told"),
    [
        ({"plugins": ["jobspec", "feasibility"]}, "on in this instance"),
        ({}, 'ingest.validator.plugins = ["jobspec", "feasibility"]'),
        ({"disable": True, "plugins": ["feasibility"]}, "off in this instance"),
        ({"plugins": ["\x1b" * 9999]}, "off in this instance"),
    ],
)
def test_check_tells_whether_jobs_that_can_never_run_are_refused_at_the_prompt(
    answering, validator, told
):
    result = answering(stats="{}", validator=json.dumps(validator))
    (line,) = [line for line in result.out.splitlines() if line.startswith("feasibility check")]
    assert told in line and "PROBLEM" not in line, "it is the site's choice"
    assert len(line) < 400 and well_behaved(result)
