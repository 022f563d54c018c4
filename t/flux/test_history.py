"""The mix of past jobs: ``treepool advise --mix-from instance``."""

from broker import GUEST, Instance, key_of

#: What the jobs below ask for, in the order of the GPUs that they asked for together.
MIX = "1*slot=4/[core=15;gpu],3*slot/[core=8;gpu]"

#: Three that are alike in other words, one of four GPUs, one of none.
JOBS = (
    "-n1 -c8 -g1",
    "-n1 -g1 -c8 --setattr=x=1",
    "-n1 -c8 -g1 --job-name=other",
    "-n4 -c15 -g1",
    "-n2 -c8",
)


def test_the_option_is_printed_and_a_guest_reads_his_own_jobs_alone():
    with Instance(2, 120, 8, key_of("rfc49-cluster-a")) as instance:
        instance.load("sched-treepool")
        for words in JOBS:
            instance.wait(instance.submit(*words.split(), seconds=0.01), "clean")
        done = instance.run("treepool", "advise", "--mix-from", "instance")
        said = "# 5 jobs: 2 of 2 shapes, 100 % of the GPUs that they asked for"
        assert (done.returncode, done.stdout) == (0, f'{said}\nmix = "{MIX}"\n')
        assert done.stderr == ""
        done = instance.with_env(**GUEST).run("treepool", "advise", "--mix-from", "instance")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            "treepool advise: 5 jobs could not be read",
            "treepool advise: instance: no job asked for GPUs that the cluster has",
        ]
