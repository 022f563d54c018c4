"""Good documents of every kind: what the fuzzers start from, and mutate."""

import json

from fluxiongraph import key, node, two_racks, vertex
from made import nodes
from treepool import parse_shape
from treepool.cli.files import data_folder
from treepool.rfc.jobspec import from_resources
from treepool.rfc.links import digest

SHAPES = (
    "slot=4/node{x}",
    "slot=1/numa/[core=4;gpu=1]",
    'node=2/slot=8{"a b",k:[1,{z:null}]}/[core=15;gpu=2-4:2;memory=1+{unit:GiB}]',
    "[slot=1{a}/core;slot=2{b}/gpu]",
)


CONSTRAINTS = (
    '{"and": [{"properties": ["gpu", "^old"]}, {"not": [{"hostlist": ["a[0-3]"]}]}]}',
    '{"or": [{"ranks": ["0-2", "7"]}, {}]}',
)


WISHES = (
    '{"locality": "required", "level": "numa", "gpu_link": "nvlink", "gpu_memory": 40}',
    '{"topology_policy": "single-numa-node", "topology_scope": "node", "same": "driver:prefer"}',
    '{"same_numa": "prefer", "gpu_link": 25.5, "unified_memory": true, "allow_cxl": false}',
    '{"within": "cell", "segment": "switch:1"}',
    '{"wait": 600, "switches": 1}',
)


def jobspec_text(shape, **system):
    """The jobspec of a shape, with more in ``attributes.system``."""
    found = from_resources(parse_shape(shape))
    found["attributes"]["system"].update(system)
    return json.dumps(found)


JOBSPECS = (
    *(jobspec_text(shape) for shape in SHAPES[:2]),
    *(jobspec_text(SHAPES[1], constraints=json.loads(c)) for c in CONSTRAINTS),
    *(jobspec_text("slot=2/gpu=2", treepool=json.loads(w)) for w in WISHES),
    jobspec_text("node=1-4/slot=1-8:2:*/numa/core", duration=60.5),
)


def cluster(name):
    """The R of a test vector file."""
    path = data_folder("testvectors") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["cluster"]["R"]


#: An R with Fluxion's key: two racks, and nodes of two kinds without racks.
GRAPHS = tuple(
    json.dumps({**nodes("0-3", "0-7", "0-1"), "scheduling": graph})
    for graph in (two_racks(), key(node("n0", 0), vertex("node", name="n3", rank=3)))
)


def small_R():
    """An R of two kinds of node, with everything in it that an R and a key can have."""
    numa = [{"cores": "0-3", "gpus": "0-1", "memory": 64}, {"cores": "4-7", "gpus": "2-3"}]
    disk = {"path": "/s", "capacity": 1.5, "unit": "TB"}
    topo = {"socket": [{"numa": numa, "cores": "0-7"}], "storage": [disk], "vendor": "x"}
    kept = {"cores": "0", "gpus": "0"}
    table = {
        "links": [{"type": "nvlink", "gbps": 50, "among": ["0-1", "2-3"]}],
        "nics": [{"name": "hsi0", "gpus": "0-1", "path": "PIX"}],
        "devices": [{"model": "A100", "memory": 80, "gpus": "0-3"}],
    }
    return {
        "version": 1,
        "execution": {
            "R_lite": [
                {"rank": "0-2", "children": {"core": "0-7", "gpu": "0-3"}},
                {"rank": "3,5", "children": {"core": "0-3"}},
            ],
            "nodelist": ["a[1-3],b,c"],
            "properties": {"driver:550": "0-1", "driver:560": "2", "+q": "3"},
            "starttime": 1.0,
            "expiration": 0,
            "nslots": 3,
        },
        "scheduling": {
            "writer": "TreePool",
            "children": [
                {
                    "ranks": "0,2",
                    "topo": topo,
                    "allocated": {"cores": "0-7", "gpus": "0-3", "site": kept},
                },
                {"ranks": "1", "topo": topo},
            ],
            "allocated": [{"ranks": "1", "cores": "0-7", "gpus": "0-3", "site": kept}],
            "links": {digest(topo): table},
            "site": {"x": 1},
            "fabric": {
                "cell": [
                    {"name": "c", "switch": [{"name": "s", "ranks": "0-1"}, {"ranks": "2"}]},
                    {"name": "d", "ranks": "3", "port": 7},
                ]
            },
        },
    }


RS = (json.dumps(small_R()), json.dumps(cluster("rfc49-cluster-a")))
KEYS = tuple(json.dumps(json.loads(R)["scheduling"]) for R in RS)
TABLES = tuple(json.dumps(t) for t in small_R()["scheduling"]["links"].values())


CONFIGURATIONS = (
    '{"policy": "easy", "reservation-depth": 9, "straddle": 0.25, "log-level": "debug"}',
    '{"queues": {"debug": {"policy": "fifo", "reservation-depth": "unlimited"}}}',
)

WINDOWS = (
    '[{"name": "maint", "hosts": "n[0-9],m", "start": 1798790400, "end": "2027-01-01T12:00Z"}]',
    '[{"name": "w", "hosts": "n7", "start": {"iso-8601-ts": "2027-01-01T08:00:00Z"},'
    ' "end": 1.9e9, "users": ["alice", 7], "queues": ["debug"]}]',
)

VECTORS = json.dumps(
    {
        "title": "all kinds of steps",
        "source": "treepool",
        "cluster": {"R": small_R()},
        "options": {"locality": "preferred", "policy": "best-fit", "gpu_cores": 0},
        "vectors": [
            {"id": "a", "shape": "slot=1/numa{x}", "options": {"level": 1},
             "expect": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nslots": 1},
             "rationale": "-"},
            {"id": "j", "jobspec": {}, "expect": {"error": "invalid", "message": "key"},
             "rationale": "-"},
            {"id": "f", "free": "a", "rationale": "-"},
            {"id": "d", "down": "0-1"},
            {"id": "u", "up": "0"},
        ],
    }
)  # fmt: skip


SNAPSHOT = json.dumps(
    {
        "version": 1,
        "treepool": "0.2.0",
        "time": 1000,
        "R": small_R(),
        "options": {"locality": "none", "mix": "2*slot/gpu"},
        "down": "5",
        "drained": "",
        "queues": {
            "": {"policy": "easy", "depth": "unlimited"},
            "a": {"policy": "fifo", "depth": 8},
            "b": {"parent": "a", "stopped": True},
        },
        "windows": [
            {"name": "w", "hosts": "a[1-2]", "start": 999, "end": "2027-01-01", "users": ["u", 7],
             "queues": ["a"]},
        ],
        "running": [
            {"job": "j1", "user": "u", "name": "x", "parts": [["0-1", "0-3", "0"]], "end": 1500},
            {"job": "j2", "parts": [["2", "0", ""], ["3", "1-2", ""]]},
        ],
        "other": [["5", "3", ""]],
        "pending": [
            {"job": "j3", "user": "v", "queue": "b", "priority": 16, "submit": 900, "limit": 60.5,
             "shape": "slot=2/[core=2;gpu=1]", "constraint": json.loads(CONSTRAINTS[0]),
             "options": json.loads(WISHES[0])},
            {"job": "j4", "user": "u", "priority": 0, "submit": 0, "shape": "slot/core"},
        ],
        "unreadable": 3,
    }
)  # fmt: skip


XML = """<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x0000000f" gp_index="1">
<info name="HostName" value="n"/>
<object type="Package" os_index="0" cpuset="0x0000000f" gp_index="2">
<object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x1" gp_index="3"
 local_memory="9"/>
<object type="Core" os_index="0" cpuset="0x00000003" gp_index="4">
<object type="PU" os_index="0" cpuset="0x00000001" gp_index="5"/>
<object type="PU" os_index="1" cpuset="0x00000002" gp_index="6"/></object>
<object type="Core" os_index="1" cpuset="0x0000000c" gp_index="7">
<object type="PU" os_index="2" cpuset="0x00000004" gp_index="8"/>
<object type="PU" os_index="3" cpuset="0x00000008" gp_index="9"/></object>
<object type="Bridge" bridge_type="0-1" gp_index="20" bridge_pci="0000:[00-ff]" depth="0">
<object type="PCIDev" gp_index="21" pci_busid="0000:01:00.0" pci_type="0302 [10de:20b0]">
<object type="OSDev" gp_index="22" name="cuda0" subtype="CUDA" osdev_type="5">
<info name="GPUModel" value="A100"/></object></object>
<object type="PCIDev" gp_index="23" pci_busid="0000:02:00.0" pci_type="0302 [10de:20b0]">
<object type="OSDev" gp_index="24" name="cuda1" subtype="CUDA" osdev_type="5"/></object></object>
</object></object>
<distances2 type="OSDev" nbobjs="2" kind="1" name="NVLinkBandwidth" indexing="gp">
<indexes length="5">22 24</indexes><u64values length="9">0 25 25 0</u64values></distances2>
<memattr name="Bandwidth" flags="5"><memattr_value target_obj_gp_index="3"
 target_obj_type="NUMANode" value="100"/></memattr>
</topology>
"""


TOPO_TEXT = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV12\tPIX\t0-3,8\t0\tN/A\n"
    "GPU1\tNV12\t X \tSYS\t4-7\t1\tN/A\n"
    "NIC0\tPIX\tSYS\t X \n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


AMD_TEXT = """\
=== Weight between two GPUs ===
       GPU0         GPU1
GPU0   0            15
GPU1   15           0

=== Link Type between two GPUs ===
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0

NUMA BW TABLE:
             0000:c1:00.0 0000:c2:00.0
0000:c1:00.0 N/A          50000-200000
0000:c2:00.0 50000-200000 N/A

GPU[0]\t\t: (Topology) Numa Node: 3
"""

AMD_JSON = (
    '[{"gpu": 0, "bdf": "0000:c1:00.0", "links": [{"gpu": 1, "bdf": "0000:c2:00.0", "weight": 15, '
    '"link_type": "XGMI", "num_hops": 1, "bandwidth": "50000-200000"}]}]'
)

INTEL_TEXT = (
    "         GPU 0/0|GPU 0/1|GPU 1/0|CPU Affinity\n"
    "GPU 0/0 |S      |MDF    |XL16   |0-3\n"
    "GPU 0/1 |MDF    |S      |XL*    |0-3\n"
    "GPU 1/0 |XL16   |XL*    |S      |4-7\n"
)

LIST_TEXT = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a3)\n"
    "  MIG 1g.10gb     Device  0: (UUID: MIG-c6d)\n  MIG 2g.20gb     Device  1: (UUID: MIG-0)\n"
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-7b9)\n"
)

CLIQUE_TEXT = """\
    Fabric
        State                             : Completed
        CliqueId                          : 1
        ClusterUUID                       : a1b2c3d4-0000-1111-2222-333344445555
"""

#: Questions of guests: a topic, then the payload.
ASKED = (
    'ask\n{"version": 1, "resources": [{"type": "slot", "count": 2, "label": "x", "with": '
    '[{"type": "core", "count": 2}]}], "duration": 60, "queue": "", '
    '"constraints": {"ranks": ["0-2"]}, "options": {"locality": "required"}}',
    'job\n{"id": 2}',
    "look\n{}",
    "numbers\n",
    'totals\n{"drained": ["0-1", "5"]}',
    "jobs\n{}",
    'try\n{"R": true, "jobs": [{"resources": [{"type": "core", "count": 1}]}, '
    '{"resources": [{"type": "slot", "count": 2, "label": "x", "with": '
    '[{"type": "core", "count": 2}]}], "duration": 60}]}',
    'totals\n{"users": true}',
)

#: What sacct prints, and a table of another program.
SACCT = (
    "JobID|Submit|Elapsed|Timelimit|AllocTRES|NNodes|Partition|Account|Priority\n"
    "7|2026-11-02T08:00:00|02:00:00|1-04:00:00|cpu=8,gres/gpu:a100=2,node=2|2|batch|bio|5\n"
    "8|2026-11-02T08:00:00|00:01:00|UNLIMITED|cpu=8|1|batch|bio|5\n",
    'id,submit,eligible,duration,limit,shape\n"a ""b""",1,2.5,60,90,"slot=1/[core=1;gpu=1]"\n',
    "job_id,gpu_num,cpu_num,node_num,submit_time,duration,queue,AllocGRES\n"
    '1,8.0,32,2,2020-04-01 00:00:15,60,12,"gpu:2(IDX:0,1)"\n1,2\n'
    '1,0,32,2,2020-04-01 00:00:15,60,7,"PER_NODE:gpu:a100:2"\n2,0,2,1,5,60,3,\n3,0,2,1,5,60,4,\n',
)

SWF = (
    "; UnixStartTime: 1132444805\n;  MaxNodes: 64 (of 72)\n; MaxProcs: 512\n"
    "1 100 6 3600 128 -1 -1 120 7200 -1 1 17 3 -1 2 -1 -1 -1\n"
    "2 0 -1 18.50 8 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 1 60\n"
    "3 5 600 0 -1 -1 -1 16 600 2048 5 1 1 -1 1 4 -1 -1\n1 2\n",
)
