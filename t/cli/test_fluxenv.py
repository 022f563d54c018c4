"""``treepool flux-env`` as a command; what Flux makes of it is in t/flux."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from commandline import well_behaved
from treepool.flux import copying, site

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


# -- the receipt of a copy is anybody's text


@pytest.fixture
def copy(tmp_path):
    """``copy(**changes)`` makes a copy with a changed receipt in tmp_path/p; returns that path."""

    def copy(**changes):
        prefix = tmp_path / "p"
        home = prefix / "lib" / "treepool"
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "treepool").write_text("")
        (prefix / "bin").mkdir()
        (prefix / "bin" / "treepool").symlink_to(home / "bin" / "treepool")
        receipt = {
            "prefix": str(prefix),
            "version": "0.2.0",
            "links": [str(prefix / "bin" / "treepool")],
            "directories": [str(prefix), str(prefix / "lib"), str(prefix / "bin")],
        }
        (home / "receipt.json").write_text(json.dumps({**receipt, **changes}))
        return prefix

    return copy


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def refused(treepool, prefix):
    """Whether the receipt in *prefix* is a one-line error everywhere, and nothing is removed."""
    receipt = prefix / "lib" / "treepool" / "receipt.json"
    before = tree(prefix.parent)
    for words in ([], ["--check"], ["--check", "--json"], ["--systemd"], ["--uninstall"]):
        result = treepool("flux-env", *words, "--prefix", prefix)
        assert result.is_one_line_error(f"{receipt}: ", f"remove {receipt.parent}")
        assert result.out == ""
    return tree(prefix.parent) == before


def test_a_copy_with_its_receipt_is_removed(treepool, copy):
    prefix = copy()
    assert treepool("flux-env", "--uninstall", "--prefix", prefix).status == 0
    assert not prefix.exists()


@pytest.mark.parametrize("version", ["0.2\ntouch x", "\x1b[31m0.2", "", "0;ls", 2, None, "1" * 99])
def test_a_version_is_one(treepool, copy, version):
    assert refused(treepool, copy(version=version))


@pytest.mark.parametrize("key", ["links", "directories"])
@pytest.mark.parametrize(
    "paths",
    [
        ["/etc/x"],
        ["{p}/../x"],
        ["{p}x"],
        ["bin"],
        ["{p}/\x1b[31m"],
        ["{p}/\0"],
        [3],
        [["{p}/x"]],
        "{p}/x",
        {"{p}/x": "{p}/x"},
        None,
    ],
)
def test_nothing_outside_the_prefix_is_the_copy_s(treepool, copy, tmp_path, key, paths):
    text = json.dumps({key: paths}).replace("{p}", str(tmp_path / "p"))
    assert refused(treepool, copy(**json.loads(text)))


@pytest.mark.parametrize("prefix", [None, "/", "lib", 7, "/usr/local", "{p}/lib/..", "{other}"])
def test_a_copy_below_a_prefix_is_of_that_prefix(treepool, copy, tmp_path, prefix):
    other = tmp_path / "other"  # from which a link leads to the same copy
    other.mkdir()
    (other / "lib").symlink_to(tmp_path / "p" / "lib")
    if isinstance(prefix, str):
        prefix = prefix.format(p=tmp_path / "p", other=other)
    assert refused(treepool, copy(prefix=prefix))


def test_a_copy_is_removed_by_its_own_command_only_if_its_prefix_leads_to_it(
    treepool, copy, monkeypatch, tmp_path
):
    prefix = copy(prefix=str(tmp_path), links=[str(tmp_path / "link")], directories=[])
    home = prefix / "lib" / "treepool"
    (tmp_path / "link").symlink_to(home / "bin" / "treepool")
    monkeypatch.setattr(copying, "PACKAGE", home / "treepool")
    result = treepool("flux-env", "--uninstall")
    assert result.is_one_line_error(f"{home}/receipt.json: /prefix")
    assert (tmp_path / "link").exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "x", b"\xff", "[" * 100_000, '{"version":' * 60_000, " " * 10_000_000],
    ids=lambda text: f"{text[:9]!r} {len(text)}",
)
def test_a_file_that_is_no_receipt(treepool, copy, text):
    prefix = copy()
    receipt = prefix / "lib" / "treepool" / "receipt.json"
    receipt.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refused(treepool, prefix)


def test_a_receipt_without_an_end(treepool, copy):
    prefix = copy()
    receipt = prefix / "lib" / "treepool" / "receipt.json"
    receipt.unlink()
    os.mkfifo(receipt)
    assert refused(treepool, prefix)
    receipt.unlink()
    receipt.symlink_to("/dev/zero")
    assert refused(treepool, prefix)


def test_what_does_not_belong_to_the_copy_stays(treepool, copy, tmp_path):
    """Links that lead elsewhere, files, and folders without a link to the copy."""
    prefix = copy()
    (prefix / "mine" / "empty").mkdir(parents=True)
    (prefix / "mine" / "link").symlink_to(tmp_path)
    (prefix / "mine" / "loop").symlink_to("loop")
    (prefix / "mine" / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (prefix / "away").symlink_to(tmp_path)
    listed = [str(path) for path in prefix.rglob("*") if "treepool" not in path.parts]
    receipt = prefix / "lib" / "treepool" / "receipt.json"
    told = json.loads(receipt.read_text())
    told["links"] += listed
    told["directories"] += [*listed, str(prefix / "away" / "empty")]
    receipt.write_text(json.dumps(told))
    assert treepool("flux-env", "--uninstall", "--prefix", prefix).status == 0
    mine = ["mine", "mine/empty", "mine/file", "mine/link", "mine/loop"]
    assert tree(prefix) == sorted(["away", *mine])
    assert (tmp_path / "empty").is_dir()


def test_a_copy_that_is_reached_through_a_link_is_removed_with_its_own(treepool, copy, tmp_path):
    prefix = copy()
    there = tmp_path / "there"
    there.symlink_to(prefix)
    link = prefix / "bin" / "treepool"
    link.unlink()
    link.symlink_to(there / "lib" / "treepool" / "bin" / "treepool")
    receipt = prefix / "lib" / "treepool" / "receipt.json"
    receipt.write_text(receipt.read_text().replace(str(prefix), str(there)))
    assert treepool("flux-env", "--uninstall", "--prefix", prefix).status == 0
    assert tree(prefix) == []


#: A Flux whose module answers with the file ``stats`` beside it.
FLUX = r"""#!/bin/sh
case "$*" in
config*) dirname "$0" ;;
version) echo "flux-core: 0.88.0" ;;
python*) echo '["/bin/python", "3.11.2", null]' ;;
"module stats sched-treepool") cat "$(dirname "$0")/stats" ;;
esac
"""


@pytest.mark.parametrize(
    "stats",
    ["", "[]", "[" * 100_000, '{"version": ["\\u001b[31m"]}', '{"version": "\\u001b[31m"}'],
    ids=lambda stats: stats[:9],
)
def test_check_in_an_instance_that_answers_anything(treepool, copy, monkeypatch, tmp_path, stats):
    flux = tmp_path / "flux"
    flux.write_text(FLUX)
    flux.chmod(0o755)
    (tmp_path / "stats").write_text(stats)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = treepool("flux-env", "--check", "--prefix", copy())
    assert result.status == 1
    assert "PROBLEM: flux module reload sched-treepool" in result.out.splitlines()[-1]
    assert well_behaved(result)
