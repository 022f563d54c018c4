"""A year of a real machine: jobs wait no longer than by numbers of nodes, where nodes are alike."""

from pathlib import Path
from statistics import mean

import pytest

from bench import bare
from treepool.cli.cluster import FlatNodes
from treepool.cli.files import read_text
from treepool.view import swf
from treepool.view.replay import Rules, replay

THETA = Path(__file__).resolve().parents[3] / "shared" / "traces" / "theta-2022.swf.gz"


@pytest.mark.depth
@pytest.mark.skipif(not THETA.exists(), reason="no trace of a real machine beside the clone")
def test_under_easy_jobs_of_a_real_machine_wait_no_longer_than_by_numbers():
    read = swf.read(read_text(str(THETA), table=True))
    assert (read.machine.nodes, read.machine.processors) == (4360, 4360)
    jobs = read.jobs[:1000]
    (R,) = FlatNodes(4360, 1).resource_sets().values()
    outcome = replay(R, jobs, Rules("easy", "easy", 1))
    assert outcome.jobs == len(jobs)
    sizes = [int(job.shape.partition("/")[0].partition("=")[2] or 1) for job in jobs]
    numbers = [(job.submit, job.runs, job.limit, n) for job, n in zip(jobs, sizes)]
    assert outcome.wait.mean < 1.03 * mean(bare.waits(numbers, 4360))
