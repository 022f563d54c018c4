"""The line format of Slurm's files: joined lines, blanks, quotes, comments, includes, refusals."""

from __future__ import annotations

import pytest

from treepool.discovery.slurmlines import File, Lines
from treepool.errors import InvalidHardware

NODES = ("nodename", "name", "autodetect")


def pairs(text, *kinds):
    lines = Lines(kinds or NODES)
    found = [dict(line.pairs) for line in lines.read(File(text))]
    assert lines.refusals == []
    return found


@pytest.mark.parametrize("text", [
    "NodeName=n[1,2] Sockets=2 CPUs=4",
    "nodename = n[1,2]   SOCKETS= 2 \t cpus =4",
    "NodeName=n[1,\\\n2] Sockets=2\\\n CPUs=4",
    "  NodeName=n[1,\\  \r\n2] Sockets=2 CPUs=4 # Sockets=8 \\\r\n",
    "NodeName=n[1,2] \\ # the comment ends here\n Sockets=2 CPUs=4",
    'NodeName="n[1,2]" Sockets="2" CPUs=4',
])  # fmt: skip
def test_a_line_is_read_as_slurm_reads_it(text):
    assert pairs(text) == [{"nodename": "n[1,2]", "sockets": "2", "cpus": "4"}]


def test_values_in_quotes_have_blanks_and_the_last_of_two_counts():
    line = 'NodeName=a Reason="not \\# ready" Gres="" Features= State=UNKNOWN Weight=1 Weight=2'
    assert pairs(line) == [{"nodename": "a", "reason": "not # ready", "gres": "", "features": "",
                            "state": "UNKNOWN", "weight": "2"}]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("NodeName n1", "'NodeName' is not KEY=VALUE"),
        ("NodeName=n1, n2 Sockets=2", "'n2' is not KEY=VALUE"),
        ("NodeName=n1 Sokets=2", "'Sokets' is no key of nodename (did you mean 'sockets'?)"),
        ("  Sockets=2", "'sockets' does not begin a line"),
        ("NodNames=n1", "'nodnames' does not begin a line (did you mean 'nodename'?)"),
        ("Include=x.conf", "'include' does not begin a line"),
        ("Include x.conf", "Include 'x.conf': is not followed: give one file with all lines"),
        ("Include %c.conf", "Include '%c.conf': no ClusterName is above"),
    ],
)
def test_a_line_with_a_known_key_is_read_in_full_or_refused_with_its_number(line, why):
    lines = Lines(NODES)
    text = f"ClusterNam=x\n\n{line}\nNodeName=good\n"
    assert [one.pairs["nodename"] for one in lines.read(File(text, "a.conf"))] == ["good"]
    assert lines.refusals == [f"a.conf: line 3: {why}"]
    assert lines.left_out() == ["1 line not understood: a.conf 3", "1 line with other keys"]


def test_the_number_is_that_of_the_first_of_joined_lines():
    lines = Lines(NODES)
    assert list(lines.read(File("\nNodeName=n1 \\\n\\\nx\n\nNodeName"))) == []
    assert lines.left_out() == ["2 lines not understood: 2, 6"]


def test_other_settings_of_slurm_are_counted_and_not_taken_for_misspelt():
    lines = Lines((*NODES, "schedulerparameters"))
    others = "SchedulerPort SuspendTime NodeSet DownNodes SwitchType PartitionName AuthType Nodefs"
    assert list(lines.read(File("".join(f"{key}=7\n" for key in others.split())))) == []
    assert lines.left_out() == ["8 lines with other keys"]


def test_an_include_stands_for_the_lines_of_a_file():
    texts = {"c7.conf": "NodeName=b\nInclude loop\n", "loop": "NodeName=c\nInclude loop"}

    def beside(name):
        if name not in texts:
            raise InvalidHardware("no such file")
        return File(texts[name], name, beside)

    lines = Lines(NODES)
    text = "ClusterName=C7\nNodeName=a\nINCLUDE\t%c.conf\nInclude gone\nNodeName=d\n"
    names = [line.pairs["nodename"] for line in lines.read(File(text, beside=beside))]
    assert names[:3] == ["a", "b", "c"] and names[-1] == "d" and len(names) < 100
    assert lines.refusals[0].startswith("loop: line 2: more than 64 files")


def test_what_scontrol_prints_has_values_with_blanks_and_no_comments():
    text = (
        "NodeName=n0 Arch=x86_64 CoresPerSocket=8 \n   CPUAlloc=0 CPUTot=32 CPULoad=0.07\n\n"
        "   OS=Linux 5.14.0 #1 SMP Mon Jan 1 \n   Gres= NewKey=3\n"
        "   Reason=Sockets = 7 is wrong [root@now]\n   Sockets=2 \n"
        "NodeName=n1 CPUTot=1 OS=Linux #1 SMP Sockets=3"
    )
    first, second = pairs(text)
    assert first["os"] == "Linux" and first["gres"] == "" and first["newkey"] == "3"
    assert (first["cputot"], first["sockets"], second["sockets"]) == ("32", "2", "3")


def test_of_many_refused_lines_the_first_are_shown():
    lines = Lines(("switchname",), complete=True)
    assert list(lines.read(File("Clustername2=x\n" * 20))) == []
    assert len(lines.refusals) == 8
    assert lines.left_out() == ["20 lines not understood: 1, 2, 3, 4, 5, 6, 7, 8 and 12 more"]
