"""``treepool bind`` without Flux: from an R and hwloc XML; and what it runs."""

import json
import os
import signal

import pytest

from commandline import run_process
from hwlocfile import Device, Made, has_library
from made import nodes
from treepool.cli import here
from treepool.discovery import libhwloc

NVIDIA = "0302 [10de:1db1] [10de:1212] a1"

#: The PUs that tests may be pinned to: what the machine here allows.
HERE = sorted(os.sched_getaffinity(0))


def xml(model="H100"):
    """2 packages of 2 NUMA nodes of 4 cores; GPU i is near NUMA node 3 - i."""
    devices = [
        Device(f"0000:{i + 1}0:00.0", 3 - i, NVIDIA, [(f"cuda{i}", "CUDA")], {"GPUModel": model})
        for i in range(4)
    ]
    return Made(smt=1, devices=devices).xml()


def allocated(cores, gpus="", rank="0"):
    return nodes(rank, cores, gpus)


@pytest.fixture
def bind(treepool, write, monkeypatch):
    """``bind(R, *options, xml=...)`` runs ``treepool bind`` on files of these."""
    for name in list(os.environ):
        if name.startswith(("FLUX_", "CUDA_", "ROCR_", "HIP_")):
            monkeypatch.delenv(name)

    def bind(R, *options, node=None):
        files = ["--R", write(R, "R.json"), "--xml", write(node or xml(), "node.xml")]
        return treepool("bind", *files, *options)

    return bind


def facts(result):
    assert result.status == 0, result.err
    return dict(
        line.partition(": " if ": " in line else "=")[::2] for line in result.out.splitlines()
    )


# -- what is printed


def test_print_says_one_fact_a_line(bind):
    result = bind(allocated("0-7", "0-3"), "--task", "1/2", "--print", "--", "./solve", "--fast")
    assert result.out == (
        "task: - of job -\n"
        "local task: 1 of 2\n"
        "node: n0, rank 0\n"
        "cores: 4-7 of the job's 0-7\n"
        "PUs: 4-7\n"
        "NUMA nodes: 1\n"
        "GPUs: 2 1 of the job's 0-3\n"
        "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
        "CUDA_VISIBLE_DEVICES=2,1\n"
        "memory: as it is (in Linux local)\n"
        "run: ./solve --fast\n"
    )


def test_gpus_by_their_ids_if_asked(bind):
    R = allocated("0-15", "0-3")
    assert facts(bind(R, "--task=0/2", "--print"))["CUDA_VISIBLE_DEVICES"] == "2,3"
    found = facts(bind(R, "--task=0/2", "--gpus=order", "--print"))
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_memory_of_a_superchip_is_left_alone_unless_asked(bind, numactl):
    node = xml(model="NVIDIA GH200 480GB")
    found = facts(bind(allocated("0-3", "3"), "--print", node=node))
    assert found["memory"] == "as it is (one memory for CPUs and GPUs)"
    found = facts(bind(allocated("0-3", "3"), "--memory=bind", "--print", "true", node=node))
    assert found["memory"] == "bind"
    assert found["run"] == f"{numactl} --membind=0 -- true"


@pytest.fixture
def numactl(tmp_path, monkeypatch):
    """The path of a numactl, first on the PATH, that says what it was told and does no more."""
    program = tmp_path / "bin" / "numactl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "numactl $1 $2"\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


def test_a_policy_without_numactl_is_an_error(bind, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = bind(allocated("0-3"), "--memory", "interleave", "--print")
    assert result.is_one_line_error("--memory interleave: numactl is needed and not on the PATH")


# -- what is run


@pytest.fixture
def real(write):
    """The result of ``treepool bind`` on a machine of the PUs here; JOB is its R."""
    cores = len(HERE)
    node = Made(packages=1, numas=1, cores=max(HERE) + 1, smt=1, allowed=HERE).xml()
    options = ["--xml", str(write(node, "node.xml"))]

    def real(*words, cores=f"0-{cores - 1}" if cores > 1 else "0", gpus="", **environment):
        R = str(write(allocated(cores, gpus), "R.json"))
        return run_process("bind", "--R", R, *options, *words, **environment)

    return real


TELL = "import json, os; print(json.dumps([sorted(os.sched_getaffinity(0)), dict(os.environ)]))"


@pytest.mark.skipif(len(HERE) < 2, reason="needs two cores")
def test_the_command_is_pinned_and_has_the_variables(real):
    result = real("--task=1/2", "--", "python3", "-c", TELL, gpus="0-3", CUDA_VISIBLE_DEVICES="0")
    pus, environment = json.loads(result.out)
    assert pus == HERE[len(HERE) // 2 :]
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_options_after_the_command_are_the_commands(real):
    result = real("sh", "-c", 'echo "$@"', "sh", "--print", "--memory", "--", "-h")
    assert (result.status, result.out) == (0, "--print --memory -- -h\n")


def test_numactl_runs_the_command_if_there_is_a_policy(real, numactl):
    result = real("--memory=bind", "echo", "done", PATH=os.environ["PATH"])
    assert result.out == "numactl --membind=0 --\ndone\n"


def test_the_command_ends_by_sigpipe_as_ever(real):
    """Python ignores the signal, which a program would inherit."""
    told = real("sh", "-c", "grep SigIgn /proc/$$/status").out
    assert int(told.split()[1], 16) & 1 << (signal.SIGPIPE - 1) == 0


@pytest.mark.parametrize("policy", [[], ["--memory=local"]])
def test_no_such_command_is_127_and_what_cannot_run_126(real, numactl, tmp_path, policy):
    path = os.environ["PATH"]
    for name in ("no-such-command", str(tmp_path / "nothing"), ""):
        result = real(*policy, "--", name, PATH=path)
        assert result.is_one_line_error("no such command", status=127)
    text = tmp_path / "text"
    text.write_text("no program\n")
    for name in (str(text), str(tmp_path)):
        result = real(*policy, "--", name, PATH=path)
        assert result.is_one_line_error("cannot be run", status=126)


def test_pus_that_are_not_here_are_an_error(bind):
    result = bind(allocated("999"), "false", node=Made(1, 1, 1000, 1).xml())
    assert result.is_one_line_error("cannot pin to PUs 999")


# -- wrong uses


def test_outside_a_job_it_says_so():
    result = run_process("bind", "true")
    assert result.is_one_line_error("not in a Flux job: FLUX_JOB_ID is not set", status=2)


@pytest.mark.parametrize("rank", [None, "-1", "x"])
def test_outside_a_task_of_a_job_it_says_so(rank):
    more = {} if rank is None else {"FLUX_TASK_RANK": rank, "FLUX_TASK_LOCAL_ID": "0"}
    result = run_process("bind", "true", FLUX_JOB_ID="f1", **more)
    assert result.is_one_line_error("not in a task of a Flux job", status=2)


@pytest.mark.parametrize(
    "options, words, status",
    [
        ([], ["a COMMAND is needed"], 2),
        (["--rank", "4", "--print"], ["R.json", "R has ranks 0, not 4"], 1),
        (["--rank", "x", "--print"], ["--rank x", "is not a rank"], 2),
        (["--task", "2/2", "--print"], ["--task 2/2", "I/N"], 2),
        (["--task", "first", "--print"], ["--task first", "I/N"], 2),
        (["--memory", "all", "--print"], ["--memory", "invalid choice"], 2),
    ],
)
def test_wrong_uses_are_one_line(bind, options, words, status):
    assert bind(allocated("0-3"), *options).is_one_line_error(*words, status=status)


def test_which_rank_must_be_said_if_there_are_several(bind):
    result = bind(allocated("0-3", rank="2-3"), "--print")
    assert result.is_one_line_error("which of the ranks 2-3? (--rank)", status=2)
    assert facts(bind(allocated("0-3", rank="2-3"), "--rank=3", "--print"))["node"] == "n3, rank 3"


def test_xml_is_one_file(treepool, write, tmp_path):
    R = write(allocated("0-3"), "R.json")
    write(xml(), "node.xml")
    for name in (tmp_path, f"{tmp_path}/node.xml:0"):
        result = treepool("bind", "--R", R, "--xml", name, "--print")
        assert result.is_one_line_error("--xml", "must be one file", status=2)


def test_without_xml_the_machine_is_this_one(treepool, write, monkeypatch):
    def local_xml(whole):
        assert whole, "a job may have any core of the node, and GPUs that the environment hides"
        return xml().encode()

    monkeypatch.setattr(libhwloc, "local_xml", local_xml)
    R = write(allocated("0-3", "3"), "R.json")
    found = facts(treepool("bind", "--R", R, "--print"))
    assert found["GPUs"] == "3 of the job's 3"
    assert found["cores"].endswith(" of the job's 0-3")


@pytest.mark.skipif(not has_library(), reason="hwloc's library is not installed")
def test_what_gpus_are_named_otherwise_than_by_number_stays(write):
    """As a user's own CUDA_VISIBLE_DEVICES."""
    node = write(Made(packages=1, numas=1, cores=max(HERE) + 1, smt=1).xml(), "node.xml")
    R = str(write(allocated(str(HERE[0]), "0"), "R.json"))
    result = run_process(
        *["bind", "--R", R, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"],
        FLUX_HWLOC_XMLFILE=str(node),
        CUDA_VISIBLE_DEVICES="GPU-8932f937",
    )
    assert (result.status, result.out) == (0, "GPU-8932f937\n")
    assert "warning: CUDA_VISIBLE_DEVICES does not name GPUs by number" in result.err


@pytest.mark.parametrize("command", ["bind --print", "verify"])
def test_an_R_of_no_rank_is_refused_by_name(treepool, write, command):
    path = write({"version": 1, "execution": {"R_lite": [], "nodelist": []}}, "R.json")
    result = treepool(*command.split(), "--R", path, "--xml", write(xml(), "node.xml"))
    assert result.is_one_line_error("R.json", "/execution/R_lite")


# -- cores that the system keeps


@pytest.mark.parametrize(
    ("cgroup", "file", "text", "allowed"),
    [
        ("0::/flux/job", "flux/job/cpuset.cpus.effective", "2-3,6\n", 0b1001100),
        ("7:cpu,cpuset:/job\n0::/x", "cpuset/job/cpuset.effective_cpus", "1\n", 0b10),
        ("0::/x", "y/cpuset.cpus.effective", "1", 0),  # no such cpuset
        ("0::/x", "x/cpuset.cpus.effective", "klingon", 0),
        ("klingon", "x/cpuset.cpus.effective", "1", 0),
    ],
)
def test_the_cpuset_of_a_process_says_what_it_may_use(tmp_path, cgroup, file, text, allowed):
    for path, content in (("proc/self/cgroup", cgroup), (f"sys/fs/cgroup/{file}", text)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert here.allowed_pus(tmp_path) == allowed


def test_a_cgroup_without_a_cpuset_of_its_own_may_use_what_the_one_around_it_may(tmp_path):
    """Linux has the file only where the controller is enabled, such as in a slice of systemd."""
    for path, content in (
        ("proc/self/cgroup", "0::/system.slice/flux.service/job\n"),
        ("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "2-15\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert here.allowed_pus(tmp_path) == 0xFFFC


# -- MIG instances

LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a3)
  MIG 3g.40gb     Device  0: (UUID: MIG-c6d)
  MIG 1g.10gb     Device  1: (UUID: MIG-0f1)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-7b9)
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-7ba)
GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-7bb)
"""

TOPO = {
    "cores": "0-15",
    "gpus": "0-4",
    "mig-3g.40gb": [{"cores": "0", "gpus": "0"}],
    "mig-1g.10gb": [{"cores": "1", "gpus": "1"}],
}


def with_key(R, topo, **more):
    key = {"writer": "TreePool", "children": [{"ranks": "0", "topo": topo}], **more}
    return {**R, "scheduling": key}


def test_mig_instances_are_told_by_uuid(bind, write):
    R = with_key(allocated("0-3", "0-1"), TOPO)
    told = facts(bind(R, "--print", "--mig", write(LIST, "list.txt")))
    assert told["CUDA_VISIBLE_DEVICES"] == "MIG-c6d,MIG-0f1"
    assert told["GPUs"].endswith("of the job's 0-1")


@pytest.fixture
def nvidia_smi(monkeypatch, tmp_path):
    """``nvidia_smi(text)`` puts a program of that name on the PATH, which prints *text*."""

    def write(text):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return write


def test_nvidia_smi_is_asked_where_the_key_has_instances_of_the_job(bind, nvidia_smi):
    nvidia_smi(LIST)
    told = facts(bind(with_key(allocated("0-3", "1"), TOPO), "--print"))
    assert told["CUDA_VISIBLE_DEVICES"] == "MIG-0f1"
    plain = facts(bind(allocated("0-3", "1"), "--print"))
    assert plain["CUDA_VISIBLE_DEVICES"] == "1"


def test_instances_that_cannot_be_named_are_an_error_and_not_other_gpus(
    bind, monkeypatch, tmp_path
):
    R = with_key(allocated("0-3", "1"), TOPO)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = bind(R, "--print")
    assert result.is_one_line_error("the job has MIG instances, and nvidia-smi -L cannot name them")


def test_a_list_of_another_node_is_an_error(bind, nvidia_smi):
    nvidia_smi("GPU 0: H100 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: MIG-1)\n")
    result = bind(with_key(allocated("0-3", "1"), TOPO), "--print")
    assert result.is_one_line_error("nvidia-smi -L has 1 GPUs, the node 4: it is not used")


# -- NICs


def nic_node():
    gpu = Device("0000:10:00.0", 0, NVIDIA, [("cuda0", "CUDA")], {"GPUModel": "H100"})
    nic = Device("0000:20:00.0", 0, "0207 [15b3:1021] [15b3:0041] 00", [("mlx5_0", "")])
    return Made(smt=1, devices=[gpu, nic]).xml()


def test_the_nics_near_the_gpus_of_a_task_are_exported_on_demand(bind):
    R = allocated("0-3", "0")
    assert "NCCL_IB_HCA" not in facts(bind(R, "--print", node=nic_node()))
    told = facts(bind(R, "--print", "--env", "NCCL_IB_HCA,UCX_NET_DEVICES", node=nic_node()))
    assert (told["NCCL_IB_HCA"], told["UCX_NET_DEVICES"]) == ("=mlx5_0", "mlx5_0:1")


def test_other_variables_are_refused(bind):
    result = bind(allocated("0-3"), "--print", "--env", "LD_PRELOAD")
    assert result.is_one_line_error(
        "'LD_PRELOAD' is none of NCCL_IB_HCA, UCX_NET_DEVICES", status=2
    )
