"""Pages for those who come from other systems: every command, run in a real instance."""

import re

import attrs
import pytest
from newcomers import begin, codes, gets, machine, run, table

from broker import REPOSITORY
from treepool.flux import options
from treepool.flux.gpuopt import parse


@attrs.frozen
class Page:
    """A page: the first lines of its tables, and what its jobs get.

    ``gets`` has nodes, cores and GPUs on all of them, and switches.
    """

    name: str
    jobs: str
    commands: str
    options: str
    noptions: int
    gets: dict

    def rows(self, heading):
        return table(self.text, heading)

    @property
    def text(self):
        return (REPOSITORY / "doc" / self.name).read_text()


#: What rows of both pages get: nodes, cores, GPUs and switches.
ALIKE = {
    "-n8 -c4": (1, 32, 0, 1),
    "-N4 -n32": (4, 32, 0, 1),
    "-N2 -n2 --exclusive": (2, 192, 8, 1),
    "-n8 -c24 -g1": (2, 192, 8, 1),
    "-N2 -n2 -g2": (2, 2, 4, 1),
    "-n4 -c4 --memory=64GiB": (1, 16, 0, 1),
    '--requires="fast&ib" -n1': (1, 1, 0, 1),
    "--requires=host:n1 -n1": (1, 1, 0, 1),
    "--requires=-host:n3 -n1": (1, 1, 0, 1),
    "--queue=debug -n1": (1, 1, 0, 1),
    "-t 1h -n1": (1, 1, 0, 1),
    "-N12 -n12 --switches=2": (12, 12, 0, 2),
}

PAGES = (
    Page(
        "slurm.md",
        "Slurm | `flux submit` | the job gets",
        "Slurm | here",
        "`slurm.conf` and others | `sched-treepool` ([admin.md](admin.md))",
        7,
        {
            **ALIKE,
            "-N4 -n32 -c4": (4, 128, 0, 1),
            "-n8 -g1": (2, 8, 8, 1),
            "--gpu num=2:gmodel=A100": (1, 1, 2, 1),
            "--resources-shape=socket=2/slot=2/core=4": (1, 16, 0, 1),
            "-N8 -n8 --switches=1": (8, 8, 0, 1),
            "-N8 -n8 --switches=1@10:00": (8, 8, 0, 1),
            "--resources-shape=switch=2/node=6/slot/core=96": (12, 1152, 0, 2),
            "-N12 -n12 --locality-wait=10m": (12, 12, 0, 2),
            "-N12 -n12 --within=cell": (12, 12, 0, 2),
            "-N16 -n16 --segment=switch:4": (16, 16, 0, 2),
            "-N16 -n16 --segment=cell:8,switch:4": (16, 16, 0, 2),
            "-N12 -n12 --within=switch:2:balanced": (12, 12, 0, 2),
            "--resources-shape=slot/switch{x}/node/core": (8, 768, 32, 1),
        },
    ),
    Page(
        "lsf.md",
        "`bsub` | `flux submit` | the job gets",
        "LSF | here",
        "`lsb.queues` and others | `sched-treepool` ([admin.md](admin.md#options))",
        4,
        {
            **ALIKE,
            "-N1 -n8": (1, 8, 0, 1),
            "--gpu num=2:mode=exclusive:gmodel=A100": (1, 1, 2, 1),
            "-n2 -c4 --level=socket": (1, 8, 0, 1),
            "-n2 -c4": (1, 8, 0, 1),
            "--resources-shape=slot/socket{x}/core=24": (1, 24, 1, 1),
            "-N8 -n8 --within=switch": (8, 8, 0, 1),
            "-N12 -n12": (12, 12, 0, 2),
        },
    ),
)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def cluster():
    with machine() as instance:
        begin(instance)
        yield instance
        instance.cancel_all()


@each_page
def test_every_row_has_a_job(page):
    assert {codes(row[1])[0] for row in page.rows(page.jobs)} == set(page.gets)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(*item, id=f"{page.name} {item[0]}")
        for page in PAGES
        for item in page.gets.items()
    ],
)
def test_the_job_of_a_row_gets_what_stands_beside_it(cluster, words, wanted):
    ranks, *rest = gets(cluster, words)
    assert (len(ranks), *rest) == wanted
    if "=host:n1" in words:
        assert ranks == {1}
    if "fast&ib" in words:
        assert ranks <= set(range(8, 16))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(code, id=f"{page.name} {code}")
        for page in PAGES
        for row in page.rows(page.commands)
        for code in codes(row[1])
    ],
)
def test_a_command_of_a_page_does_what_it_says(cluster, command):
    run(cluster, command)


@each_page
def test_the_options_of_the_scheduler_are_options(page):
    rows = page.rows(page.options)
    found = [code for row in rows for code in codes(row[1]) if re.match("[a-z][a-z-]+=", code)]
    assert len(found) == page.noptions
    for code in found:
        options.read([code])


def test_gpu_options_of_the_lsf_page_are_read_as_lsf_writes_them():
    texts = re.findall(r"-gpu (num=[^`\s]+)", PAGES[1].text)
    assert len(texts) == 4
    for text in texts:
        parse(text)
