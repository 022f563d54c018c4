"""doc/lsf.md: every command in it, run in a real instance, and what its job gets."""

import re

import pytest
from newcomers import begin, codes, gets, machine, run, table

from broker import REPOSITORY
from treepool.flux import options
from treepool.flux.gpuopt import parse

PAGE = (REPOSITORY / "doc" / "lsf.md").read_text()

#: What the job of each row gets: nodes, cores and GPUs on all of them, and switches.
GETS = {
    "-n8 -c4": (1, 32, 0, 1),
    "-N4 -n32": (4, 32, 0, 1),
    "-N1 -n8": (1, 8, 0, 1),
    "-N2 -n2 --exclusive": (2, 192, 8, 1),
    "-n8 -c24 -g1": (2, 192, 8, 1),
    "-N2 -n2 -g2": (2, 2, 4, 1),
    "--gpu num=2:mode=exclusive:gmodel=A100": (1, 1, 2, 1),
    "-n2 -c4 --level=socket": (1, 8, 0, 1),
    "-n2 -c4": (1, 8, 0, 1),
    "--resources-shape=slot/socket{x}/core=24": (1, 24, 1, 1),
    "-n4 -c4 --memory=64GiB": (1, 16, 0, 1),
    '--requires="fast&ib" -n1': (1, 1, 0, 1),
    "--requires=host:n1 -n1": (1, 1, 0, 1),
    "--requires=-host:n3 -n1": (1, 1, 0, 1),
    "--queue=debug -n1": (1, 1, 0, 1),
    "-t 1h -n1": (1, 1, 0, 1),
    "-N8 -n8 --within=switch": (8, 8, 0, 1),
    "-N12 -n12 --switches=2": (12, 12, 0, 2),
    "-N12 -n12": (12, 12, 0, 2),
}

ROWS = table(PAGE, "`bsub` | `flux submit` | the job gets")


@pytest.fixture(scope="module")
def cluster():
    with machine() as instance:
        begin(instance)
        yield instance
        instance.cancel_all()


def test_every_row_has_a_job():
    assert {codes(row[1])[0] for row in ROWS} == set(GETS)


@pytest.mark.parametrize("words", GETS)
def test_the_job_of_a_row_gets_what_stands_beside_it(cluster, words):
    ranks, *rest = gets(cluster, words)
    assert (len(ranks), *rest) == GETS[words]
    if "=host:n1" in words:
        assert ranks == {1}


COMMANDS = [code for row in table(PAGE, "LSF | here") for code in codes(row[1])]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_does_what_it_says(cluster, command):
    run(cluster, command)


def test_gpu_options_of_the_page_are_read_as_lsf_writes_them():
    texts = re.findall(r"-gpu (num=[^`\s]+)", PAGE)
    assert len(texts) == 4
    for text in texts:
        parse(text)


def test_the_options_of_the_scheduler_are_options():
    rows = table(PAGE, "`lsb.queues` and others | `sched-treepool` ([admin.md](admin.md#options))")
    found = [code for row in rows for code in codes(row[1]) if re.match("[a-z][a-z-]+=", code)]
    assert len(found) == 4
    for code in found:
        options.read([code])
