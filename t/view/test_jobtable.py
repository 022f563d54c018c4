"""What sacct prints becomes a trace: each row a job, or left out; what is wrong is told."""

import re

import pytest

from treepool.view import jobtable, trace
from treepool.view.trace import InvalidTrace

CENTURY = 100 * 365.25 * 86400
HEADER = "JobID|Submit|Eligible|Elapsed|Timelimit|AllocTRES|NNodes|Partition|Account|Priority|State"

#: Rows as sacct prints them, and what each becomes: the job's keys, or why there is none.
ROWS = [
    (
        "7|2026-11-02T08:00:00|2026-11-02T08:00:00|02:00:00|04:00:00"
        "|billing=8,cpu=8,gres/gpu=1,mem=64G,node=1|1|batch|bio|4294901757|COMPLETED",
        {"submit": 1793606400, "duration": 7200, "limit": 14400,
         "shape": "slot=1/[core=8;gpu=1]", "queue": "batch", "account": "bio",
         "priority": 4294901757},
    ),
    (
        "7.batch|2026-11-02T08:00:00|2026-11-02T08:00:00|02:00:00||cpu=8,mem=64G,node=1|1||bio||",
        "steps of jobs",
    ),
    ("7.0|2026-11-02T08:00:00||02:00:00||cpu=8,mem=64G,node=1|1||bio||", "steps of jobs"),
    (  # held for an hour; two nodes; a kind of GPU; ended a little after its limit
        "8_3|2026-11-02T08:00:00|2026-11-02T09:00:00|1-00:00:30|1-00:00:00"
        "|cpu=7,gres/gpu:a100=2,node=2|2|batch||1|TIMEOUT",
        {"submit": 1793610000, "duration": 86430, "limit": 86400,
         "shape": "node=2/slot=1/[core=4;gpu=1]", "queue": "batch", "priority": 1},
    ),
    (  # all and of a kind: the same GPUs
        "9+1|2026-11-02T08:00:00||00:00:01|UNLIMITED|cpu=2,gres/gpu:v100=2,gres/gpu=2|1|||0|FAILED",
        {"submit": 1793606400, "duration": 1, "limit": CENTURY, "shape": "slot=1/[core=2;gpu=2]"},
    ),
    (
        "10|2026-11-02T08:00:00Z|Unknown|00:05:00|Partition_Limit|cpu=2,gres/gpumem=4G|1||||",
        {"submit": 1793606400, "duration": 300, "shape": "slot=1/core=2"},
    ),
    ("11|2026-11-02T08:00:00|Unknown|00:00:00|01:00:00||1|batch|bio|1|CANCELLED", "did not run"),
    ("12|2026-11-02T08:00:00||||||||| PENDING", "did not run"),
    ("13|2026-11-02T08:00:00||00:10:00|||1|batch|bio|1|COMPLETED", "no cores"),
    ("14|1793606400||600|900|cpu=1|||||", {"submit": 1793606400, "duration": 600, "limit": 900,
                                           "shape": "slot=1/core=1"}),
]  # fmt: skip


@pytest.mark.parametrize(("row", "becomes"), ROWS, ids=[row.partition("|")[0] for row, _ in ROWS])
def test_a_row_of_sacct_becomes_a_job_or_is_left_out_for_a_reason(row, becomes):
    other = "99|2026-11-02T08:00:00||00:00:01||cpu=1|1||||"
    found = jobtable.read(f"{HEADER}\n{row}\n{other}\n")
    if isinstance(becomes, str):
        assert found.left_out == {becomes: 1}
        return
    job = next(job for job in found.jobs if job.name != "99")
    assert job.to_dict() == {"id": row.partition("|")[0], **becomes}
    assert (job.place, found.left_out) == ("line 2", {})


def test_a_whole_table_is_told_in_few_remarks_and_can_be_written_as_a_trace():
    found = jobtable.read("\n".join([HEADER, *(row for row, _ in ROWS)]))
    assert found.remarks == [
        "5 lines left out (steps of jobs: 2, did not run: 2, no cores: 1)",
        "columns without effect: 'State' (see --column)",
        "1 job ran longer than allowed: cut at the limit",
    ]
    assert [job.place for job in found.jobs] == ["line 2", "line 6", "line 7", "line 11", "line 5"]
    again = trace.read("\n".join(trace.write(found.jobs))).jobs
    assert [job.to_dict() for job in again] == [job.to_dict() for job in found.jobs]


@pytest.mark.parametrize(
    ("header", "row", "shape"),
    [
        (
            "Submit|Elapsed|ReqTRES|AllocTRES",
            "0|9|cpu=2,gres/gpu=1|cpu=64,node=1",
            "slot=1/core=64",
        ),
        ("Submit|Elapsed|ReqTRES|AllocTRES", "0|9|cpu=2,gres/gpu=1|", "slot=1/[core=2;gpu=1]"),
        ("Submit|Elapsed|AllocTRES|NCPUS|NNodes", "0|9||6|3", "node=3/slot=1/core=2"),
        ("Submit|ElapsedRaw|AllocCPUS", "0|9|6", "slot=1/core=6"),
        ("SUBMIT|elapsed|ncpus|", "0|9|6|", "slot=1/core=6"),  # sacct --parsable
        ("Submit,Elapsed,AllocTRES", '0,00:09,"cpu=4,node=2"', "node=2/slot=1/core=2"),
        ("submit,duration,shape", "0,9,slot=2/node{x}", "slot=2/node{x}"),
        ('"submit","duration","shape"', '0,9,"slot=1/[core=2;gpu=1]"', "slot=1/[core=2;gpu=1]"),
        ("submit_time,run_time,cpu_num,gpu_num,node_num", "0,9,32.0,8,2",
         "node=2/slot=1/[core=16;gpu=4]"),
        ("SubmitTime|Elapsed|NumCPUs|NumNodes|NumGPUs", "0|9|8|1|0", "slot=1/core=8"),
        ("Submit|Elapsed|NCPUS|AllocGRES", "0|9|8|gpu:2", "slot=1/[core=8;gpu=2]"),
        ("Submit|Elapsed|NCPUS|AllocGRES", "0|9|8|craynetwork:1,gpu:a100:2(IDX:0,1)",
         "slot=1/[core=8;gpu=2]"),
        ("Submit|Elapsed|NCPUS|AllocGRES", "0|9|8|gpu:a100", "slot=1/[core=8;gpu=1]"),
        ("Submit|Elapsed|NCPUS|AllocGRES", "0|9|8|", "slot=1/core=8"),
        ("Submit|Elapsed|NCPUS|AllocGRES|AllocTRES", "0|9|9|gpu:2|cpu=8,gres/gpu=4",
         "slot=1/[core=8;gpu=4]"),
    ],
)  # fmt: skip
def test_what_a_job_asked_for_is_in_the_first_column_that_tells_whatever_its_name(
    header, row, shape
):
    (job,) = jobtable.read(f"{header}\r\n{row}\r\n").jobs
    assert (job.shape, job.duration, job.limit) == (shape, 9, 9)


def test_a_column_can_be_chosen():
    chosen = {"submit": "start", "gpus": "ReqGRES", "queue": "vc", "duration": "secs"}
    table = "start,secs,NCPUS,NNodes,ReqGRES,vc,Partition\n5,9,4,2,PER_NODE:gpu:1,v3,p\n"
    (job,) = jobtable.read(table, columns=chosen).jobs
    assert (job.submit, job.queue, job.shape) == (5, "v3", "node=2/slot=1/[core=2;gpu=1]")
    with pytest.raises(InvalidTrace, match="line 1: there is no column 'ReqGRE'"):
        jobtable.read(table, columns={**chosen, "gpus": "ReqGRE"})


def test_columns_that_count_only_if_they_are_chosen_are_told():
    table = "Submit|Elapsed|NCPUS|ReqGRES|queue\n0|9|8|gpu:2|38.5\n"
    found = jobtable.read(table)
    assert [job.queue for job in found.jobs] == [""]
    assert found.remarks == ["columns without effect: 'ReqGRES', 'queue' (see --column)"]
    (job,) = jobtable.read(table, columns={"queue": "queue", "gpus": "ReqGRES"}).jobs
    assert (job.queue, job.shape) == ("38.5", "slot=1/[core=8;gpu=2]")


def test_several_months_of_sacct_in_one_file_are_read_as_one():
    header = "JobID|Submit|Elapsed|NCPUS"
    rows = [header, "7|0|50|1", "8|10|60|2", header, "8|10|90|2", "8|20|5|2", header.upper()]
    found = jobtable.read("\n".join(rows))
    assert [(job.name, job.submit, job.duration) for job in found.jobs] == [
        ("7", 0, 50), ("8", 10, 90), ("8", 20, 5),
    ]  # fmt: skip
    assert found.remarks == ["1 line left out (listed again below: 1)"]


def test_a_line_with_other_than_the_number_of_values_is_named():
    rows = ["JobID|JobName|Submit|Elapsed|NCPUS", "1|a|0|9|1", "2|a|b|0|9|1", "echo", "3|c|0|9|1"]
    found = jobtable.read("\n".join(rows))
    assert [job.name for job in found.jobs] == ["1", "3"]
    assert found.remarks[0] == (
        "2 lines not understood, because the first line names 5 columns: 3, 4"
    )


def test_limits_in_minutes_and_times_with_a_zone():
    (job,) = jobtable.read(
        "Submit|Elapsed|TimelimitRaw|NCPUS\n2026-11-02T09:00:00+01:00|9|90|1"
    ).jobs
    assert (job.submit, job.limit) == (1793606400, 5400)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("JobID", "line 1: column Submit or SubmitTime is needed (or --column submit=NAME)"),
        ("JobID|Submitt|Elapsed|NCPUS\n", "is needed (did you mean 'Submit'?)"),
        ("       JobID              Submit    Elapsed \n", "line 1: values are separated by | or"),
        ("Submit|NCPUS\n", "line 1: one of"),
        ("Submit|Elapsed\n", "line 1: one of"),
        ("Submit|Elapsed|NCPUS|submit\n", "line 1: column 'submit' is there twice"),
        ("Submit|Elapsed|NCPUS\n", "there is no job in it"),
        ("Submit|Elapsed|NCPUS\n1|0|4", "no job in it; 1 line left out (did not run: 1)"),
        (
            "Submit|Elapsed|NCPUS\n1|2",
            "no job in it; 1 line not understood, because the first line names 3 columns: 2",
        ),
        ("Submit|Elapsed|NCPUS\nyesterday|2|3", "line 2: Submit: must be a time such as 2026-"),
        ("Submit|Elapsed|NCPUS\nUnknown|2|3", "line 2: Submit: must be a time, not 'Unknown'"),
        ("Submit|Elapsed|NCPUS\n0001-01-01T00:00:00|2|3", "line 2: Submit: must be a time"),
        (
            "Submit|Elapsed|NCPUS\n\n1|-2|3",
            "line 3: Elapsed: must be a time such as 1-10:00:00, or up to",
        ),
        ("Submit|Elapsed|NCPUS\n1|1:2:3:4|3", "line 2: Elapsed: must be"),
        ("Submit|Elapsed|NCPUS\n1|nan|3", "line 2: Elapsed: must be"),
        ("Submit|Elapsed|NCPUS\n1|999999-00:00:00|3", "line 2: Elapsed: must be"),
        ("Submit|Elapsed|NCPUS\n1|2|three", "line 2: NCPUS: must be a whole number"),
        ("Submit|Elapsed|NCPUS\n1|2|\u0663", "line 2: NCPUS: must be a whole number"),
        ("Submit|Elapsed|NCPUS|NNodes\n1|2|3|2-4", "line 2: NNodes: must be a whole number"),
        ("Submit|Elapsed|ReqTRES\n1|2|cpu", "line 2: ReqTRES: 'cpu' is not NAME=NUMBER"),
        ("Submit|Elapsed|ReqTRES\n1|2|cpu=1,gres/gpu=-1", "'gres/gpu=-1' is not"),
        ("Submit|Elapsed|NCPUS|Priority\n1|2|3|4294967296", "line 2: Priority: must be a whole"),
        ("Submit|Elapsed|NCPUS|Timelimit\n1|2|3|soon", "line 2: Timelimit: must be a time"),
        ("Submit|Elapsed|NCPUS|Account\n1|2|3|" + "a" * 129, "line 2: Account: must be a name of"),
        ('Submit,Elapsed,NCPUS\n1,2,"3', "line 2: "),
        ("Submit|Elapsed|NCPUS\n1|2|" + "x" * 200_000, "line 2: "),
        ("a," * 2000, "line 1: more than 1000 columns"),
    ],
)
def test_what_is_wrong_is_told_with_the_line_and_the_column(text, words):
    assert jobtable.is_table(text)
    with pytest.raises(InvalidTrace) as e:
        jobtable.read(text)
    message = str(e.value)
    assert re.sub("column one of .* is needed", "one of", message).startswith(words) or (
        words in message
    )
    assert message.isprintable()
    assert len(message) < 400
