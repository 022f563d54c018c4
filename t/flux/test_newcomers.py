"""Pages for those who come from other systems: every job and command, run in real instances."""

import re

import attrs
import pytest
from newcomers import codes, guides, mig, run, table

from broker import REPOSITORY
from documents import blocks
from treepool.flux import options
from treepool.flux.gpuopt import parse


@attrs.frozen
class Page:
    """A page: the first line of its table of jobs, and what these get.

    ``gets`` has nodes, cores and GPUs on all of them, lowest domains of the fabric, and tasks.
    """

    name: str
    jobs: str
    gets: dict

    def rows(self, heading):
        return table(self.text, heading)

    @property
    def text(self):
        return (REPOSITORY / "doc" / self.name).read_text()


#: What rows of the pages of Slurm and LSF get: nodes, cores, GPUs, switches and tasks.
ALIKE = {
    "-n8 -c4": (1, 32, 0, 1, 8),
    "-N4 -n32": (4, 32, 0, 1, 32),
    "-N2 -n2 --exclusive": (2, 192, 8, 1, 2),
    "-n8 -c24 -g1": (2, 192, 8, 1, 8),
    "-N2 -n2 -g2": (2, 2, 4, 1, 2),
    "-n4 -c4 --memory=64GiB": (1, 16, 0, 1, 4),
    '--requires="fast&ib" -n1': (1, 1, 0, 1, 1),
    "--requires=host:n1 -n1": (1, 1, 0, 1, 1),
    "--requires=-host:n3 -n1": (1, 1, 0, 1, 1),
    "--queue=debug -n1": (1, 1, 0, 1, 1),
    "-t 1h -n1": (1, 1, 0, 1, 1),
    "-N12 -n12 --switches=2": (12, 12, 0, 2, 12),
}

SLURM = Page(
    "slurm.md",
    "Slurm | `flux submit` | the job gets",
    {
        **ALIKE,
        "-N4 -n32 -c4": (4, 128, 0, 1, 32),
        "-n8 -g1": (2, 8, 8, 1, 8),
        "-n8 -c12 -g1": (2, 96, 8, 1, 8),
        "--resources-shape=socket=2/slot/[core=24;gpu=1]": (1, 48, 2, 1, 2),
        "-N1 --gpus-per-node=4 --tasks-per-node=8": (1, 96, 4, 1, 8),
        "--gpu num=2:gmodel=A100": (1, 1, 2, 1, 1),
        "--resources-shape=socket=2/slot=2/core=4": (1, 16, 0, 1, 4),
        "-N2 -n8 --taskmap=cyclic": (2, 8, 0, 1, 8),
        "-N2 -n2 --memory=512GiB": (2, 2, 0, 1, 2),
        '--requires="fast|ib" -n1': (1, 1, 0, 1, 1),
        "-N4 -n4 --same=driver": (4, 4, 0, 1, 4),
        "--bank=physics -n1": (1, 1, 0, 1, 1),
        "-N8 -n8 --switches=1": (8, 8, 0, 1, 8),
        "-N8 -n8 --switches=1@10:00": (8, 8, 0, 1, 8),
        "--resources-shape=switch=2/node=6/slot/core=96": (12, 1152, 0, 2, 12),
        "-N12 -n12 --locality-wait=10m": (12, 12, 0, 2, 12),
        "-N12 -n12 --within=cell": (12, 12, 0, 2, 12),
        "-N16 -n16 --segment=switch:4": (16, 16, 0, 2, 16),
        "-N16 -n16 --within=cell --segment=switch:4": (16, 16, 0, 2, 16),
        "--resources-shape=switch=4/node=4/slot/core": (16, 16, 0, 4, 16),
        "-N16 -n16 --segment=cell:8,switch:4": (16, 16, 0, 2, 16),
        "-N12 -n12 --within=switch:2:balanced": (12, 12, 0, 2, 12),
        "--resources-shape=slot/switch{x}/node/core": (8, 768, 32, 1, 8),
    },
)

LSF = Page(
    "lsf.md",
    "`bsub` | `flux submit` | the job gets",
    {
        **ALIKE,
        "-N1 -n8": (1, 8, 0, 1, 8),
        "--gpu num=2:mode=exclusive_process:j_exclusive=yes": (1, 1, 2, 1, 1),
        "--gpu num=2:gmodel=A100:gmem=80G": (1, 1, 2, 1, 1),
        "--gpu num=2:glink=yes": (1, 1, 2, 1, 1),
        "--resources-shape=slot/socket=2/[core=24;gpu=1]": (1, 48, 2, 1, 1),
        "-N2 -n8 -c24 -g1": (2, 192, 8, 1, 8),
        "-N2 --tasks-per-node=8 --gpus-per-node=4": (2, 192, 8, 1, 16),
        "-n2 -c4 --level=socket": (1, 8, 0, 1, 2),
        "-n2 -c4": (1, 8, 0, 1, 2),
        "--resources-shape=slot/socket{x}/core=24": (1, 24, 1, 1, 1),
        "-N8 -n8 --within=switch": (8, 8, 0, 1, 8),
        "-N12 -n12": (12, 12, 0, 2, 12),
    },
)

KUBERNETES = Page(
    "kubernetes.md",
    "Kubernetes | `flux submit` | the job",
    {
        "-n2 -c6 -g1 -S treepool.topology_policy=none": (1, 12, 2, 1, 2),
        "-n2 -c6 -g1 -S treepool.topology_policy=best-effort": (1, 12, 2, 1, 2),
        "-n2 -c6 -g1 -S treepool.topology_policy=restricted": (1, 12, 2, 1, 2),
        "-n2 -c6 -g1 -S treepool.topology_policy=single-numa-node": (1, 12, 2, 1, 2),
        "-n2 -c4 --level=numa -S treepool.topology_scope=slot": (1, 8, 0, 1, 2),
        "-N1 -n2 -c4 --level=numa -S treepool.topology_scope=node": (1, 8, 0, 1, 2),
        "-n2 -c12 --level=socket": (1, 24, 0, 1, 2),
        "-n2 -c4 --level=l3": (1, 8, 0, 1, 2),
        "--resources-shape=slot/numa=2/core=4": (1, 8, 0, 1, 1),
        "-n1 -c4 --memory=64GiB": (1, 4, 0, 1, 1),
        "--resources-shape=slot/mig-1g.10gb/gpu": (1, 4, 1, 1, 1),
        "--requires=fast -n1": (1, 1, 0, 1, 1),
        "-N4 -n4": (4, 4, 0, 1, 4),
        "--resources-shape=switch=2/node=2/slot/core": (4, 4, 0, 2, 4),
        "-n2 -c4 -g1 --level=numa": (1, 8, 2, 1, 2),
        "-N2 -n2 --within=switch": (2, 2, 0, 1, 2),
        "-N2 -n2": (2, 2, 0, 1, 2),
        "-N3 -n3 --locality-wait=10m": (3, 3, 0, 1, 3),
        "-N4 -n4 --locality=none": (4, 4, 0, 1, 4),
        "-N16 -n16 --segment=switch:4": (16, 16, 0, 2, 16),
        "-N16 -n16 --segment=cell:8,switch:4": (16, 16, 0, 2, 16),
        "-N12 -n12 --within=switch:2:balanced": (12, 12, 0, 2, 12),
        "-N12 -n12 --within=cell": (12, 12, 0, 2, 12),
        "--flags=novalidate --resources-shape=node=2-8/slot/core": (2, 2, 0, 2, 2),
    },
)

#: Jobs that do not run in the demo: one needs MIG instances; with queues Flux refuses the other.
ELSEWHERE = (
    "--resources-shape=slot/mig-1g.10gb/gpu",
    "--flags=novalidate --resources-shape=node=2-8/slot/core",
)

#: What stands in a table of commands and cannot be run as it stands.
NO_COMMANDS = ("flux batch job.sh", "flux alloc", "flux run", "flux submit")

PAGES = (SLURM, LSF, KUBERNETES)

#: The first lines of the tables of commands, and of options of the scheduler, whose number follows.
COMMANDS = ((SLURM, "Slurm | here"), (LSF, "LSF | here"))
OPTIONS = (
    (SLURM, "`slurm.conf` and others | `sched-treepool` ([admin.md](admin.md))", 9),
    (LSF, "`lsb.queues` and others | `sched-treepool` ([admin.md](admin.md#options))", 4),
)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with guides(tmp_path_factory.mktemp("guides")) as instance:
        yield instance
        instance.cancel_all()


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    with mig(tmp_path_factory.mktemp("mig")) as instance:
        yield instance


@each_page
def test_every_row_has_a_job(page):
    assert {codes(row[1])[0] for row in page.rows(page.jobs)} == set(page.gets)


def jobs(*pages):
    """Each job of the *pages*, and what it gets."""
    found = [(page.name, *item) for page in pages for item in page.gets.items()]
    cases = [pytest.param(words, wanted, id=f"{name} {words}") for name, words, wanted in found]
    return pytest.mark.parametrize(("words", "wanted"), cases)


@jobs(*PAGES)
def test_the_job_of_a_row_gets_what_stands_beside_it_and_runs(request, words, wanted):
    cluster = request.getfixturevalue("divided" if words in ELSEWHERE else "cluster")
    ranks, *rest = cluster.gets(words)
    assert (len(ranks), *rest) == wanted
    if "=host:n1" in words:
        assert ranks == {1}
    if "fast&ib" in words:
        assert ranks <= set(range(8, 16))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(code, id=f"{page.name} {code}")
        for page, heading in COMMANDS
        for row in page.rows(heading)
        for code in codes(row[1])
        if code.startswith("flux ") and code not in NO_COMMANDS
    ],
)
def test_a_command_of_a_page_does_what_it_says(cluster, command):
    run(cluster, command)


@pytest.mark.parametrize("page", [SLURM, LSF], ids=lambda page: page.name)
def test_the_script_of_a_page_runs_its_tasks(cluster, page, tmp_path):
    (script,) = blocks(page.text, "bash")
    # This machine has not the cores to which tasks would be pinned.
    (tmp_path / "job.sh").write_text(script.replace("flux treepool bind -- ", ""))
    (tmp_path / "solve").write_text("#!/bin/sh\necho task\n")
    (tmp_path / "solve").chmod(0o755)
    options = (f"--cwd={tmp_path}", "-o", "cpu-affinity=off", "--conf=resource.noverify=true")
    job = cluster.flux("batch", *options, "--output=said", tmp_path / "job.sh")
    cluster.flux("job", "attach", job, timeout=cluster.patience)
    lines = (tmp_path / "said").read_text().splitlines()
    assert lines.count("task") == 8


@pytest.mark.parametrize(("page", "heading", "number"), OPTIONS, ids=["slurm.md", "lsf.md"])
def test_the_options_of_the_scheduler_are_options(page, heading, number):
    cells = [code for row in page.rows(heading) for code in codes(row[1])]
    found = [word for code in cells for word in code.split() if re.match("[a-z][a-z-]+=", word)]
    assert len(found) == number
    for word in found:
        options.read([word])


def test_a_time_of_slurm_is_refused_with_the_words_of_the_page(cluster):
    done = cluster.run("submit", "-t", "1:00:00", "true")
    (words,) = re.findall(r"`(invalid [^`]*)`", SLURM.text)
    assert done.returncode == 1 and words in done.stderr


def test_gpu_options_of_the_lsf_page_are_read_as_lsf_writes_them():
    texts = re.findall(r"-gpu (num=[^`\s]+)", LSF.text)
    assert len(texts) > 6
    for text in texts:
        if "gtile" not in text:
            parse(text)
