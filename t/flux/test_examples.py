"""The sh blocks of the guides that no other test runs, in a real instance, in order."""

import json
import re

import pytest

from broker import REPOSITORY, Instance
from documents import blocks
from features import HAS_FLUXION
from fluxiongraph import two_racks

PAGES = ("encode", "fabric", "questions", "requests")


def lines(page):
    """The command lines of a page's sh blocks for this instance, without their comments."""
    text = (REPOSITORY / "doc" / f"{page}.md").read_text().replace("\\\n", " ")
    here = [block for block in blocks(text, "sh") if not block.startswith("flux start")]
    typed = [line.partition("  #")[0].strip() for block in here for line in block.splitlines()]
    # test_demo.py types the line of the demo.
    return [line for line in typed if line and not line.startswith("treepool demo")]


COMMANDS = [(page, line) for page in PAGES for line in lines(page)]

#: The R of the files that the reader has: nodes like that of doc/node.xml, all with one name.
R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0-115", "children": {"core": "0-15", "gpu": "0-3"}}],
        "starttime": 0.0,
        "expiration": 0.0,
        "nodelist": ["n[0-115]"],
    },
}

#: The R of a site that runs Fluxion.
OF_FLUXION = {
    **R,
    "execution": {
        **R["execution"],
        "R_lite": [{"rank": "0-3", "children": {"core": "0-7", "gpu": "0-1"}}],
        "nodelist": ["n[0-3]"],
    },
    "scheduling": two_racks(),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the reader's files."""
    folder = tmp_path_factory.mktemp("examples")
    xml = (REPOSITORY / "doc" / "node.xml").read_text()
    (folder / "xml-of-each-host").mkdir()
    for name in ("thin", "gpu", *(f"xml-of-each-host/n{i}" for i in range(116))):
        (folder / f"{name}.xml").write_text(xml)
    (folder / "doc").symlink_to(REPOSITORY / "doc")
    (folder / "solve").write_text("#!/bin/sh\n")
    (folder / "solve").chmod(0o755)
    (folder / "bin").mkdir()
    command = folder / "bin" / "treepool"  # as flux-env --install puts it beside flux
    command.write_text('#!/bin/sh\nexec flux treepool "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def instance(here):
    """This machine, with the validator as doc/requests.md has it."""
    conf = ['ingest.validator.args=["--require-version=any"]']
    with Instance(0, conf=conf) as instance:
        instance.load("sched-treepool")
        yield instance.with_env(PATH=f"{here / 'bin'}:{instance.env['PATH']}")
        instance.cancel_all()


def test_there_are_commands():
    assert {page for page, _ in COMMANDS} == set(PAGES)


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_guide_does_what_it_says(here, instance, page, command):
    if "-R R.json" in command:
        of_fluxion = command.startswith("treepool encode -R")
        (here / "R.json").write_text(json.dumps(OF_FLUXION if of_fluxion else R))
    if "flat.json" in command:
        if not HAS_FLUXION:
            pytest.skip("Fluxion (flux-sched) is not installed: its graph was NOT read")
        (here / "flat.json").write_text(json.dumps(R))
    if '"id": 1}' in command:
        job = instance.flux("job", "id", "--to=dec", instance.submit("-n1"))
        command = command.replace('"id": 1}', f'"id": {job}}}')
    done = instance.sh(command, here)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if ">" in command:
        written = json.loads((here / command.split("> ")[-1].strip()).read_text())
        assert written["scheduling"]["children"]
    else:
        assert done.stdout
    if "fabric=off" in command:
        page = (REPOSITORY / "doc" / "fabric.md").read_text()
        shown = re.search(r"says ([\d.]+) times the fewest .*?, and ([\d.]+) times\s+without", page)
        assert (
            re.search(r"switch .*, mean +([\d.]+) +([\d.]+)", done.stdout).groups()
            == shown.groups()
        )
