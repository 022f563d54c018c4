"""``treepool encode``: what an administrator types, and gets."""

import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from fluxiongraph import two_racks
from hwlocfile import Device, Made
from made import nodes
from schemas import conforms
from treepool.cli import hardware, outline
from treepool.discovery.key import Encoded
from treepool.errors import InvalidHardware
from treepool.rfc.rset import ResourceSet

GPU = Device("0000:03:00.0", 1, backends=[("nvml0", "NVML")], infos={"GPUModel": "Tesla V100"})
NODE = Made(devices=[GPU])
THIN = Made(packages=1, numas=1, host="thin1")

PAIR = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-3\nGPU1\tNV2\t X \t4-7\n"


@pytest.fixture
def xml(write):
    """``xml(made, name)`` writes hwloc XML and returns its path."""
    return lambda made, name="node.xml": write(made.xml(), name)


def encoded(result):
    """The R that a command printed, which must have gone well."""
    assert result.status == 0, result.err
    return json.loads(result.out)


def topos(R):
    """The topo of each set of ranks in the key."""
    return {entry["ranks"]: entry["topo"] for entry in R["scheduling"]["children"]}


# -- a new R


def test_one_file_makes_the_R_of_its_host(treepool, xml):
    R = encoded(treepool("encode", "--xml", xml(NODE)))
    assert R["execution"]["R_lite"] == [{"rank": "0", "children": {"core": "0-15", "gpu": "0"}}]
    assert R["execution"]["nodelist"] == ["made1"]
    assert R["scheduling"]["writer"] == "TreePool"
    assert topos(R)["0"]["socket"][0]["numa"][1] == {"cores": "4-7", "gpus": "0", "memory": 16}


def test_hosts_after_the_file_name_are_its_nodes(treepool, xml):
    R = encoded(treepool("encode", "--xml", f"{xml(THIN)}:a[1-2]", "--xml", f"{xml(NODE)}:b7"))
    assert R["execution"]["nodelist"] == ["a[1-2],b7"]


def test_a_folder_and_a_tar_have_a_file_for_each_host(treepool, tmp_path):
    folder = tmp_path / "xml"
    folder.mkdir()
    for host in ("n10", "n9"):
        (folder / f"{host}.xml").write_text(THIN.xml())
    (folder / "g1.xml").write_text(NODE.xml())
    (folder / "readme.txt").write_text("no XML")
    R = encoded(treepool("encode", "--xml", folder))
    assert R["execution"]["nodelist"] == ["g1,n[9-10]"]
    assert topos(R).keys() == {"0", "1-2"}
    packed = tmp_path / "xml.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, "some/where")
    assert encoded(treepool("encode", "--xml", packed))["scheduling"]["children"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_known_by_how_it_begins(treepool, xml, tmp_path, mode):
    packed = tmp_path / "nodes"
    with tarfile.open(packed, mode) as tar:
        tar.add(xml(NODE), "n7.xml")
    assert encoded(treepool("encode", "--xml", packed))["execution"]["nodelist"] == ["n7"]


def test_a_pipe_is_read_once(treepool):
    reading, writing = os.pipe()  # as the shell makes of <(lstopo --of xml -)
    try:
        os.write(writing, NODE.xml().encode())
        os.close(writing)
        result = treepool("encode", "--xml", f"/dev/fd/{reading}:0-1", "--hosts", "a,b")
    finally:
        os.close(reading)
    assert encoded(result)["execution"]["nodelist"] == ["a,b"]


def test_of_a_file_of_zeros_no_more_is_read_than_of_any(treepool, write):
    zeros = write(b"", "zeros")
    os.truncate(zeros, 1 << 32)
    assert treepool("encode", "--xml", zeros).is_one_line_error("more than 32 MiB of XML")


# -- a key for an R that is there


@pytest.fixture
def old_R():
    """An R of three nodes without key."""
    times = {"starttime": 1.0, "expiration": 100.0}
    return nodes("4-6", "0-15", "0", **times, properties={"mine": "5"})


def test_ranks_that_nothing_describes_stay_flat_with_a_warning(treepool, xml, write, old_R):
    result = treepool("encode", "--xml", f"{xml(NODE)}:4-5", "-R", write(old_R))
    assert list(topos(encoded(result))) == ["4-5"]
    assert "nothing describes ranks 6: they stay flat" in result.err


def test_a_second_run_adds_to_the_key_of_the_first(treepool, xml, write, old_R):
    first = treepool("encode", "--xml", f"{xml(NODE)}:4-5", "-R", write(old_R)).out
    second = treepool("encode", "--xml", f"{xml(THIN)}:6", "-R", write(first, "first.json"))
    assert topos(encoded(second)).keys() == {"4-5", "6"}


def test_the_key_of_another_scheduler_is_not_lost(treepool, xml, write, old_R):
    old_R["scheduling"] = {"writer": "other"}
    result = treepool("encode", "--xml", xml(NODE), "-R", write(old_R))
    assert result.is_one_line_error("another scheduler, which would be lost")


# -- an R with Fluxion's key


@pytest.fixture
def fluxion_R(write):
    """The path of an R of four nodes in two racks, with Fluxion's key."""
    return write({**nodes("0-3", "0-7", "0-1"), "scheduling": two_racks()})


def test_the_key_of_fluxion_becomes_one_of_rfc_49(treepool, fluxion_R):
    result = treepool("encode", "-R", fluxion_R)
    R = encoded(result)
    assert topos(R)["0-3"]["socket"][1] == {"cores": "4-7", "gpus": "1", "memory": 32}
    assert [rack["ranks"] for rack in R["scheduling"]["fabric"]["rack"]] == ["0-1", "2-3"]
    assert result.err.splitlines() == [
        "treepool encode: warning: left out of Fluxion's graph: 2 of type pdu",
        "treepool encode: warning: left out of Fluxion's graph: 6 of type ssd",
        f"treepool encode: {fluxion_R}: 4 of 4 nodes of R in Fluxion's graph",
    ]


def test_hardware_and_a_fabric_count_for_more_than_it(treepool, xml, write, fluxion_R):
    made = Made(packages=1, numas=2, cores=4)
    result = treepool("encode", "-R", fluxion_R, "--xml", f"{xml(made)}:2-3")
    R = encoded(result)
    assert topos(R)["0-1"]["socket"]
    assert [domain["cores"] for domain in topos(R)["2-3"]["numa"]] == ["0-3", "4-7"]
    assert len(R["scheduling"]["fabric"]["rack"]) == 2
    assert "6 of type ssd" in result.err
    table = write("host,row\nn0,a\nn1,a\nn2,a\nn3,b\n", "fabric.csv")
    R = encoded(treepool("encode", "-R", fluxion_R, "--fabric", table))
    assert [row["ranks"] for row in R["scheduling"]["fabric"]["row"]] == ["0-2", "3"]


def test_a_host_that_came_up_otherwise_is_told(treepool, tmp_path):
    folder = tmp_path / "xml"
    folder.mkdir()
    for host in ("n1", "n2", "n3"):
        (folder / f"{host}.xml").write_text(Made(packages=1, numas=4).xml())
    (folder / "n4.xml").write_text(Made(packages=1, numas=1, cores=16).xml())
    result = treepool("encode", "--xml", folder)
    assert (
        "n4 has 16 cores, but most hosts called nN have 4 numa, 16 cores: another BIOS setting?"
        in result.err
    )


# -- what is in the key


def test_properties_tell_the_hardware(treepool, xml):
    R = encoded(treepool("encode", "--xml", xml(NODE), "--properties"))
    assert R["execution"]["properties"] == {
        "gpu-vendor-nvidia": "0",
        "gpu-v100": "0",
        "gpus-1": "0",
    }


def test_gpulink_divides_a_domain_by_the_links_of_its_gpus(treepool, xml, write):
    matrix = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tNV4\tSYS\tSYS\t0-11
GPU1\tNV4\t X \tSYS\tSYS\t0-11
GPU2\tSYS\tSYS\t X \tNV4\t0-11
GPU3\tSYS\tSYS\tNV4\t X \t0-11
"""
    gpus = [Device(f"0000:0{i}:00.0", 0, backends=[(f"nvml{i}", "NVML")]) for i in range(4)]
    node = xml(Made(packages=1, numas=1, cores=6, devices=gpus))
    words = ("--levels", "gpulink", "--nvidia-smi", write(matrix, "smi.txt"))
    R = encoded(treepool("encode", "--xml", node, *words))
    assert topos(R)["0"] == {
        "memory": 16,
        "gpulink": [{"cores": "0-2", "gpus": "0-1"}, {"cores": "3-5", "gpus": "2-3"}],
    }


def test_mig_cuts_gpus_into_instances(treepool, xml, write):
    instance = "  MIG 1g.5gb     Device  {}: (UUID: MIG-x)\n"
    text = "GPU 0: V100 (UUID: x)\n" + instance.format(0) + instance.format(1)
    R = encoded(treepool("encode", "--xml", xml(NODE), "--mig", write(text, "list.txt")))
    assert R["execution"]["R_lite"][0]["children"]["gpu"] == "0-1"
    (numa,) = [n for n in topos(R)["0"]["socket"][0]["numa"] if "mig-1g.5gb" in n]
    assert numa["mig-1g.5gb"] == [{"cores": "4-7", "gpus": "0-1"}]


# -- a look


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("NVIDIA GB200", ["nvlink pairs 100 GB/s", "c2c assumed 450 GB/s"]),
        ("NVIDIA GH200", ["nvlink pairs 50 GB/s", "c2c 450 GB/s"]),
        ("NVIDIA R200", ["nvlink pairs assumed 50 GB/s", "the GB/s of nvlink are assumed"]),
    ],
)
def test_a_dry_run_marks_rates_that_are_assumed(treepool, xml, write, model, words):
    infos = {"GPUModel": model}
    devices = [Device(f"0000:0{i}:00.0", 0, backends=[(f"nvml{i}", "NVML")], infos=infos)
               for i in range(2)]  # fmt: skip
    report = write(PAIR, "smi.txt")
    told = treepool("encode", "--xml", xml(Made(devices=devices)), "--nvidia-smi", report,
                    "--dry-run").out  # fmt: skip
    assert [word for word in words if word not in told] == []
    assert ("pairs assumed" in told) is ("nvlink pairs assumed 50 GB/s" in words)
    assert told.splitlines()[-1] == f"read {report}: 2 GPUs; 1 pair joined by nvlink"


def test_a_dry_run_draws_each_kind_of_node(treepool, xml):
    result = treepool("encode", "--xml", xml(NODE), "--ranks", "0-1", "--hosts", "a,b", "--dry-run")
    assert result.out.splitlines() == [
        "2 nodes: a,b (rank 0-1): 2 socket, 4 numa, 16 cores, 1 GPU",
        "node",
        "├─ socket 0",
        "│  ├─ numa 0  cores 0-3  16 GiB",
        "│  └─ numa 1  cores 4-7  gpus 0 (Tesla V100)  16 GiB",
        "└─ socket 1",
        "   ├─ numa 0  cores 8-11  16 GiB",
        "   └─ numa 1  cores 12-15  16 GiB",
        "  GPU 0: Tesla V100",
        "  note: each group is a numa, and is merged with it",
        "  note: each l3 is a numa, and is merged with it",
        "  warning: uneven: domains of socket have 0, 1 GPUs",
        "  warning: uneven: domains of numa have 0, 1 GPUs",
    ]


def test_a_dry_run_draws_the_fabric(treepool, write):
    switches = "SwitchName=a Nodes=n[3,9]\nSwitchName=top Switches=a\n"
    R = treepool("encode", "--xml", "doc/node.xml", "--ranks=3-5", "--hosts=n[3-5]").out
    words = ("--fabric", write(switches, "topology.conf"), "-R", write(R, "R.json"), "--dry-run")
    result = treepool("encode", *words)
    assert result.out.splitlines() == [
        "fabric",
        "└─ spine top",
        "   └─ switch a  n3 (rank 3)",
        "",
        "warning: hosts in no domain, which stand alone: n[4-5]",
        "",
        f"read {words[1]}: 1 of 3 hosts of R placed",
    ]
    fabric, warnings, read = treepool("encode", *words, "--json").json
    conforms(read, "encode-read")
    assert fabric["fabric"]["spine"][0]["name"] == "top"
    conforms(fabric, "encode-fabric")
    conforms(warnings, "encode-warnings")


def test_a_dry_run_draws_the_hosts_directly_in_a_domain_with_others_inside():
    inside = [{"name": "s0", "ranks": "1"}]
    fabric = {"rack": [{"name": "r0", "ranks": "0-2", "switch": inside}, {"ranks": "3"}]}
    R = nodes("0-3", "0-3", fabric=fabric)
    encoded = Encoded(ResourceSet.read(R), (), ())
    assert list(outline.lines(encoded)) == [
        "fabric",
        "├─ rack r0  n[0,2] (rank 0,2)",
        "│  └─ switch s0  n1 (rank 1)",
        "└─ rack  n3 (rank 3)",
    ]


def test_a_dry_run_draws_the_first_of_many_domains(treepool, write):
    hosts = "n[0-99]"
    switches = "".join(f"SwitchName=s{i} Nodes=n{i}\n" for i in range(100))
    R = treepool("encode", "--xml", "doc/node.xml", "--ranks=0-99", "--hosts", hosts).out
    words = ("--fabric", write(switches, "topology.conf"), "-R", write(R, "R.json"), "--dry-run")
    lines = treepool("encode", *words).out.splitlines()
    assert len(lines) == 68
    assert lines[64:66] == ["├─ switch s63  n63 (rank 63)", "... and more domains"]


# -- this machine


@pytest.fixture
def hwloc(monkeypatch):
    """``hwloc(xml, broker)`` is what hwloc's library and the Flux broker tell; None: nothing."""

    def hwloc(xml, broker=None):
        def local_xml():
            if xml is None:
                raise InvalidHardware("hwloc is needed: install its library")
            return xml.encode()

        monkeypatch.setattr(hardware.libhwloc, "local_xml", local_xml)
        monkeypatch.setattr(hardware, "_of_broker", lambda: broker and broker.encode())

    return hwloc


def test_local_asks_hwlocs_library_and_where_there_is_none_the_broker(treepool, hwloc):
    hwloc(NODE.xml(), THIN.xml())
    assert encoded(treepool("encode", "--local"))["execution"]["nodelist"] == ["made1"]
    hwloc(None, THIN.xml())
    assert encoded(treepool("encode", "--local"))["execution"]["nodelist"] == ["thin1"]
    hwloc(None)
    result = treepool("encode", "--local")
    assert result.is_one_line_error("--local: hwloc is needed: install its library")


def test_xml_without_a_host_name_does_not_take_this_machines(treepool, xml):
    file = xml(NODE)
    file.write_text(re.sub('<info name="HostName"[^>]*>', "", file.read_text()))
    result = treepool("encode", "--xml", str(file))
    assert result.is_one_line_error("the XML does not name its host: --hosts HOSTS", status=2)
    named = treepool("encode", "--xml", str(file), "--hosts", "a7")
    assert encoded(named)["execution"]["nodelist"] == ["a7"]


# -- mistakes


@pytest.mark.parametrize(
    "words, said",
    [
        (["encode"], "one of --xml, --slurm, --local, --instance is needed, or --fabric with -R"),
        (["encode", "--xml", "nowhere.xml"], "nowhere.xml: cannot be read"),
        (["encode", "--xml", "{xml}", "--levels", "socket,rack"], "no level is called rack"),
        (["encode", "--xml", "{xml}:5-"], "--xml"),
        (["encode", "--xml", "{xml}", "--ranks", "0-3"], "4 ranks need names: --hosts HOSTS"),
        (["encode", "--xml", "{xml}", "--ranks", "0-3", "--hosts", "a,b"], "4 ranks, but 2 hosts"),
        (["encode", "--xml", "{xml}", "--ranks", ""], "--ranks: '' has none"),
        (["encode", "--xml", "{xml}", "--hosts", ""], "--hosts: '' has none"),
        (["encode", "--xml", "{xml}", "-R", "R", "--ranks", "0"], "with -R the nodes are those"),
        (["encode", "--xml", "{xml}", "--xml", "{xml}", "--hosts", "a"], "which nodes are they?"),
        (["encode", "--xml", "{xml}", "--nvidia-smi", "x", "--gpu-index", "hwloc"], "--nvidia-smi"),
        (["encode", "--xml", "{folder}:1"], "tells its host by its name"),
        (["encode", "-R", "doc/flat.json"], "or an R with Fluxion's key"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(treepool, xml, tmp_path, words, said):
    place = {"xml": str(xml(NODE)), "folder": str(tmp_path)}
    result = treepool(*(word.format(**place) for word in words))
    assert result.is_one_line_error(said, status=2)


def test_nodes_that_R_does_not_have_are_told(treepool, xml, write, old_R):
    result = treepool("encode", "--xml", f"{xml(NODE)}:7", "-R", write(old_R))
    assert result.is_one_line_error("R has no ranks 7; it has ranks ", ", hosts ")


def test_ranks_described_twice_are_told(treepool, xml, write, old_R):
    path = xml(NODE)
    result = treepool("encode", "--xml", f"{path}:4", "--xml", f"{path}:4-5", "-R", write(old_R))
    assert result.is_one_line_error("ranks 4 are described twice")


# -- the fabric


FLAT = nodes("0-3", "0-3")


def test_files_of_slurm_are_counted_line_by_line_and_includes_are_beside_them(treepool, write):
    write("NodeName=n[2-3] CPUs=2 Nonsense=1\nNodeName=n4 Sockets=2\n", "nodes.conf")
    path = write("NodeName=n[0-1] Sockets=2\nInclude /no/nodes.conf\nInclude gone\n", "slurm.conf")
    result = treepool("encode", "--slurm", path)
    assert encoded(result)["execution"]["nodelist"] == ["n[0-1,4]"]
    gone = f"{Path(path).parent}/gone: cannot be read: No such file or directory"
    assert result.err.splitlines()[:2] == [
        "treepool encode: warning: /no/nodes.conf: line 1: 'Nonsense' is no key of nodename",
        f"treepool encode: warning: line 3: Include 'gone': {gone}",
    ]
    told = f"{path}: 3 of 5 nodes; 2 lines not understood: /no/nodes.conf 1, 3"
    assert result.err.splitlines()[2:] == [f"treepool encode: {told}"]
    dry = treepool("encode", "--slurm", path, "--dry-run")
    assert dry.out.splitlines()[-1] == f"read {told}"
    result = treepool("encode", "--slurm", write("NodeNme n1\n", "bad.conf"))
    assert result.is_one_line_error("line 1: 'NodeNme' is not KEY=VALUE") and result.status == 1


def test_a_fabric_may_include_files_and_a_rail_is_that_of_a_fabric(treepool, write):
    write("SwitchName=b Nodes=n2\n", "more.conf")
    path = write("SwitchName=a Nodes=n[0-1]\nInclude more.conf\n", "topology.conf")
    R = write(json.dumps(FLAT), "R.json")
    key = encoded(treepool("encode", "--fabric", path, "-R", R))["scheduling"]
    assert [switch["name"] for switch in key["fabric"]["switch"]] == ["a", "b"]
    result = treepool("encode", "--fabric", path, "-R", R, "--rail", "HCA-1")
    assert result.is_one_line_error("has no adapters to choose from")
    result = treepool("encode", "-R", R, "--rail", "HCA-1")
    assert result.status == 2 and "--rail: says which adapter counts" in result.err


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_locality_of_the_topo_cannot_be_one_of_the_fabric(treepool, xml, write, more):
    path = write("host,socket\nmade1,r7\n", "racks.csv")
    result = treepool("encode", "--xml", xml(NODE), "--fabric", path, *more)
    assert result.is_one_line_error("the R would be wrong: /scheduling/fabric: locality 'socket'")
    assert result.out == ""


def test_a_folder_has_what_nvidia_smi_says_of_each_host(treepool, write, tmp_path):
    R = write(json.dumps(FLAT), "R.json")
    folder = tmp_path / "smi"
    folder.mkdir()
    for host in ("n0", "n2"):
        (folder / f"{host}.txt").write_text("Fabric\n CliqueId : 3\n ClusterUUID : ab-1\n")
    key = encoded(treepool("encode", "--fabric", str(folder), "-R", R))["scheduling"]
    assert key["fabric"] == {"nvl": [{"name": "ab-1.3", "ranks": "0,2"}]}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--fabric", "cray", "-R", "R"], 1, "--fabric: cray: names none of the hosts of R"),
        (["--fabric", "EMPTY", "-R", "R"], 2, "a folder has a file HOST.txt for each host"),
        (["--fabric", "FILE", "-R", "R"], 1, "line 1: "),
    ],
)
def test_a_fabric_that_cannot_be_is_told_in_one_line(
    treepool, write, tmp_path, arguments, status, message
):
    (tmp_path / "none").mkdir()
    names = {
        "R": write(json.dumps(FLAT), "R.json"),
        "FILE": write("SwitchName=a Nodes=n[", "topology.conf"),
        "EMPTY": str(tmp_path / "none"),
    }
    result = treepool("encode", *(names.get(argument, argument) for argument in arguments))
    assert result.status == status
    assert message in result.err and result.err.count("\n") == 1


def test_a_key_in_the_ranks_of_an_enclosing_instance_keeps_its_meaning(treepool, xml, write):
    topo = {"socket": [{"cores": "0-1"}, {"cores": "2-3"}]}
    key = {
        "writer": "TreePool",
        "children": [{"ranks": "8-11", "topo": topo}],
        "fabric": {"rack": [{"name": "r", "ranks": "8-9"}, {"ranks": "10-11"}]},
    }
    execution = {**FLAT["execution"], "starttime": 1.0}  # it is the R of a job
    R = write(json.dumps({**FLAT, "execution": execution, "scheduling": key}), "R.json")
    path = write("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n", "topology.conf")
    found = encoded(treepool("encode", "--fabric", path, "-R", R))["scheduling"]
    assert found["children"] == [{"ranks": "0-3", "topo": topo}]
    assert found["fabric"]["switch"][1] == {"name": "b", "ranks": "2-3"}
    found = encoded(treepool("encode", "--xml", f"{xml(NODE)}:0-3", "-R", R))["scheduling"]
    assert found["fabric"] == {"rack": [{"name": "r", "ranks": "0-1"}, {"ranks": "2-3"}]}


@pytest.mark.parametrize("cores", ["0-5", "4-9"])
def test_what_an_enclosing_instance_gave_is_told_in_the_ranks_of_R(treepool, xml, write, cores):
    R = encoded(treepool("encode", "--xml", xml(NODE), "--ranks=4-5", "--hosts=n[4-5]"))
    R["execution"]["starttime"] = 1.0  # it is that of a job
    R["execution"]["R_lite"] = [{"rank": "0-1", "children": {"core": "0-5"}}]
    R["scheduling"]["children"][0]["allocated"] = {"cores": cores}
    again = encoded(treepool("encode", "--xml", xml(NODE), "-R", write(R)))
    assert told(again) == {"0-1": {"cores": cores}}


def told(R):
    """What the key of *R* says of allocated ids, by ranks."""
    return {entry["ranks"]: entry.get("allocated") for entry in R["scheduling"]["children"]}


def test_of_a_node_that_shows_no_other_gpus_only_the_cores_that_were_given_are_told(
    treepool, xml, write
):
    def node(count):
        return xml(Made(devices=[Device(f"0000:{i}1:00.0", i) for i in range(count)]))

    R = encoded(treepool("encode", "--xml", node(4), "--ranks=4-5", "--hosts=n[4-5]"))
    R["execution"]["starttime"] = 1.0  # it is that of a job
    R["execution"]["R_lite"] = [{"rank": "0-1", "children": {"core": "0-5", "gpu": "0"}}]
    R["scheduling"]["children"][0]["allocated"] = {"cores": "4-9", "gpus": "2"}
    again = encoded(treepool("encode", "--xml", f"{node(1)}:1", "-R", write(R)))
    assert told(again) == {"0": {"cores": "4-9", "gpus": "2"}, "1": {"cores": "4-9"}}
