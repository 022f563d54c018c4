"""Standard Workload Format: which lines become jobs, what is told of the others, the machine."""

import pytest

from treepool.view import swf
from treepool.view.trace import InvalidTrace

HEADER = "; Version: 2.2\n; UnixStartTime: 1641000000\n;   MaxNodes:  64 (of 72)\n; MaxProcs: 512\n"

#: Lines as archives have them, and what each becomes: the job's keys, or why there is none.
LINES = [
    (  # the processors that it had count, and its requested time is the limit
        "1 100 6 3600 128 -1 -1 120 7200 -1 1 17 3 -1 2 -1 -1 -1",
        {"id": "1", "submit": 1641000100, "duration": 3600, "limit": 7200,
         "shape": "slot=128/core=1", "queue": "2", "account": "17"},
    ),
    (  # a model: only what it runs on is known; blanks and fractions
        "   2\t0 -1  18.50  8 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1  ",
        {"id": "2", "submit": 1641000000, "duration": 18.5, "shape": "slot=8/core=1",
         "queue": "0"},
    ),
    (  # ended while it ran; only what it asked for is known
        "3 5 6 20 -1 -1 -1 16 600 -1 5 -1 -1 -1 -1 -1 -1 -1",
        {"id": "3", "submit": 1641000005, "duration": 20, "limit": 600,
         "shape": "slot=16/core=1"},
    ),
    (  # longer than it asked for
        "4 5 6 660 16 -1 -1 16 600 -1 0 -1 -1 -1 -1 -1 -1 -1",
        {"id": "4", "submit": 1641000005, "duration": 660, "limit": 600,
         "shape": "slot=16/core=1"},
    ),
    (  # the first job of some files
        "0 7.5 0.0 20.25 4 -1 -1 4 60.0 -1 1 -1 -1 -1 -1 -1 -1 -1",
        {"id": "0", "submit": 1641000007.5, "duration": 20.25, "limit": 60,
         "shape": "slot=4/core=1"},
    ),
    ("5 5 600 0 -1 -1 -1 16 600 -1 5 1 1 -1 1 -1 -1 -1", "cancelled before they ran"),
    ("6 5 0 0 16 -1 -1 16 600 -1 1 1 1 -1 1 -1 -1 -1", "no run time"),
    ("7 5 0 -1 16 -1 -1 16 600 -1 0 1 1 -1 1 -1 -1 -1", "no run time"),
    ("8 5 0 30 0 -1 -1 -1 600 -1 1 1 1 -1 1 -1 -1 -1", "no processors"),
    ("9 5 0 30 4 -1 -1 4 600 -1 3 1 1 -1 1 -1 -1 -1", "parts of jobs"),
]  # fmt: skip

OTHER = "99 9 0 1 1 -1 -1 1 1 -1 1 -1 -1 -1 -1 -1 -1 -1"


@pytest.mark.parametrize(("line", "becomes"), LINES, ids=[line.split()[0] for line, _ in LINES])
def test_a_line_becomes_a_job_or_is_left_out_for_a_reason(line, becomes):
    found = swf.read(f"{HEADER}{line}\r\n{OTHER}\r\n")
    if isinstance(becomes, str):
        assert found.left_out == {becomes: 1}
        return
    job = next(job for job in found.jobs if job.name != "99")
    assert job.to_dict() == becomes
    assert (job.place, found.left_out, found.misfits) == ("line 5", {}, {})


def test_what_is_left_out_changed_or_assumed_is_told_with_its_number():
    asks = "10 5 0 30 4 -1 -1 4 600 2048 1 1 1 -1 1 3 9 60"  # for memory, a partition, a job before
    found = swf.read("\n".join([HEADER, *(line for line, _ in LINES), asks, "1 2", "x " * 18]))
    assert found.remarks == [
        "5 lines left out (cancelled before they ran: 1, no run time: 2, no processors: 1, "
        "parts of jobs: 1)",
        "2 lines not understood, because a job is 18 numbers: 17, 18",
        "1 job ran longer than allowed: cut at the limit",
        "1 job without a requested time: the run time counts as the limit",
        "demands of jobs without effect (memory: 1, a partition: 1, another job to end before: 1)",
    ]


@pytest.mark.parametrize(
    ("header", "nodes", "processors", "cores"),
    [
        (HEADER, 64, 512, 8),
        ("; MaxNodes: 338\n", 338, 338, 1),
        (";maxprocs:128", 0, 128, 16),
        ("; MaxNodes: 10\n; MaxProcs: 15\n", 10, 15, 2),  # some nodes are larger than others
        ("", 0, 0, 1),
        ("; MaxNodes: many\n; Note: MaxProcs: 7\n", 0, 0, 1),
    ],
)
def test_the_header_says_how_many_nodes_there_are_and_how_large(header, nodes, processors, cores):
    machine = swf.read(f"{header}\n{OTHER}").machine
    assert (machine.nodes, machine.processors, machine.cores(8)) == (nodes, processors, cores)


@pytest.mark.parametrize(
    "text", [f"{HEADER}{OTHER}", f"\n\n{OTHER}", "  1    4272 -1      40   1", ";\n", "1 2"]
)
def test_it_is_recognised_by_its_first_line(text):
    assert swf.is_swf(text)


@pytest.mark.parametrize("text", ['{"submit": 0}', "JobID|Submit", "9" * 100, ""])
def test_other_texts_are_not_taken_for_it(text):
    assert not swf.is_swf(text)


@pytest.mark.parametrize(
    "line",
    [
        f"{OTHER} 1",
        OTHER[:-3],
        OTHER.replace("99 9 0", "99 -1 0"),
        OTHER.replace("99 9 0", "99 nan 0"),
        OTHER.replace("99 9 0", "99 \u0663 0"),
        OTHER.replace("99 9 0", "99 1e12 0"),
        OTHER.replace("0 1 1 -1", "0 1e11 1 -1"),
        OTHER.replace("0 1 1 -1", "0 1 1.5 -1"),
    ],
)
def test_a_line_that_is_no_job_is_named_and_a_file_of_them_is_an_error(line):
    assert list(swf.read(f"{OTHER}\n{line}\n").misfits.values()) == [["line 2"]]
    with pytest.raises(InvalidTrace, match=r"there is no job in it; 1 line not understood.*: 2"):
        swf.read(f";\n{line}\n")
